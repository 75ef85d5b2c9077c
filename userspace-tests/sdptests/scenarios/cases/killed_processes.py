# SPDX-License-Identifier: MIT
"""Processes are killed during system calls."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import leftovers, limits, sleepers, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check


def _exchange(sock: socket.socket, line: Line) -> None:
    sock.setblocking(False)
    end = traffic.End(Stream(sock), 1, 1)
    end.total = traffic.ENDLESS
    traffic.run([end], lambda: end.received > 100_000, limits.seconds(60), "first data")
    line.say("moving")
    traffic.run([end], lambda: end.end is not None, limits.seconds(60), "the end")


def _exchange_as_client(line: Line, port: int) -> None:
    _exchange(native.connected("sdp", B.address(4), port), line)


def _exchange_as_server(line: Line) -> None:
    listener = native.listen("sdp", B.address(4))
    line.say(native.own_name(listener)[1])
    _exchange(native.accept(listener), line)


@scenario
def both_ends_killed_in_mid_transfer() -> str:
    """Nothing of the connections is left, although no process closes them."""
    count = limits.amount(4, 2)
    servers = [Actor("b", _exchange_as_server) for _ in range(count)]
    actors = list(servers)
    try:
        ports = [server.word(limits.seconds(20)) for server in servers]
        actors += [Actor("a", _exchange_as_client, port) for port in ports]
        for actor in actors:
            check(actor.word(limits.seconds(60)) == "moving", "an actor is lost")
        for actor in actors:
            actor.kill()
        for actor in actors:
            actor.reap(limits.seconds(10))
    finally:
        for actor in actors:
            actor.end()
    return f"tables empty after {leftovers.await_empty_tables():.2f} s"


def _accept(line: Line, _port: int) -> None:
    listener = native.listen("sdp", A.address(4))
    line.say("ready")
    native.accept(listener)


def _connect(line: Line, port: int) -> None:
    sock = native.make("sdp", B.address(4))
    line.say("ready")
    native.connect(sock, B.address(4), port)


def _killed_in(call: str, work: Callable[..., None], *, accepted: bool, backlog: int = 8) -> None:
    with namespace("b"):
        listener = Listener(B.address(4), backlog=backlog)
    peers = []
    if not backlog:
        # Further connects are told to try again.
        with namespace("a"):
            first = Connecting(listener.address, listener.port)
        first.outcome(limits.seconds(20))
    actor = Actor("a", work, listener.port)
    try:
        if accepted:
            peers.append(listener.accept(limits.seconds(20)))
        check(actor.word(limits.seconds(20)) == "ready", "the actor failed")
        actor.await_call(call, limits.seconds(20))
        actor.kill()
        actor.reap(limits.seconds(5))
    finally:
        actor.end()
    for peer in peers:
        number, _ = peer.end(limits.seconds(15))
        check(number in (0, errno.ECONNRESET), f"the peer sees {traffic.name(number)}")


@scenario
def killed_while_it_receives() -> None:
    """The peer gets the end of the stream."""
    _killed_in("recvfrom", sleepers.receive, accepted=True)


@scenario
def killed_while_it_sends() -> None:
    """The peer gets the sent bytes, and an end."""
    _killed_in("sendto", sleepers.send, accepted=True)


@scenario
def killed_while_its_close_lingers() -> None:
    """Although SO_LINGER has ten minutes."""
    _killed_in("close", sleepers.close_lingering, accepted=True)


@scenario
def killed_while_it_accepts() -> None:
    """No connection arrived."""
    _killed_in("accept", _accept, accepted=False)


@scenario
def killed_while_it_connects() -> None:
    """To a listener without room in its backlog."""
    _killed_in("connect", _connect, accepted=False, backlog=0)


@scenario
def killed_while_it_resolves() -> None:
    """To an address that no host has."""
    _killed_in("connect", sleepers.resolve, accepted=False)


@scenario
def listener_killed_with_connections_waiting() -> None:
    """Unaccepted connections are reset."""

    def listen(line: Line) -> None:
        listener = native.listen("sdp", B.address(4))
        line.say(native.own_name(listener)[1])
        select.poll().poll()

    actor = Actor("b", listen)
    try:
        port = actor.word(limits.seconds(20))
        with namespace("a"):
            waiting = [Connecting(B.address(4), port) for _ in range(5)]
        streams = [one.stream(limits.seconds(20)) for one in waiting]
        actor.kill()
        actor.reap(limits.seconds(5))
        for stream in streams:
            number, _ = stream.end(limits.seconds(15))
            check(number == errno.ECONNRESET, f"the end is {traffic.name(number)}")
    finally:
        actor.end()
