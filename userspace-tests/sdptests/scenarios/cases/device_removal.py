# SPDX-License-Identifier: MIT
"""A device is removed while there are connections in every state."""

from __future__ import annotations

import errno
import select
import time

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import leftovers, limits, network, sleepers, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.scenarios.sleepers import NOBODY
from sdptests.scenarios.traffic import ENDLESS, Pair
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

# The seconds after which a connect without an answer gives up.
GIVES_UP = 3
# The transport's retries and a margin: the wait of a peer without a device.
RETRIES = 15


class Crowd:
    """Connections in every state, each with one end on a."""

    def __init__(self) -> None:
        busy, idle, few = limits.amount(24, 10), limits.amount(16, 6), limits.amount(4, 2)
        with namespace("a"):
            self.listener = Listener(A.address(4))
        with namespace("b"):
            self.narrow = Listener(B.address(4), backlog=0)
        self.busy = traffic.connect(busy) + traffic.connect(few, version=6)
        self.idle = traffic.connect(idle)
        self.half_closed = traffic.connect(few)
        self.orphans_on_a = traffic.connect(few)
        self.orphans_on_b = traffic.connect(few)
        for pair in self.half_closed[::2]:
            pair.client.shutdown()
        for pair in self.half_closed[1::2]:
            pair.server.shutdown()
        for pair in self.busy:
            pair.exchange(ENDLESS)
        for pair in self.orphans_on_a:
            pair.client.close()
        for pair in self.orphans_on_b:
            pair.server.close()
        with namespace("b"):
            self.queued = [
                Connecting(self.listener.address, self.listener.port) for _ in range(few)
            ]
        for one in self.queued:
            one.stream(limits.seconds(20))
        with namespace("a"):
            # One is accepted by the module, the others are told to try again.
            self.waiting = [Connecting(self.narrow.address, self.narrow.port) for _ in range(few)]
            self.searching = [Connecting(NOBODY, 5000) for _ in range(few)]

    def established(self) -> list[Pair]:
        """Pairs with both ends open."""
        return self.busy + self.idle + self.half_closed

    def close(self) -> None:
        """close(2) of everything but the listener."""
        for pair in self.established() + self.orphans_on_a + self.orphans_on_b:
            pair.close()
        for one in (*self.queued, *self.waiting, *self.searching):
            one.close()
        self.narrow.close()


def _events(fd: int) -> int:
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLOUT)
    found = poll.poll(0)
    return found[0][1] if found else 0


@scenario
def device_removal_ends_all_connections() -> str:
    """Busy, idle and half closed connections, orphans, unaccepted ones, connects in progress."""
    crowd = Crowd()
    ends = traffic.ends_of(crowd.established())
    busy = traffic.ends_of(crowd.busy)
    # The peers of those that were shut down. Otherwise the end of the stream may come with the removal.
    told = [pair.server for pair in crowd.half_closed[::2]] + [
        pair.client for pair in crowd.half_closed[1::2]
    ]

    def is_ready() -> bool:
        return all(end.received >= 100_000 for end in busy) and all(end.end == 0 for end in told)

    traffic.run(ends, is_ready, limits.seconds(60), "first data")
    finished = {end for end in ends if end.end == 0}
    with network.device_afterwards(A):
        removal = network.removal(A.device)
        traffic.run(ends, removal.ended, limits.seconds(30), "the removal")
        took = removal.end()
        for pair in crowd.established():
            events = _events(pair.client.fd)
            check(
                pair.client.end is not None or events & select.POLLERR,
                f"poll shows {events:#x} for a connection without device",
            )
        on_a = [pair.client for pair in crowd.established()]
        traffic.run(on_a, lambda: all(end.over for end in on_a), limits.seconds(5), "errors on a")
        # An end that has seen the end of the stream need not see an error afterwards.
        seen = {end.end for end in on_a if end not in finished}
        check(seen == {errno.ECONNRESET}, f"ends on a: {set(map(traffic.name, seen))}")
        # One of these was accepted by the module, whichever came first. On a slow machine the others have
        # given up before the device was removed.
        outcomes = [one.outcome(limits.seconds(10)) for one in crowd.waiting]
        others = [one for one in outcomes if one not in (0, errno.ECONNRESET)]
        check(
            len(others) >= len(outcomes) - 1 and {*others} <= {errno.ENETUNREACH, errno.ETIMEDOUT},
            f"connects end with {[traffic.name(one) for one in outcomes]}",
        )
        for one in crowd.searching:
            outcome = one.outcome(limits.seconds(10))
            check(
                outcome in (errno.ENETUNREACH, errno.EHOSTUNREACH),
                f"connect to nobody ends with {traffic.name(outcome)}",
            )
        # Peers learn it from their transport, if they have something to send.
        peers = [pair.server for pair in crowd.busy]
        traffic.run(
            peers, lambda: all(end.end for end in peers), limits.seconds(RETRIES), "errors on b"
        )
        check(
            {end.end for end in peers} <= {errno.ECONNRESET, errno.ETIMEDOUT},
            f"ends on b: {set(map(traffic.name, (end.end for end in peers)))}",
        )
        # Connections that waited for accept still do, and have ended.
        for _ in crowd.queued:
            number, _data = crowd.listener.accept(limits.seconds(5)).end(limits.seconds(5))
            check(number == errno.ECONNRESET, f"accepted, then {traffic.name(number)}")
        crowd.close()
        limits.until(
            "a table of a with nothing but the listener",
            limits.seconds(10),
            lambda: len(leftovers.table("a")) == 1,
        )
        with namespace("a"):
            try:
                late = Connecting(B.address(4), 5000).outcome(limits.seconds(10))
            except OSError as error:
                late = error.errno or 0
        check(late == errno.ENETUNREACH, f"connect without device: {traffic.name(late)}")
    pairs = traffic.connect(2, to="a", listener=crowd.listener)
    for pair in pairs:
        pair.exchange(100_000)
    traffic.finish(pairs, limits.seconds(30))
    return f"rdma link del took {took:.2f} s with {len(ends)} open ends"


