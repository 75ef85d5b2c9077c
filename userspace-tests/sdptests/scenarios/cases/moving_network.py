# SPDX-License-Identifier: MIT
"""The network changes: addresses are removed and added, ports go down, bonds fail over.

A connection continues or ends with an error, and no call hangs; afterwards new ones can be made.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.network import A, B, End
from sdptests.scenarios.register import scenario
from sdptests.scenarios.traffic import ENDLESS
from sdptests.twohosts.device import sends_packets
from sdptests.twohosts.failure import check

# The maximum time of the transport's retries.
RETRIES = 12
MORE = 100_000
LOST = {errno.ETIMEDOUT, errno.ECONNRESET}


def _moving(pairs: Sequence[traffic.Pair]) -> None:
    for pair in pairs:
        pair.exchange(ENDLESS)
    ends = traffic.ends_of(pairs)
    traffic.run(
        ends, lambda: all(end.received >= MORE for end in ends), limits.seconds(60), "first data"
    )


def _decided(pairs: Sequence[traffic.Pair]) -> str:
    """Each connection continues or ends, on both ends; returns which."""
    ends = traffic.ends_of(pairs)
    before = [end.received for end in ends]

    def is_decided(end: traffic.End, then: int) -> bool:
        return end.end is not None or end.received >= then + MORE

    took = traffic.run(
        ends,
        lambda: all(map(is_decided, ends, before)),
        limits.seconds(RETRIES),
        "going on or an error",
    )
    seen = {end.end for end in ends}
    check(seen <= LOST | {None}, f"ends: {set(map(traffic.name, seen))}")
    return f"{', '.join(sorted(map(traffic.name, seen)))} after {took:.1f} s"


def _fails(host: str, address: str, port: int) -> None:
    """connect() fails quickly."""
    with namespace(host):
        try:
            connecting = Connecting(address, port)
        except OSError as error:
            number = error.errno
        else:
            number = connecting.outcome(limits.seconds(20))
            connecting.close()
    expected = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EADDRNOTAVAIL)
    check(number in expected, f"connect: {traffic.name(number)}")


@contextlib.contextmanager
def _without_address(end: End, version: int) -> Iterator[None]:
    length = 24 if version == 4 else 64
    address = f"{end.address(version)}/{length}"
    network.command("ip", "-n", end.host, "addr", "del", address, "dev", end.link)
    try:
        yield
    finally:
        network.bring_up(end, network.PEER[end.host])
        network.manage(end)
        network.manage(network.PEER[end.host])


@scenario
def address_that_goes_takes_no_call_with_it() -> str:
    """The GID of busy connections is removed."""
    said = []
    for version in (4, 6):
        pairs = traffic.connect(2, version=version)
        _moving(pairs)
        with _without_address(A, version):
            said.append(f"IPv{version}: {_decided(pairs)}")
            with namespace("b"):
                listener = Listener(B.address(version))
            _fails("a", listener.address, listener.port)
            for pair in pairs:
                pair.close()
            listener.close()
        traffic.works(version)
        traffic.works(version, to="a")
    return "; ".join(said)


@scenario
def address_that_comes_back_finds_its_connections() -> str:
    """The GID of idle connections is removed and added; they continue, or have ended."""
    pairs = traffic.connect(2)
    for pair in pairs:
        pair.exchange(10_000)
    ends = traffic.ends_of(pairs)
    traffic.run(
        ends, lambda: all(end.received == 10_000 for end in ends), limits.seconds(30), "data"
    )
    with _without_address(A, 4):
        pass
    for pair in pairs:
        pair.exchange(ENDLESS)
    said = _decided(pairs)
    for pair in pairs:
        pair.close()
    traffic.works()
    return said


@scenario
def port_that_goes_down_takes_no_call_with_it() -> str:
    """And comes up again."""
    pairs = traffic.connect(2) + traffic.connect(1, version=6)
    _moving(pairs)
    with network.unplugged(A):
        said = _decided(pairs)
        with namespace("b"):
            listener = Listener(B.address(4))
        _fails("a", listener.address, listener.port)
        listener.close()
        for pair in pairs:
            pair.close()
    traffic.works()
    traffic.works(version=6, to="a")
    return said


# Bonds of two interfaces each.
BA = End("a", "bonda", "bda", 1, 6)
BB = End("b", "bondb", "bdb", 2, 6)


def _set(host: str, *words: str) -> None:
    network.command("ip", "-n", host, "link", "set", *words)


@contextlib.contextmanager
def _bonds() -> Iterator[None]:
    """Two hosts, joined by a bond of two links; one carries all packets."""
    links = [
        f"link add ba{number} netns a type veth peer name bb{number} netns b" for number in (0, 1)
    ]
    network.command("ip", "-batch", "-", text="\n".join(links) + "\n")
    try:
        for end, prefix in ((BA, "ba"), (BB, "bb")):
            words = f"link add {end.link} address {end.hardware} type bond mode active-backup"
            network.command("ip", "-n", end.host, *words.split(), "miimon", "50")
            for number in (0, 1):
                _set(end.host, f"{prefix}{number}", "mtu", "4400")
                _set(end.host, f"{prefix}{number}", "master", end.link)
                _set(end.host, f"{prefix}{number}", "up")
            _set(end.host, end.link, "up")
        network.bring_up(BA, BB)
        for end in (BA, BB):
            network.add(end)
            network.await_port(end)
        yield
    finally:
        for end in (BA, BB):
            if network.exists(end.device):
                network.remove(end.device)
        for number in (0, 1):
            network.command("ip", "-n", "a", "link", "del", f"ba{number}")
        for end in (BA, BB):
            network.command("ip", "-n", end.host, "link", "del", end.link)


def _bond_works(version: int) -> traffic.Pair:
    with namespace("b"):
        listener = Listener(BB.address(version))
    with namespace("a"):
        connecting = Connecting(listener.address, listener.port)
    pair = traffic.Pair(connecting.stream(limits.seconds(20)), listener.accept(), 1)
    listener.close()
    return pair


@scenario
def bond_that_loses_its_links_takes_no_call_with_it() -> str:
    """First one link is lost, then both; then one is back."""
    with _bonds():
        pairs = [_bond_works(4), _bond_works(6)]
        _moving(pairs)
        ends = traffic.ends_of(pairs)
        _set("a", "ba0", "down")
        said = _decided(pairs)
        # Queue pairs of rxe do not survive it: they fail at once.
        if not sends_packets():
            check(all(end.end is None for end in ends), f"lost: {said}")
        _set("a", "ba1", "down")
        traffic.run(
            ends,
            lambda: all(end.end is not None for end in ends),
            limits.seconds(RETRIES),
            "the errors",
        )
        seen = {end.end for end in ends}
        check(seen <= LOST, f"ends: {set(map(traffic.name, seen))}")
        for pair in pairs:
            pair.close()
        _set("a", "ba1", "up")
        network.bring_up(BA, BB)
        network.manage(BA)
        network.manage(BB)
        for version in (4, 6):
            pair = _bond_works(version)
            pair.exchange(MORE)
            traffic.finish([pair], limits.seconds(60))
            pair.close()
    traffic.works()
    return said
