# SPDX-License-Identifier: MIT
"""The queue pairs of a device, which no single user can exhaust: net.sdp.user_share."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import leftovers
import limits
import network
import traffic
from actor import Actor, Line
from network import A, B
from peer import namespace
from register import Skip, scenario
from stream import Listener
from twohosts import native
from twohosts.device import KIND
from twohosts.failure import check

PAIRS = Path("/sys/module/rlo/parameters/max_qp")
SHARE = Path("/proc/sys/net/sdp/user_share")
FEW = 24


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


def _take(user: int, listener: Listener, held: list) -> tuple[int, int, Actor]:
    actor = Actor("a", _connect, user, listener.port)
    while True:
        word = actor.word(limits.seconds(60))
        if word != "one more":
            return (*word, actor)
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
    with contextlib.ExitStack() as after:
        after.enter_context(network.device_afterwards(A))
        after.callback(lambda: network.exists(A.device) and network.remove(A.device))
        after.callback(PAIRS.write_text, pairs)
        after.callback(SHARE.write_text, share)
        network.remove(A.device)
        PAIRS.write_text(str(FEW))
        network.add(A)
        SHARE.write_text("25")
        for user in (1001, 1002):
            count, error, actor = _take(user, listener, accepted)
            check(count == FEW // 4, f"user {user} has {count} of {FEW} queue pairs")
            check(error == errno.ENOBUFS, f"the next is {traffic.name(error)}")
            after.callback(actor.end)
        counted = leftovers.stats("a")["user_share_exceeded"] - exceeded
        check(counted == 2, f"{counted} were counted")
    for stream in accepted:
        stream.close()
    listener.close()
    leftovers.await_empty_tables()
    traffic.works()
    return f"{FEW // 4} of {FEW} for each of two users"
