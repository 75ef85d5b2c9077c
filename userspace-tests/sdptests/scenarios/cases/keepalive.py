# SPDX-License-Identifier: MIT
"""SO_KEEPALIVE: silent peers are detected, healthy ones are not affected."""

from __future__ import annotations

import errno
import socket

from sdptests.peer.stream import Stream
from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.network import A
from sdptests.scenarios.register import packet_scenario, scenario
from sdptests.twohosts.failure import check

IDLE, INTERVAL, COUNT = 1, 1, 2
# The maximum time of the transport's own retries.
RETRIES = 12


def _watchful(stream: Stream) -> None:
    stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
    stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
    stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, COUNT)


#= test: KEEPALIVE-2
@packet_scenario
def keepalive_notices_a_silent_peer() -> str:
    """Nothing arrives from one host any more; idle connections with keepalive learn it in time."""
    watched = traffic.connect(3, configure=_watchful) + traffic.connect(
        1, version=6, configure=_watchful
    )
    trusting = traffic.connect(1)
    ends = traffic.ends_of(watched)
    with network.silent(A):
        limit = IDLE + INTERVAL * COUNT + limits.seconds(RETRIES)
        took = traffic.run(
            ends,
            lambda: all(end.end is not None for end in ends),
            limit,
            "the errors of the watched",
        )
        seen = {end.end for end in ends}
        check(seen <= {errno.ETIMEDOUT, errno.ECONNRESET}, f"ends: {set(map(traffic.name, seen))}")
        check(
            all(end.stream.is_idle() for end in traffic.ends_of(trusting)),
            "a connection without keepalive was ended",
        )
    for pair in watched:
        pair.close()
    for pair in trusting:
        pair.exchange(10_000)
    traffic.finish(trusting, limits.seconds(30))
    return f"noticed after {took:.1f} s"


@scenario
def keepalive_spares_an_idle_connection() -> str:
    """Any number of answered probes does not end a connection."""
    pairs = traffic.connect(2, configure=_watchful)
    before = {host: leftovers.stats(host)["keepalive_probes"] for host in leftovers.HOSTS}
    for host, count in before.items():
        # More in a row than the allowed number of unanswered ones.
        wanted = count + len(pairs) * (COUNT + 2)
        limits.until(
            "probes",
            limits.seconds(20),
            lambda h=host, w=wanted: leftovers.stats(h)["keepalive_probes"] >= w,
        )
    check(all(end.stream.is_idle() for end in traffic.ends_of(pairs)), "a connection has ended")
    for pair in pairs:
        pair.exchange(100_000)
    traffic.finish(pairs, limits.seconds(30))
    return f"{sum(leftovers.stats(h)['keepalive_probes'] - before[h] for h in before)} probes"
