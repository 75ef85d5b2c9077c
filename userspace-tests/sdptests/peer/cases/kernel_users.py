# SPDX-License-Identifier: MIT
"""Kernel code that treats every stream socket as a struct tcp_sock and writes to it."""

from __future__ import annotations

import ctypes
import errno
import os
import socket

from sdptests.peer.peer import refuses
from sdptests.peer.register import case
from sdptests.peer.scene import Scene
from sdptests.twohosts.failure import check
from sdptests.twohosts.loaded import attributes, bpf
from sdptests.twohosts.native import AF_INET_SDP, IPPROTO_SDP

BPF_MAP_CREATE = 0
BPF_MAP_UPDATE_ELEM = 2
BPF_MAP_TYPE_SOCKMAP = 15


def put(sockmap: int, sock: socket.socket) -> None:
    """Has BPF replace the socket's operations."""
    key = ctypes.c_uint32(0)
    value = ctypes.c_uint32(sock.fileno())
    where = (ctypes.addressof(key), ctypes.addressof(value))
    bpf(BPF_MAP_UPDATE_ELEM, attributes("=IxxxxQQQ", sockmap, *where, 0))


@case("kernel users: they get no socket of SDP")
def refused(scene: Scene) -> None:
    """By family and by protocol, while TCP sockets are accepted."""
    peer = scene.peer()
    for family in (socket.AF_INET, socket.AF_INET6):
        peer.kernel_socket(family, socket.IPPROTO_TCP)
    for family, protocol, number in (
        (AF_INET_SDP, 0, errno.EAFNOSUPPORT),
        (AF_INET_SDP, socket.IPPROTO_TCP, errno.EAFNOSUPPORT),
        (socket.AF_INET, IPPROTO_SDP, errno.EPROTONOSUPPORT),
        (socket.AF_INET6, IPPROTO_SDP, errno.EPROTONOSUPPORT),
    ):
        refuses(number, peer.kernel_socket, family, protocol)


@case("kernel users: a descriptor of SDP is none of TCP")
def told_apart(scene: Scene) -> None:
    """New, of IPPROTO_SDP, listening, and connected, while a TCP socket is accepted."""
    peer = scene.peer()
    with socket.socket() as tcp:
        check(peer.looks_like_tcp(tcp.fileno()), "a socket of TCP")
    kinds = ((AF_INET_SDP, 0), (socket.AF_INET, IPPROTO_SDP), (socket.AF_INET6, IPPROTO_SDP))
    for family, protocol in kinds:
        with socket.socket(family, socket.SOCK_STREAM, protocol) as fresh:
            what = f"family {family}, protocol {protocol}"
            check(not peer.looks_like_tcp(fresh.fileno()), what)
    check(not peer.looks_like_tcp(scene.listener.sock.fileno()), "a listener")
    for stream in scene.bystanders:
        check(not peer.looks_like_tcp(stream.sock.fileno()), "a connection")


@case("kernel users: no sockmap takes a socket of SDP")
def out_of_sockmaps(scene: Scene) -> None:
    """A sockmap replaces the operations of its sockets by TCP's."""
    sockmap = bpf(BPF_MAP_CREATE, attributes("=IIII", BPF_MAP_TYPE_SOCKMAP, 4, 4, 1))
    try:
        with socket.create_server(("127.0.0.1", 0)) as tcp:
            put(sockmap, tcp)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SDP) as fresh:
            refuses(errno.EOPNOTSUPP, put, sockmap, fresh)
        refuses(errno.EOPNOTSUPP, put, sockmap, scene.listener.sock)
        for stream in scene.bystanders:
            refuses(errno.EOPNOTSUPP, put, sockmap, stream.sock)
    finally:
        os.close(sockmap)
