# SPDX-License-Identifier: MIT
"""A network namespace is deleted with its sockets."""

from __future__ import annotations

import contextlib
import select
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener, Stream
from sdptests.scenarios import limits, module, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import End
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import Failure, check

C = End("c", "vc", f"{KIND}c", 1, 7)
D = End("d", "vd", f"{KIND}d", 2, 7)


# Two, so that the names are reused; each takes a debug kernel most of a minute.
LIVES = limits.amount(2, 2 if limits.SOAK else 1)


def _serve(line: Line, end: End) -> None:
    listener = native.listen("sdp", end.address(4))
    idle = native.listen("sdp", end.address(6))
    line.say(native.own_name(listener)[1])
    held = []
    while True:
        held.append(native.accept(listener))
        if len(held) == 4:
            break
    line.say("accepted")
    traffic_end = traffic.End(Stream(held[0]), 1, 1)
    traffic_end.total = traffic.ENDLESS
    traffic.run([traffic_end], lambda: False, 600, f"killing of {idle}")


def _connect(line: Line, end: End, port: int) -> None:
    held = []
    for _ in range(4):
        sock = native.connected("sdp", end.address(4), port)
        held.append(sock)
    traffic_end = traffic.End(Stream(held[0]), 1, 1)
    traffic_end.total = traffic.ENDLESS
    traffic.run([traffic_end], lambda: traffic_end.received > 50_000, limits.seconds(60), "data")
    line.say("moving")
    select.poll().poll()


def _links(host: str) -> str:
    with namespace(host):
        return Path("/proc/thread-self/net/dev").read_text()


def _life_and_death() -> float:
    network.make_hosts(C, D)
    module.hurry("c", "d")
    actors = []
    try:
        server = Actor("d", _serve, D)
        actors.append(server)
        port = server.word(limits.seconds(20))
        client = Actor("c", _connect, D, port)
        actors.append(client)
        check(client.word(limits.seconds(60)) == "moving", "no data")
        client.kill()
        client.reap(limits.seconds(10))
        network.command("ip", "netns", "del", "c")
        # The link's other end disappears when the namespace really ends.
        took = limits.until(
            "the end of namespace c", limits.seconds(20), lambda: "vd:" not in _links("d")
        )
        limits.until(
            "the end of its device", limits.seconds(10), lambda: not network.exists(C.device)
        )
        server.kill()
        server.reap(limits.seconds(10))
        network.command("ip", "netns", "del", "d")
        limits.until(
            "the end of namespace d", limits.seconds(20), lambda: not network.exists(D.device)
        )
        return took
    finally:
        for actor in actors:
            actor.end()
        for host in ("c", "d"):
            with contextlib.suppress(Failure):
                network.command("ip", "netns", "del", host)


@scenario
def namespaces_are_deleted_with_connections_in_them() -> str:
    """Their processes are killed; then namespaces of the same names work."""
    times = [_life_and_death() for _ in range(LIVES)]
    traffic.works()
    return f"gone after {', '.join(f'{took:.1f} s' for took in times)}"


@scenario
def namespace_without_devices_is_deleted_under_listeners() -> None:
    """It does not affect a listener of the initial hosts."""
    network.command("ip", "netns", "add", "c")
    try:
        with namespace("c"):
            listener = Listener("0.0.0.0")
            sock = native.make("sdp", "10.0.0.1")
        network.command("ip", "netns", "del", "c")
        # Only the sockets hold the namespace.
        check(listener.is_idle(), "somebody came")
        listener.close()
        sock.close()
    except BaseException:
        with contextlib.suppress(Failure):
            network.command("ip", "netns", "del", "c")
        raise
    traffic.works()
