# SPDX-License-Identifier: MIT
"""Sockets of family SDP, without the library that maps TCP to SDP.

Python supports sockets of any family, but only the addresses of known families. So the calls
that take or return an address use the C library directly; data is transferred by Python's
own socket object.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Callable

from sdptests.twohosts import uapi

AF_INET_SDP = uapi.AF_INET_SDP
IPPROTO_SDP = uapi.IPPROTO_SDP

_libc = ctypes.CDLL(None, use_errno=True)

FAMILIES = {"sdp": AF_INET_SDP, "tcp": None}


def _address(host: str, port: int) -> bytes:
    """A sockaddr_in or sockaddr_in6; its family is AF_INET or AF_INET6 for SDP as well."""
    if ":" in host:
        return struct.pack(
            "=HHI16sI",
            socket.AF_INET6,
            socket.htons(port),
            0,
            socket.inet_pton(socket.AF_INET6, host),
            0,
        )
    return struct.pack(
        "=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_pton(socket.AF_INET, host)
    )


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def make(family: str, host: str) -> socket.socket:
    """A stream socket of the family ("sdp" or "tcp") for addresses like `host`."""
    number = FAMILIES[family]
    if number is None:
        number = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.socket(number, socket.SOCK_STREAM, 0)


def bind(sock: socket.socket, host: str, port: int) -> None:
    """bind(2)"""
    address = _address(host, port)
    _checked(_libc.bind(sock.fileno(), address, len(address)), "bind")


def connect(sock: socket.socket, host: str, port: int) -> None:
    """connect(2)"""
    address = _address(host, port)
    _checked(_libc.connect(sock.fileno(), address, len(address)), "connect")


def connected(
    family: str, host: str, port: int, *options: tuple[int, int, int]
) -> socket.socket:
    """A socket with a connection; `options` are set before."""
    sock = make(family, host)
    for option in options:
        sock.setsockopt(*option)
    connect(sock, host, port)
    return sock


def accept(sock: socket.socket) -> socket.socket:
    """accept(2), without the address"""
    fd = _checked(_libc.accept(sock.fileno(), None, None), "accept")
    return socket.socket(sock.family, sock.type, sock.proto, fileno=fd)


def _name(call: Callable[..., int], sock: socket.socket) -> tuple[str, int]:
    buffer = ctypes.create_string_buffer(128)
    size = ctypes.c_uint32(len(buffer))
    _checked(call(sock.fileno(), buffer, ctypes.byref(size)), "getting a name")
    family, port = struct.unpack_from("=HH", buffer.raw)
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, buffer.raw[8:24]), socket.ntohs(port)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, buffer.raw[4:8]), socket.ntohs(port)
    raise OSError(f"a name of family {family}")


def own_name(sock: socket.socket) -> tuple[str, int]:
    """getsockname(2)"""
    return _name(_libc.getsockname, sock)


def peer_name(sock: socket.socket) -> tuple[str, int]:
    """getpeername(2)"""
    return _name(_libc.getpeername, sock)


def listen(family: str, host: str, port: int = 0, backlog: int = 16) -> socket.socket:
    """A listening socket."""
    sock = make(family, host)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bind(sock, host, port)
    sock.listen(backlog)
    return sock
