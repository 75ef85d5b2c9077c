# SPDX-License-Identifier: MIT
"""A message of the connection manager fails at the device."""

from __future__ import annotations

from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import leftovers, limits
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

ROUNDS = 3


def _received(server: Stream) -> bytes:
    """The first bytes; none if the client has closed, which resets a connection that is still being made."""
    try:
        return server.receive(5)
    except ConnectionResetError:
        return b""


@scenario
def connections_are_made_after_a_failed_datagram() -> str:
    """ib_mad starts the send queue again, so only that one message is lost."""
    if KIND not in ("rlo", "rlo_ib"):
        raise Skip("the fault is one of rlo")
    fault = Path(f"/sys/kernel/debug/rlo/{A.device}/fail_requests")
    with namespace("b"):
        listener = Listener(B.address(4))
    for _ in range(ROUNDS):
        fault.write_text("1")
        with namespace("a"):
            failing = Connecting(listener.address, listener.port)
        limits.until("the fault", limits.seconds(10), lambda: fault.read_text().strip() == "0")
        failing.close()
        with namespace("a"):
            client = Connecting(listener.address, listener.port).stream(limits.seconds(10))
        server = listener.accept(limits.seconds(10))
        client.send(b"bytes")
        data = _received(server)
        if not data:
            # The first connection was made after all, and is closed.
            server.close()
            server = listener.accept(limits.seconds(10))
            data = _received(server)
        check(data == b"bytes", "other bytes")
        client.close()
        server.close()
    listener.close()
    leftovers.await_empty_tables()
    return f"{ROUNDS} messages failed"
