# SPDX-License-Identifier: MIT
"""InfiniBand ports: GIDs do not belong to interfaces, and paths are queried.

Addresses belong to the kernel's IPoIB interfaces. rlo itself is the subnet administrator that
answers path queries.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.network import PEER, A, B, End
from sdptests.scenarios.register import infiniband_scenario
from sdptests.twohosts.failure import check

_INTERFACES = {"a": "ia", "b": "ib"}
# A port that does not exist: the GID of an address that no interface has.
_NOBODY = "80:00:00:11:fe:80:00:00:00:00:00:00:50:54:00:ff:fe:00:00:77"
# Time limit of rdma_cm and of the administrator for an answer.
_BOUND = 10
_UNREACHED = {errno.EHOSTUNREACH, errno.ETIMEDOUT}


def _port(end: End, name: str) -> str:
    return Path(f"/sys/class/infiniband/{end.device}/ports/1/{name}").read_text().strip()


@infiniband_scenario
def a_port_of_infiniband_has_a_lid_and_a_guid() -> None:
    """The attributes of the two ports in ib_core."""
    lids = set()
    for end, guid in ((A, "5054:00ff:fe00:0001"), (B, "5054:00ff:fe00:0002")):
        check(_port(end, "link_layer") == "InfiniBand", "another link layer")
        check("ACTIVE" in _port(end, "state"), "the port is not active")
        check(_port(end, "gids/0") == f"fe80:0000:0000:0000:{guid}", _port(end, "gids/0"))
        check(int(_port(end, "sm_lid"), 16) == 0xBFFF, f"subnet manager: {_port(end, 'sm_lid')}")
        lids.add(int(_port(end, "lid"), 16))
    check(len(lids) == 2 and 0 not in lids, f"LIDs {lids}")


@infiniband_scenario
def neighbours_are_found_by_a_group() -> str:
    """ARP and neighbour discovery of IPoIB use a multicast group, answers use a port."""
    command = network.command
    for version in (4, 6):
        address = A.address(version)
        known = command("ip", "-n", "b", "-j", "neigh", "show", address, "dev", "ib")
        check(address in known, f"no neighbour {address}")
        command("ip", "-n", "b", "neigh", "del", address, "dev", "ib")
        said = command("ping", "-c", "3", "-i", "0.2", "-s", "3000", address, host="b")
        check(" 0% packet loss" in said, said)
        said = command("ip", "-n", "b", "neigh", "show", address, "dev", "ib")
        check("50:54:00:ff:fe:00:00:01" in said, said)
    return said.strip()


def _names(client: Stream, server: Stream) -> None:
    check(client.names() == server.names()[::-1], f"{client.names()} and {server.names()}")


@infiniband_scenario
def connections_go_both_ways_and_have_names() -> None:
    """Between two hosts, with both families."""
    for host in ("a", "b"):
        for version in (4, 6):
            (pair,) = traffic.connect(1, to=host, version=version)
            client, server = pair.on(PEER[host].host).stream, pair.on(host).stream
            _names(client, server)
            check(server.names()[0][0] == PEER[PEER[host].host].address(version), "another name")
            pair.exchange(300_000)
            traffic.finish([pair], limits.seconds(30))
            pair.close()


@infiniband_scenario
def loopback_addresses_lead_to_the_own_port() -> None:
    """127.0.0.1 and ::1, which are not addresses of the port, bound and connected."""
    for host in ("a", "b"):
        for address in ("127.0.0.1", "::1", A.address(4) if host == "a" else B.address(4)):
            with namespace(host):
                listener = Listener(address)
                connecting = Connecting(address, listener.port)
                client = connecting.stream(limits.seconds(20))
                server = listener.accept(limits.seconds(20))
            _names(client, server)
            check(client.names()[0][0] == address, f"{client.names()[0]} to {address}")
            pair = traffic.Pair(client, server, 1)
            pair.exchange(100_000)
            traffic.finish([pair], limits.seconds(30))
            pair.close()
            listener.close()


@infiniband_scenario
def a_namespace_has_its_own_ports() -> None:
    """Listeners on a loopback address, or on a port of the other host, are not found."""
    with namespace("a"):
        own = Listener("127.0.0.1")
        everywhere = Listener("0.0.0.0")
    for host, address, port in (
        ("b", "127.0.0.1", own.port),
        ("b", A.address(4), own.port),
        ("b", "127.0.0.1", everywhere.port),
        ("b", B.address(4), everywhere.port),
    ):
        with namespace(host):
            connecting = Connecting(address, port)
        number = connecting.outcome(limits.seconds(20))
        check(number == errno.ECONNREFUSED, f"{address} from {host}: {traffic.name(number)}")
        connecting.close()
    own.close()
    with namespace("b"):
        connecting = Connecting(A.address(4), everywhere.port)
    client, server = connecting.stream(limits.seconds(20)), everywhere.accept(limits.seconds(20))
    _names(client, server)
    for one in (client, server, everywhere):
        one.close()


def _fails_in_time(address: str) -> str:
    begin = time.monotonic()
    with namespace("b"):
        connecting = Connecting(address, 7)
    number = connecting.outcome(limits.seconds(_BOUND))
    check(number in _UNREACHED, f"connect: {traffic.name(number)}")
    connecting.close()
    return f"{traffic.name(number)} after {time.monotonic() - begin:.1f} s"


@contextlib.contextmanager
def _neighbour(host: str, address: str, hardware: str) -> Iterator[None]:
    words = ("ip", "-n", host, "neigh")
    interface = _INTERFACES[host]
    network.command(*words, "replace", address, "lladdr", hardware, "dev", interface)
    try:
        yield
    finally:
        network.command(*words, "del", address, "dev", interface)


@infiniband_scenario
def a_path_to_nobody_is_an_error() -> str:
    """The neighbour is known, but its GID does not exist: the administrator has no record."""
    with _neighbour("b", "10.0.0.119", _NOBODY):
        said = _fails_in_time("10.0.0.119")
    traffic.works()
    return said


@infiniband_scenario
def a_path_to_who_is_not_joined_is_an_error() -> str:
    """The GID belongs to a device of this machine that no frame reaches."""
    path = Path("/sys/class/net/i0/address")
    with _neighbour("b", "10.0.0.118", path.read_text().strip()):
        said = _fails_in_time("10.0.0.118")
    traffic.works()
    return said


@infiniband_scenario
def a_silent_administrator_is_an_error() -> str:
    """Path queries and all other requests get no answer."""
    silent = Path(f"/sys/kernel/debug/rlo/{B.device}/silent")
    silent.write_text("1")
    try:
        said = _fails_in_time(A.address(4))
    finally:
        silent.write_text("0")
    traffic.works()
    return said


def _send_error(stream: Stream) -> int:
    try:
        stream.sock.send(b"x")
    except BlockingIOError:
        return 0
    except OSError as error:
        return error.errno or 0
    return 0


@infiniband_scenario
def frames_that_get_lost_end_a_connection() -> str:
    """Bytes are copied while the last answer is valid, and are lost afterwards."""
    (pair,) = traffic.connect(1)
    begin = time.monotonic()
    with network.silent(A), network.silent(B):
        numbers = []
        limits.until(
            "the end of the connection",
            limits.seconds(10),
            lambda: numbers.append(_send_error(pair.client.stream)) or numbers[-1],
        )
        check(numbers[-1] == errno.ETIMEDOUT, f"send: {traffic.name(numbers[-1])}")
        pair.close()
    took = time.monotonic() - begin
    traffic.works()
    return f"after {took:.1f} s"
