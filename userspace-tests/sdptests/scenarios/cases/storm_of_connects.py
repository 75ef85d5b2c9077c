# SPDX-License-Identifier: MIT
"""As many simultaneous connects as a server gets after a restart."""

from __future__ import annotations

import resource

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, traffic
from sdptests.scenarios.network import B
from sdptests.scenarios.register import long_scenario
from sdptests.twohosts.failure import check

COUNT = 1500


@long_scenario
def all_of_a_storm_come_about() -> str:
    """The last one waits while the connection manager handles the others, and succeeds."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * COUNT + 100, max(most, 2 * COUNT + 100)))
    failed = leftovers.stats("a")["failed_opens"]
    with namespace("b"):
        listener = Listener(B.address(4), backlog=COUNT)
    pairs = traffic.connect(COUNT, listener=listener)
    listener.close()
    check(leftovers.stats("a")["failed_opens"] == failed, "some were given up")
    traffic.check_some(pairs, "a connection of the storm")
    # A line for each of them and for the listener, for any number of reads.
    for host in leftovers.HOSTS:
        lines = leftovers.table(host)
        check(len(lines) == COUNT, f"{len(lines)} lines of {COUNT} in the table of {host}")
        check(len({line.split()[-1] for line in lines}) == COUNT, "a socket is there twice")
        numbers = [int(line.split(":")[0]) for line in lines]
        check(numbers == list(range(COUNT)), "the lines are not numbered in order")
    for pair in pairs:
        pair.close()
    leftovers.await_empty_tables()
    return f"{COUNT} connections"
