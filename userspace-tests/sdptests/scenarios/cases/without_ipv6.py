# SPDX-License-Identifier: MIT
"""A machine without IPv6 (ipv6.disable=1): its addresses are no local ones, and no way leads there."""

from __future__ import annotations

import errno
import os
import socket

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import B
from sdptests.scenarios.register import without_ipv6_scenario
from sdptests.twohosts import native, uapi
from sdptests.twohosts.failure import check

USER = 65534
FOREIGN, LOOPBACK, ANY = "fd00::2", "::1", "::"
# TCP has no socket for these addresses, so any of its errors about addresses fits.
REFUSALS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def _try(_line: Line, call: str, address: str) -> int:
    os.setuid(USER)
    sock = native.make("sdp", B.address(4))
    try:
        if call == "bind":
            native.bind(sock, address, 0)
        else:
            native.connect(sock, address, 7777)
    except OSError as error:
        return error.errno or 0
    return 0


@without_ipv6_scenario
def addresses_of_ipv6_are_refused_without_ipv6() -> None:
    """bind() and connect() by an ordinary user end with an error, and IPv4 works as ever."""
    for call in ("bind", "connect"):
        for address in (FOREIGN, LOOPBACK):
            actor = Actor("a", _try, call, address)
            answer = actor.word(limits.seconds(20))
            actor.end()
            check(
                answer[0] == "result" and answer[1] in REFUSALS,
                f"{call}() to {address}: {answer}",
            )
    traffic.works()


@without_ipv6_scenario
def a_wildcard_of_ipv6_serves_ipv4_without_ipv6() -> None:
    """The wildcard is no address that is looked up, and takes connections of IPv4."""
    check(not network.HAS_IPV6, "IPv6 is there")
    with namespace("b"):
        listener = native.make("sdp", B.address(4))
        native.bind(listener, ANY, 0)
        listener.listen(4)
        port = native.own_name(listener)[1]
    with namespace("a"):
        client = native.make("sdp", B.address(4))
    native.connect(client, B.address(4), port)
    server = native.accept(listener)
    client.sendall(b"there")
    check(server.recv(10) == b"there", "the bytes")
    for sock in (client, server, listener):
        sock.close()


@without_ipv6_scenario
def sockets_for_both_have_no_ipv6_without_ipv6() -> None:
    """IPPROTO_SDP is refused under AF_INET6, as TCP is."""
    for protocol in (socket.IPPROTO_TCP, uapi.IPPROTO_SDP):
        try:
            socket.socket(socket.AF_INET6, socket.SOCK_STREAM, protocol).close()
        except OSError as error:
            check(error.errno == errno.EAFNOSUPPORT, f"protocol {protocol}: {error}")
        else:
            check(False, f"protocol {protocol}: a socket was made")
