# SPDX-License-Identifier: MIT
"""Rules of the routing tables: marks, users, gateways, VRFs. Each is tested with TCP and SDP."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import network, traffic
from sdptests.scenarios.network import A, B, End
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts import native
from sdptests.twohosts.device import sends_packets
from sdptests.twohosts.failure import check

FAMILIES = ("tcp", "sdp")
MARK, FORBIDDEN = 7, 8
USER = 1234
TABLE = "100"
OTHER = {4: "10.0.0.77", 6: "fd00::77"}
NETWORK = {4: "10.0.0.0/24", 6: "fd00::/64"}


@dataclass(frozen=True)
class Terms:
    """The options of a socket, and the user that makes it."""

    mark: int = 0
    user: int = 0
    device: str = ""
    # SO_DONTROUTE
    on_link: bool = False

    def make(self, family: str, address: str) -> socket.socket:
        """A socket for the family of that address, in the caller's namespace."""
        os.seteuid(self.user)
        try:
            sock = native.make(family, address)
        finally:
            os.seteuid(0)
        if self.mark:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self.mark)
        if self.on_link:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
        if self.device:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.device.encode())
        return sock


PLAIN = Terms()


def _listen(family: str, host: str, address: str, terms: Terms = PLAIN) -> socket.socket:
    with namespace(host):
        sock = terms.make(family, address)
    try:
        native.bind(sock, address, 0)
        sock.listen(4)
    except OSError:
        sock.close()
        raise
    return sock


def _connect(family: str, host: str, to: tuple[str, int], terms: Terms = PLAIN) -> socket.socket:
    with namespace(host):
        sock = terms.make(family, to[0])
    # Within the kernel's own time limit; a hanging one is ended from outside.
    try:
        native.connect(sock, *to)
    except OSError:
        sock.close()
        raise
    return sock


def _outcome(what: Callable[[], object]) -> object:
    """Its result, or the name of its error."""
    try:
        return what()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


def _source(family: str, host: str, to: tuple[str, int], terms: Terms = PLAIN) -> object:
    """The local address for that destination, or the name of an error."""

    def find() -> str:
        with _connect(family, host, to, terms) as sock:
            return native.own_name(sock)[0]

    return _outcome(find)


def _same(what: str, expected: object, ask: Callable[[str], object]) -> None:
    """TCP and SDP give the same, expected answer."""
    for family in FAMILIES:
        answer = ask(family)
        check(answer == expected, f"{what}, {family}: {answer} and not {expected}")


@contextlib.contextmanager
def _rules() -> Iterator[None]:
    """Marked packets of host a, and a user's packets, have their own routing table."""
    lines = []
    for version, flag in ((4, ""), (6, "-6 ")):
        lines += [
            f"{flag}rule add fwmark {MARK} lookup {TABLE}",
            f"{flag}rule add uidrange {USER}-{USER} lookup {TABLE}",
            f"{flag}rule add fwmark {FORBIDDEN} prohibit",
        ]
        length = 24 if version == 4 else 64
        # An address that is used only on request.
        settings = " nodad preferred_lft 0" if version == 6 else ""
        lines.append(f"{flag}addr add {OTHER[version]}/{length} dev {A.link}{settings}")
    with network.configured(A.host, *lines):
        for address in OTHER.values():
            network.await_address(A, address)
        yield


@scenario
def marks_and_users_decide_about_the_way() -> None:
    """Rules of `ip rule` about SO_MARK and the socket's user."""
    with _rules():
        for version, flag in ((4, ""), (6, "-6 ")):
            route = f"{flag}route add {NETWORK[version]} dev {A.link} src {OTHER[version]}"
            with network.configured(A.host, f"{route} table {TABLE}"):
                for name, terms, expected in (
                    ("plain", PLAIN, A.address(version)),
                    ("a mark", Terms(mark=MARK), OTHER[version]),
                    ("another mark", Terms(mark=99), A.address(version)),
                    ("a user", Terms(user=USER), OTHER[version]),
                    ("a mark that is forbidden", Terms(mark=FORBIDDEN), "EACCES"),
                ):
                    for family in FAMILIES:
                        with _listen(family, "b", B.address(version)) as listener:
                            to = native.own_name(listener)
                            answer = _source(family, "a", to, terms)
                            check(
                                answer == expected,
                                f"IPv{version}, {name}, {family}: {answer} and not {expected}",
                            )
    traffic.works()


@scenario
def the_gateway_of_a_marked_connection_is_asked() -> None:
    """A peer that only one table can reach, by a next hop that only this table has."""
    if sends_packets():
        raise Skip("rxe finds a way for each packet by itself, without the socket's mark")
    far = {4: "10.9.0.2", 6: "fd09::2"}
    gateway = {4: "10.0.0.254", 6: "fd00::254"}
    with _rules():
        for version, flag in ((4, ""), (6, "-6 ")):
            length = 32 if version == 4 else 128
            nodad = " nodad" if version == 6 else ""
            behind = network.configured(
                B.host,
                f"{flag}addr add {far[version]}/{length} dev {B.link}{nodad}",
            )
            before = network.configured(
                A.host,
                f"neigh add {gateway[version]} lladdr {B.hardware} nud permanent dev {A.link}",
                f"{flag}route add {far[version]} via {gateway[version]} dev {A.link} "
                f"table {TABLE}",
            )
            with behind, before:
                network.await_address(B, far[version])
                for family in FAMILIES:
                    with _listen(family, "b", far[version]) as listener:
                        to = native.own_name(listener)
                        name = f"IPv{version}, {family}"
                        answer = _source(family, "a", to)
                        check(answer == "ENETUNREACH", f"{name}, without a mark: {answer}")
                        if version == 4:
                            answer = _source(family, "a", to, Terms(mark=MARK, on_link=True))
                            check(answer == "ENETUNREACH", f"{name}, on the link: {answer}")
                        with _connect(family, "a", to, Terms(mark=MARK)) as client:
                            server = native.accept(listener)
                            with server:
                                client.sendall(b"by the gateway")
                                check(server.recv(100) == b"by the gateway", f"{name}: bytes")
                                check(
                                    native.peer_name(client)[0] == far[version],
                                    f"{name}: the peer is {native.peer_name(client)}",
                                )
    traffic.works()


