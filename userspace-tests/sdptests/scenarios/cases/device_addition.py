# SPDX-License-Identifier: MIT
"""Listening sockets and devices that are added later."""

from __future__ import annotations

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.network import A
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check


@scenario
def listeners_take_connections_on_a_new_device() -> None:
    """By IPv4, IPv6 and the wildcard, without listening again."""
    with namespace("a"):
        listeners = {version: Listener(A.address(version)) for version in (4, 6)}
    # Listening on the wildcard works without a device, too.
    with network.device_gone(A), namespace("a"):
        listeners[0] = Listener("0.0.0.0")
    for version, listener in listeners.items():
        listener.address = A.address(version or 4)
        pairs = traffic.connect(2, to="a", version=version or 4, listener=listener)
        for pair in pairs:
            pair.exchange(50_000)
        traffic.finish(pairs, limits.seconds(30))
        check(listener.is_idle(), "more connections than were made")


@scenario
def removal_of_one_device_spares_the_other() -> None:
    """Connections on the first continue while another device of the host is removed."""
    spared = traffic.connect(2, to="b")
    end = network.End("a", "sparelink", "sparedev", 1, 9)
    network.command(
        "ip",
        "-n",
        "a",
        "-batch",
        "-",
        text=(
            "link add sparelink type dummy\nlink set sparelink mtu 4400 up\n"
            "addr add 10.0.9.1/24 dev sparelink\naddr add fd00:9::1/64 dev sparelink nodad\n"
        ),
    )
    try:
        network.add(end)
        for pair in spared:
            pair.exchange(100_000)
        network.remove(end.device)
        traffic.finish(spared, limits.seconds(30))
    finally:
        network.command("ip", "-n", "a", "link", "del", "sparelink")
