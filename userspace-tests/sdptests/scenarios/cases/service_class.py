# SPDX-License-Identifier: MIT
"""Packets have the class of service that the program asks for.

The test captures packets, so it needs a device that sends packets: each packet of a reliable
connection on the link has the class in its IP header.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener, Stream
from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import packet_scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

_ETH_P_ALL = 3
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
_SO_RCVBUFFORCE = 33
_ROCE_PORT = 4791
# Opcodes of the base transport header: reliable connections come first.
_RELIABLE_CONNECTED = 0x20
_OPTION = {4: (socket.IPPROTO_IP, socket.IP_TOS), 6: (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}


@dataclass(frozen=True)
class Packet:
    """The relevant fields of a packet."""

    source: str
    service_class: int


def _parse(frame: bytes) -> Packet | None:
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == _IPV4 and frame[23] == _UDP:
        at = 14 + 4 * (frame[14] & 15)
        source, service_class = socket.inet_ntoa(frame[26:30]), frame[15]
    elif kind == _IPV6 and frame[20] == _UDP:
        at = 54
        source = socket.inet_ntop(socket.AF_INET6, frame[22:38])
        service_class = struct.unpack_from("!I", frame, 14)[0] >> 20 & 0xFF
    else:
        return None
    port = struct.unpack_from("!H", frame, at + 2)[0]
    if port != _ROCE_PORT or frame[at + 8] >= _RELIABLE_CONNECTED:
        return None
    return Packet(source, service_class & 0xFC)


@contextlib.contextmanager
def _seen(host: str, link: str) -> Iterator[list[Packet]]:
    """The packets of reliable connections; the list is complete when the body has ended."""
    packets: list[Packet] = []
    with namespace(host):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    with tap:
        tap.bind((link, _ETH_P_ALL))
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        yield packets
        tap.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                if packet := _parse(tap.recv(65536)):
                    packets.append(packet)


def _classes(version: int, client: int, server: int) -> tuple[set[int], set[int]]:
    """The classes of the packets of client and server, which have set these options."""
    option = _OPTION[version]
    with namespace("b"):
        listener = Listener(B.address(version))
    listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if version == 6:
        check(listener.sock.getsockopt(*option) == 0, "the class at first")
    listener.sock.setsockopt(*option, server)
    with namespace("a"):
        sock = native.make("sdp", A.address(version))
    if version == 6:
        # From now on it is an IPv6 socket.
        native.bind(sock, A.address(6), 0)
    sock.setsockopt(*option, client)
    with _seen("a", A.link) as packets:
        native.connect(sock, listener.address, listener.port)
        pair = traffic.Pair(Stream(sock), listener.accept(), 1)
        pair.exchange(50_000)
        traffic.finish([pair], limits.seconds(60))
        check(pair.server.stream.sock.getsockopt(*option) == server & 0xFC, "the class inherited")
        pair.close()
        listener.close()
    # Its last packets are not the next connection's.
    leftovers.await_empty_tables()
    own, peer = A.address(version), B.address(version)
    return (
        {packet.service_class for packet in packets if packet.source == own},
        {packet.service_class for packet in packets if packet.source == peer},
    )


@packet_scenario
def packets_are_of_the_class_that_programs_ask_for() -> str:
    """The client's class, on its side; on the other side the listener's, or the path's."""
    said = []
    for version in (4, 6):
        for client, server, expected in (
            (0, 0, (0, 0)),
            (0x28, 0, (0x28, 0x28)),
            (0x28, 0xB8, (0x28, 0xB8)),
            # The lowest bits are for congestion notification.
            (0, 0x4B, (0, 0x48)),
        ):
            found = _classes(version, client, server)
            check(
                found == ({expected[0]}, {expected[1]}),
                f"IPv{version}, asked for {client:#x} and {server:#x}: {found}",
            )
            said.append(f"{client:#x} {server:#x}")
    return ", ".join(said)
