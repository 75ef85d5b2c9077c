# SPDX-License-Identifier: MIT
"""A device is removed while connections are being made on it."""

from __future__ import annotations

import contextlib
import errno
import select
import socket

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener
from sdptests.scenarios import leftovers, limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import long_scenario, scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

LEGITIMATE = {
    errno.ENETUNREACH,
    errno.ECONNRESET,
    errno.ECONNREFUSED,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.EPIPE,
    errno.ENOTCONN,
}


def _attempt(address: str, port: int) -> None:
    sock = native.make("sdp", address)
    with contextlib.closing(sock):
        sock.settimeout(None)
        native.connect(sock, address, port)
        sock.sendall(b"x" * 10_000)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def _connect_again_and_again(line: Line, address: str, port: int) -> None:
    made, seen = 0, set()
    line.say("ready")
    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    while not poll.poll(0):
        try:
            _attempt(address, port)
            made += 1
        except OSError as error:
            seen.add(error.errno)
    line.hear()
    line.say((made, seen))


def _serve(line: Line, address: str) -> None:
    listener = native.listen("sdp", address)
    line.say(native.own_name(listener)[1])
    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    poll.register(listener, select.POLLIN)
    while line.fileno() not in dict(poll.poll()):
        sock = native.accept(listener)
        with contextlib.closing(sock), contextlib.suppress(OSError):
            while sock.recv(65536):
                pass


@long_scenario
def devices_come_and_go_while_connections_are_made() -> str:
    """Processes connect in both directions all the time; each attempt works or fails cleanly."""
    rounds = limits.amount(4, 3)
    servers = [Actor("a", _serve, A.address(4)), Actor("b", _serve, B.address(4))]
    actors = list(servers)
    made = 0
    try:
        ports = [server.word(limits.seconds(10)) for server in servers]
        clients = [
            Actor(host, _connect_again_and_again, peer.address(4), port)
            for host, peer, port in (("b", A, ports[0]), ("a", B, ports[1])) * 2
        ]
        actors += clients
        for client in clients:
            client.word(limits.seconds(10))
        for _ in range(rounds):
            before = leftovers.stats("b")["active_opens"]
            limits.until(
                "connections",
                limits.seconds(30),
                lambda b=before: leftovers.stats("b")["active_opens"] > b + 2,
            )
            with network.device_gone(A):
                pass
        for client in clients:
            client.tell("enough")
        for client in clients:
            count, seen = client.word(limits.seconds(40))
            made += count
            check(seen <= LEGITIMATE, f"connections end with {set(map(traffic.name, seen))}")
        check(made > 0, "no connection was made")
    finally:
        for actor in actors:
            actor.end()
    traffic.works()
    traffic.works(to="a")
    return f"{made} connections between {rounds} removals"


@scenario
def removal_does_not_wait_for_a_refused_connect() -> str:
    """A failed socket that stays open holds no part of the device."""
    with namespace("b"):
        listener = Listener(B.address(4))
    listener.close()
    with namespace("a"):
        refused = [Connecting(B.address(4), listener.port) for _ in range(4)]
    for one in refused:
        check(one.outcome(limits.seconds(20)) == errno.ECONNREFUSED, "the port is closed")
    with network.device_gone(A):
        pass
    for one in refused:
        one.close()
    traffic.works()
    return "refused connects stay open"
