# SPDX-License-Identifier: MIT
"""A datagram of the connection manager is lost."""

from __future__ import annotations

import errno
import json
import socket
import struct

from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.network import B, End
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check

# The connection manager repeats it after a second.
AGAIN = 5


def _lost(end: End) -> int:
    """The number of lost packets of the host."""
    shown = json.loads(network.command("tc", "-n", end.host, "-s", "-j", "qdisc", "show"))
    return sum(one["drops"] for one in shown if one.get("dev") == end.link)


def _abort(pair: traffic.Pair) -> None:
    """close(2) of b's end, with a reset."""
    at_once = struct.pack("ii", 1, 0)
    pair.server.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    pair.server.close()


def _await_resets(pairs: list[traffic.Pair], what: str) -> float:
    ends = [pair.client for pair in pairs]
    took = traffic.run(
        ends, lambda: all(end.end is not None for end in ends), limits.seconds(AGAIN), what
    )
    seen = {end.end for end in ends}
    check(seen == {errno.ECONNRESET}, f"ends: {set(map(traffic.name, seen))}")
    for pair in pairs:
        pair.client.close()
    return took


@scenario
def abort_is_learnt_although_its_first_word_is_lost() -> str:
    """A side that only reads has no request that could fail; the peer must repeat its message."""
    pairs = traffic.connect(2) + traffic.connect(1, version=6)
    before = _lost(B)
    with network.silent(B):
        for pair in pairs:
            _abort(pair)
        limits.until(
            "the first words", limits.seconds(5), lambda: _lost(B) >= before + len(pairs)
        )
    took = _await_resets(pairs, "the resets")
    return f"learnt after {took:.1f} s"


@scenario
def abort_that_nobody_hears_is_given_up() -> str:
    """The remaining state ends with the time limit of a closed connection."""
    pairs = traffic.connect(1)
    with network.silent(B):
        _abort(pairs[0])
        took = limits.until(
            "the end of the connection",
            limits.seconds(10),
            lambda: not leftovers.table("b"),
        )
    pairs[0].client.close()
    return f"given up after {took:.1f} s"


@scenario
def removal_does_not_wait_for_an_abort_to_be_heard() -> str:
    """The peer learns of it in another way meanwhile."""
    pairs = traffic.connect(2)
    with network.silent(B):
        for pair in pairs:
            _abort(pair)
        with network.device_afterwards(B):
            took = network.remove(B.device)
    for pair in pairs:
        pair.client.close()
    traffic.works()
    traffic.works(to="a")
    return f"removed after {took:.1f} s"


@scenario
def aborts_in_a_row_leave_nothing() -> None:
    """One socket that connects and aborts many times."""
    for _ in range(limits.amount(40, 12)):
        pair = traffic.connect(1)[0]
        _abort(pair)
        _await_resets([pair], "the reset")
    leftovers.await_empty_tables()
