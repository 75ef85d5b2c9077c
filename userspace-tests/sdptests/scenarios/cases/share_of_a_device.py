# SPDX-License-Identifier: MIT
"""The queue pairs of a device, which no single user can exhaust: net.sdp.user_share."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts import native
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

PAIRS = Path("/sys/module/rlo/parameters/max_qp")
SHARE = Path("/proc/sys/net/sdp/user_share")
FEW = 24
# The first of somebody's users in /etc/subuid.
SUBORDINATE = 100_000


def _connect(line: Line, user: int, port: int) -> int:
    os.setuid(user)
    held = []
    for count in range(FEW):
        sock = native.make("sdp", B.address(4))
        held.append(sock)
        try:
            native.connect(sock, B.address(4), port)
        except OSError as error:
            line.say((count, error.errno))
            break
        line.say("one more")
    line.hear()
    return len(held)


def _take(user: int, listener: Listener, held: list) -> tuple:
    actor = Actor("a", _connect, user, listener.port)
    return (*_until_no_more(actor, listener, held), actor)


def _connect_as_subordinate(line: Line, creator: int, inner: int, port: int) -> int:
    """As a user of a user namespace that `creator` makes, and root fills in."""
    os.setuid(creator)
    os.unshare(os.CLONE_NEWUSER)
    line.say(os.getpid())
    line.hear()
    return _connect(line, inner, port)


def _take_as_subordinate(creator: int, inner: int, listener: Listener, held: list) -> tuple:
    actor = Actor("a", _connect_as_subordinate, creator, inner, listener.port)
    pid = actor.word(limits.seconds(20))
    Path(f"/proc/{pid}/uid_map").write_text(f"0 {creator} 1\n1 {SUBORDINATE} 1000\n")
    actor.tell("mapped")
    return (*_until_no_more(actor, listener, held), actor)


def _until_no_more(actor: Actor, listener: Listener, held: list) -> tuple[int, int]:
    while True:
        word = actor.word(limits.seconds(60))
        if word != "one more":
            return word
        held.append(listener.accept(limits.seconds(20)))


@scenario
def a_user_has_a_share_of_a_device() -> str:
    """A user that makes many connections leaves queue pairs to others."""
    if KIND != "rlo":
        raise Skip("a device with few queue pairs is needed")
    pairs, share = PAIRS.read_text(), SHARE.read_text()
    with namespace("b"):
        listener = Listener(B.address(4), backlog=FEW)
    exceeded = leftovers.stats("a")["user_share_exceeded"]
    accepted: list = []
    takers: list[tuple[str, int, Callable[[], tuple[int, int, Actor]]]] = [
        (f"user {user}", FEW // 4, functools.partial(_take, user, listener, accepted))
        for user in (1001, 1002)
    ]
    # One person, first as one and then as another of the users that the person has.
    takers += [
        (
            f"user 1003 as subordinate {inner}",
            count,
            functools.partial(_take_as_subordinate, 1003, inner, listener, accepted),
        )
        for inner, count in ((1, FEW // 4), (2, 0))
    ]
    with contextlib.ExitStack() as after:
        after.enter_context(network.device_afterwards(A))
        after.callback(lambda: network.exists(A.device) and network.remove(A.device))
        after.callback(PAIRS.write_text, pairs)
        after.callback(SHARE.write_text, share)
        network.remove(A.device)
        PAIRS.write_text(str(FEW))
        network.add(A)
        SHARE.write_text("25")
        for name, share_of_it, take in takers:
            count, error, actor = take()
            after.callback(actor.end)
            check(count == share_of_it, f"{name} has {count} of {FEW} queue pairs")
            check(error == errno.ENOBUFS, f"the next of {name} is {traffic.name(error)}")
        counted = leftovers.stats("a")["user_share_exceeded"] - exceeded
        check(counted == len(takers), f"{counted} were counted")
    for stream in accepted:
        stream.close()
    listener.close()
    leftovers.await_empty_tables()
    traffic.works()
    return f"{FEW // 4} of {FEW} for each of three users"
