# SPDX-License-Identifier: MIT
"""Protection domains: the keys of one user are invalid on the queue pairs of another."""

from __future__ import annotations

import contextlib
import os

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native, resources
from sdptests.twohosts.failure import check
from sdptests.twohosts.hosts import namespaces

USERS = (1001, 1002)


def _domains() -> int:
    return resources.count(namespaces()[0]).get(f"{A.device} pd", 0)


def _connect(line: Line, user: int, port: int) -> None:
    os.setuid(user)
    held = []
    while True:
        sock = native.connected("sdp", B.address(4), port)
        held.append(sock)
        line.say("one more")
        line.hear()


@scenario
def users_have_protection_domains_of_their_own() -> str:
    """One for each user, for any number of connections, and none after the last one."""
    # A device keeps regions for their users' next zero copy, with the domains, for some time. A new device has none.
    with network.device_gone(A):
        pass
    before = _domains()
    with contextlib.ExitStack() as after:
        with namespace("b"):
            listener = Listener(B.address(4))
        after.callback(listener.close)
        actors = []
        for count, user in enumerate(USERS, start=1):
            actor = Actor("a", _connect, user, listener.port)
            after.callback(actor.end)
            actors.append(actor)
            for connection in range(2):
                if connection:
                    actor.tell("on")
                actor.word(limits.seconds(20))
                after.callback(listener.accept(limits.seconds(20)).close)
                found = _domains() - before
                check(found == count, f"{found} for {count} users, {connection + 1} connections")
    leftovers.await_empty_tables()
    limits.until("domains that go", limits.seconds(10), lambda: _domains() == before)
    traffic.works()
    return f"{len(USERS)} of {2 * len(USERS)} connections"