def _poll(line: Line, port: int) -> None:
    sock = native.connected("sdp", B.address(4), port)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    line.say("ready")
    poll.poll()
    sock.recv(1)


def _epoll_edge(line: Line, port: int) -> None:
    sock = native.connected("sdp", B.address(4), port)
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    line.say("ready")
    poll.poll()
    sock.recv(1)


@scenario
def device_removal_wakes_who_sleeps() -> None:
    """Processes in recv, send, poll, epoll, connect and a lingering close return with an error."""
    with namespace("b"):
        listener = Listener(B.address(4))
    # A connect without an answer gives up after three seconds on every machine, so it comes last. On a slow one
    # the removal takes as long.
    calls = {
        sleepers.receive: "recvfrom",
        sleepers.send: "sendto",
        _poll: "poll",
        _epoll_edge: "epoll_wait",
        sleepers.close_lingering: "close",
        sleepers.resolve: "connect",
    }
    actors: list[Actor] = []
    accepted: list[Stream] = []
    try:
        for work, call in calls.items():
            began = time.monotonic()
            actor = Actor("a", work, listener.port)
            actors.append(actor)
            if work is not sleepers.resolve:
                accepted.append(listener.accept(limits.seconds(20)))
            actor.word(limits.seconds(20))
            actor.await_call(call, limits.seconds(20))
        with network.device_gone(A):
            is_late = time.monotonic() - began > GIVES_UP
            for actor, work in zip(actors, calls, strict=True):
                number = actor.error(limits.seconds(10))
                expected = {
                    sleepers.resolve: errno.ENETUNREACH,
                    sleepers.close_lingering: 0,
                }.get(work, errno.ECONNRESET)
                gave_up = work is sleepers.resolve and is_late and number == errno.EHOSTUNREACH
                check(number == expected or gave_up, f"{work.__name__}: {traffic.name(number)}")
                actor.reap(limits.seconds(10))
        for one in accepted:
            one.close()
    finally:
        for actor in actors:
            actor.end()


@scenario
def removal_amid_tries_to_find_a_peer() -> str:
    """The CM hears of the removal while it is told to look for the peer again."""
    amount, times = limits.amount(300, 100), 3
    said: dict[int, int] = {}
    for _ in range(times):
        with namespace("a"):
            searching = [Connecting(NOBODY, 5000) for _ in range(amount)]
        with network.device_gone(A):
            for one in searching:
                number = one.outcome(limits.seconds(10))
                said[number] = said.get(number, 0) + 1
                one.close()
    # On a slow machine they have given up before the device was removed.
    check(
        said.keys() <= {errno.ENETUNREACH, errno.EHOSTUNREACH},
        f"connects end with {set(map(traffic.name, said))}",
    )
    return ", ".join(f"{traffic.name(number)} {count}" for number, count in sorted(said.items()))