VRF = "red"
RA = End("a", "ra", "reda", 1, 5)
RB = End("b", "rb", "redb", 2, 5)


@contextlib.contextmanager
def _vrf() -> Iterator[None]:
    """One interface of host a, and its address, are part of a VRF."""
    if sends_packets():
        raise Skip("rxe finds a way for each packet by itself, outside of the VRF")
    with (
        network.another_link(RA, RB),
        network.configured("a", f"link add {VRF} type vrf table 300"),
    ):
        network.command("ip", "-n", "a", "link", "set", VRF, "up")
        network.command("ip", "-n", "a", "link", "set", RA.link, "master", VRF)
        # Settings that an interface loses on that occasion.
        network.bring_up(RA, RB)
        yield
        network.command("ip", "-n", "a", "link", "set", RA.link, "nomaster")


def _pair_works(family: str, listener: socket.socket, client: socket.socket, what: str) -> None:
    server = native.accept(listener)
    with client, server:
        client.sendall(b"there")
        check(server.recv(10) == b"there", f"{what}, {family}: bytes")
        server.sendall(b"and back")
        check(client.recv(10) == b"and back", f"{what}, {family}: the answer")


IN_VRF, IN_MEMBER = Terms(device=VRF), Terms(device=RA.link)


@scenario
def a_vrf_is_connected_from() -> None:
    """Only by sockets that are bound to it or to an interface of it."""
    with _vrf():
        for version in (4, 6):
            for family in FAMILIES:
                with _listen(family, "b", RB.address(version)) as listener:
                    to = native.own_name(listener)
                    answer = _source(family, "a", to)
                    check(answer == "ENETUNREACH", f"IPv{version}, {family}, outside: {answer}")
                    for terms in (IN_VRF, IN_MEMBER):
                        name = f"IPv{version}, {terms.device}"
                        client = _connect(family, "a", to, terms)
                        own = native.own_name(client)[0]
                        check(own == RA.address(version), f"{name}, {family}: from {own}")
                        _pair_works(family, listener, client, name)
            # Within the host and the VRF.
            for family in FAMILIES:
                with _listen(family, "a", RA.address(version), IN_VRF) as listener:
                    client = _connect(family, "a", native.own_name(listener), IN_VRF)
                    _pair_works(family, listener, client, f"IPv{version}, within")
    traffic.works()


def _accept_vrfs(value: int) -> None:
    with namespace("a"):
        Path("/proc/sys/net/ipv4/tcp_l3mdev_accept").write_text(str(value))


@scenario
def a_vrf_is_listened_in() -> None:
    """A listener gets connections of its own VRF; one outside gets them only on request."""
    with _vrf():
        for version in (4, 6):
            name = f"IPv{version}"
            address = RA.address(version)
            anywhere = "0.0.0.0" if version == 4 else "::"
            _same(
                f"{name}, bind outside",
                "EADDRNOTAVAIL",
                lambda family, address=address: _outcome(lambda: _listen(family, "a", address)),
            )
            for terms in (IN_VRF, IN_MEMBER):
                for own in (address, anywhere):
                    for family in FAMILIES:
                        with _listen(family, "a", own, terms) as listener:
                            to = address, native.own_name(listener)[1]
                            client = _connect(family, "b", to)
                            _pair_works(family, listener, client, f"{name}, {terms.device}")
            for family in FAMILIES:
                with _listen(family, "a", anywhere) as listener:
                    to = address, native.own_name(listener)[1]
                    answer = _source(family, "b", to)
                    check(answer == "ECONNREFUSED", f"{name}, {family}, not on request: {answer}")
                    # A port within the VRF differs from the same port outside.
                    with namespace("a"):
                        twin = IN_VRF.make(family, anywhere)
                    with twin:
                        native.bind(twin, anywhere, to[1])
                        twin.listen(1)
                        _pair_works(family, twin, _connect(family, "b", to), f"{name}, twin")
            _accept_vrfs(1)
            try:
                for family in FAMILIES:
                    with _listen(family, "a", anywhere) as listener:
                        to = address, native.own_name(listener)[1]
                        client = _connect(family, "b", to)
                        server = native.accept(listener)
                        device = server.getsockopt(
                            socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16
                        ).rstrip(b"\0")
                        check(device == VRF.encode(), f"{name}, {family}: bound to {device!r}")
                        client.close()
                        server.close()
            finally:
                _accept_vrfs(0)
    traffic.works()
