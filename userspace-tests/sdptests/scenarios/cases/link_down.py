# SPDX-License-Identifier: MIT
"""The link between the hosts is unplugged."""

from __future__ import annotations

import errno

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import packet_scenario
from sdptests.scenarios.traffic import ENDLESS
from sdptests.twohosts.failure import check

# The transport's retries at most.
RETRIES = 12


@packet_scenario
def unplugged_link_ends_transfers_on_both_sides() -> str:
    """After the transport's retries; when the link is back, new connections work."""
    pairs = traffic.connect(limits.amount(4, 3)) + traffic.connect(1, version=6)
    ends = traffic.ends_of(pairs)
    for pair in pairs:
        pair.exchange(ENDLESS)
    traffic.run(
        ends, lambda: all(end.received >= 200_000 for end in ends), limits.seconds(60), "first data"
    )
    with network.unplugged(A):
        took = traffic.run(
            ends,
            lambda: all(end.end is not None for end in ends),
            limits.seconds(RETRIES),
            "the errors",
        )
        seen = {end.end for end in ends}
        check(seen <= {errno.ETIMEDOUT, errno.ECONNRESET}, f"ends: {set(map(traffic.name, seen))}")
        for pair in pairs:
            pair.close()
        with namespace("b"):
            listener = Listener(B.address(4))
        with namespace("a"):
            try:
                outcome = Connecting(B.address(4), listener.port).outcome(limits.seconds(20))
            except OSError as error:
                outcome = error.errno or 0
        check(
            outcome in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT),
            f"connect over it: {traffic.name(outcome)}",
        )
    traffic.works()
    traffic.works(version=6, to="a")
    return f"errors after {took:.1f} s"


@packet_scenario
def short_outage_is_survived() -> None:
    """A link that is back before the end of the retries costs time, but no bytes."""
    pairs = traffic.connect(2)
    ends = traffic.ends_of(pairs)
    for pair in pairs:
        pair.exchange(limits.amount(4_000_000, 1_000_000))
    traffic.run(
        ends, lambda: all(end.received >= 100_000 for end in ends), limits.seconds(60), "first data"
    )
    network.interrupt(B, A)
    traffic.finish(pairs, limits.seconds(60))
