# SPDX-License-Identifier: MIT
"""Connections that live for a few messages, one after the other."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

COUNT = 30
# The probes of the first connection, with room. For each second that all connections take one is added.
PROBES = 15
MESSAGE = bytes(64)


def _probes(device: str) -> int:
    counters = Path("/sys/class/infiniband", device, "ports/1/hw_counters")
    return int((counters / "probes_sent").read_text())


def _visit(count: int) -> None:
    """Connect, a message each way, close: the client closes first."""
    with namespace("b"):
        listener = native.listen("sdp", B.address(4))
    with contextlib.closing(listener):
        port = native.own_name(listener)[1]
        for _ in range(count):
            with namespace("a"):
                client = native.make("sdp", B.address(4))
            with client:
                native.connect(client, B.address(4), port)
                client.sendall(MESSAGE)
                with native.accept(listener) as server:
                    check(server.recv(len(MESSAGE)) == MESSAGE, "the request differs")
                    server.sendall(MESSAGE)
                    check(client.recv(len(MESSAGE)) == MESSAGE, "the answer differs")
                    client.close()
                    check(not server.recv(1), "there is more than the request")


@scenario
def short_connections_share_what_is_known_of_the_peer() -> str:
    """rlo asks whether the peer is there for the first of them, and once a second."""
    before = {end.device: _probes(end.device) for end in (A, B)} if KIND == "rlo" else {}
    begin = time.monotonic()
    _visit(COUNT)
    most = PROBES + int(time.monotonic() - begin)
    for name, probes in before.items():
        asked = _probes(name) - probes
        check(asked <= most, f"{name} has sent {asked} probes for {COUNT} connections, not {most}")
    leftovers.await_empty_tables()
    return f"{COUNT} connections"


@scenario
def a_device_goes_right_behind_a_short_connection() -> None:
    """Nothing that stays for the next connection keeps the device, of either side."""
    for end in (A, B):
        for _ in range(limits.amount(4, 2)):
            _visit(2)
            with network.device_gone(end):
                pass
    traffic.works()
