# SPDX-License-Identifier: MIT
"""Packets are lost, delayed, duplicated and reordered, but the stream is intact."""

from __future__ import annotations

import time

from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.register import long_packet_scenario, packet_scenario
from sdptests.scenarios.uncopied import MIB, REGIONS, lending, received, regions, transfer
from sdptests.twohosts.failure import check


def _carried(*netem: str) -> str:
    with network.disturbed(*netem):
        pairs = traffic.connect(2) + traffic.connect(1, version=6)
        for pair in pairs:
            pair.exchange(limits.amount(3_000_000, 600_000))
        begin = time.monotonic()
        traffic.finish(pairs, limits.seconds(90))
        took = time.monotonic() - begin
        for pair in pairs:
            pair.close()
    total = sum(end.received for end in traffic.ends_of(pairs))
    return f"{total / took / 1e6:.1f} MB/s"


@packet_scenario
def streams_are_right_with_packets_lost() -> str:
    """One in a hundred."""
    return _carried("loss", "1%")


@long_packet_scenario
def streams_are_right_with_packets_late() -> str:
    """By some milliseconds."""
    return _carried("delay", "3ms")


@long_packet_scenario
def streams_are_right_with_packets_doubled() -> str:
    """One in twenty."""
    return _carried("duplicate", "5%")


@packet_scenario
def streams_are_right_with_packets_out_of_order() -> str:
    """One in a hundred overtakes the others."""
    return _carried("delay", "1ms", "reorder", "1%")


@packet_scenario
def memory_is_lent_with_packets_lost() -> str:
    """A request is repeated; the region behind it is not registered again."""
    data = bytes(range(256)) * (limits.amount(16, 4) * MIB // 256)
    begin = time.monotonic()
    # The second round uses one region for all calls, which have their memory from the cache.
    for piece, most in ((len(data), REGIONS), (32 << 10, 1)):
        before = received("b")
        with lending(), regions(most), network.disturbed("loss", "1%"):
            transfer(data, piece, 90)
        check(received("b") > before, f"nothing came without a copy, {piece} bytes a call")
    took = time.monotonic() - begin
    return f"{2 * len(data) / took / 1e6:.1f} MB/s"
