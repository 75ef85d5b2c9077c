# SPDX-License-Identifier: MIT
"""Many idle connections, and leftovers after their end."""

from __future__ import annotations

from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.register import long_scenario
from sdptests.twohosts.failure import check

COUNT = 200
# One page for each connection, so that the smallest leak per connection shows. KASAN keeps freed
# memory for a while.
GROWTH_KIB = limits.amount(COUNT * 4, COUNT * 4 + (40 << 10))


def _hold() -> int:
    """All connections, used once and then idle; returns the KiB of memory that they take."""
    before = leftovers.memory()
    pairs = []
    for _ in range(COUNT // 25):
        pairs += traffic.connect(25)
    for host in leftovers.HOSTS:
        check(
            leftovers.counted_sockets(host) == COUNT,
            f"{leftovers.counted_sockets(host)} sockets in /proc/net/protocols of {host}",
        )
        check(len(leftovers.table(host)) == COUNT, "a socket is not in the table")
        check(leftovers.stats(host)["established"] == COUNT, "the counter of established ones")
    used = leftovers.memory() - before
    traffic.check_some(pairs, "an idle connection")
    for pair in pairs:
        pair.close()
    leftovers.await_empty_tables()
    return used


@long_scenario
def idle_connections_leave_nothing() -> str:
    """Sockets, resources and memory are released once they are closed."""
    # The first round fills permanent caches.
    _hold()
    before = leftovers.memory()
    used = _hold()
    leftovers.await_no_sockets()
    for host in leftovers.HOSTS:
        check(leftovers.stats(host)["established"] == 0, "the counter of established ones")
    grown = 0

    def back() -> bool:
        nonlocal grown
        grown = leftovers.memory() - before
        return grown <= GROWTH_KIB

    limits.until("memory", limits.seconds(10), back)
    # Workers drop the last references to queue pairs.
    limits.until(
        "the end of all sockets", limits.seconds(10), lambda: not leftovers.slab_objects("SDP")
    )
    return f"{used / COUNT / 2:.1f} KiB per idle socket; {grown} KiB more afterwards"
