#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program in a sandbox. Its argument is a JSON object; a line of JSON comes for each of `doors`.

The sandbox is Landlock's, as a program puts itself into: TCP may connect to the ports in `allowed`
alone, and bind none. `doors` are ways to a socket; with `early` the sockets are made before. A line
has an outcome for each of `ports`, and says why there was no socket if there was none: what the
socket uses (None for one of TCP's own), or the errno of what failed.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sdptests.twohosts import uapi

HOST = "10.0.0.1"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BIND_TCP, _CONNECT_TCP = 1, 2
_RULE_NET_PORT = 2
_SET_NO_NEW_PRIVS = 38
_SYS_SOCKET = {"x86_64": 41}.get(os.uname().machine, 198)

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def enter(allowed: list[int]) -> None:
    """Into the sandbox."""
    rights = struct.pack("=QQ", 0, _BIND_TCP | _CONNECT_TCP)
    rules = _checked(_libc.syscall(_CREATE_RULESET, rights, len(rights), 0), "landlock")
    for port in allowed:
        rule = struct.pack("=QQ", _CONNECT_TCP, port)
        _checked(_libc.syscall(_ADD_RULE, rules, _RULE_NET_PORT, rule, 0), "a rule")
    _checked(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(_libc.syscall(_RESTRICT_SELF, rules, 0), "restrict")


def _raw(family: int, protocol: int = 0) -> socket.socket:
    """By the system call: no library makes it."""
    number = _libc.syscall(_SYS_SOCKET, family, socket.SOCK_STREAM, protocol)
    return socket.socket(fileno=_checked(number, "socket"))


def _told(transport: int) -> socket.socket:
    sock = _raw(uapi.AF_INET_SDP)
    sock.setsockopt(socket.IPPROTO_TCP, uapi.SDP_TRANSPORT, transport)
    return sock


def _connect(sock: socket.socket, port: int) -> None:
    sock.connect((HOST, port))


def _connect_later(sock: socket.socket, port: int) -> None:
    """Without waiting in connect(), so that TCP's attempt is made by a worker."""
    sock.setblocking(False)
    error = sock.connect_ex((HOST, port))
    if error == errno.EINPROGRESS:
        select.select([], [sock], [])
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "connect")


def _fast_open(sock: socket.socket, port: int) -> None:
    sock.sendto(b"!", socket.MSG_FASTOPEN, (HOST, port))


def _bind(sock: socket.socket, port: int) -> None:
    sock.bind((HOST, port))


Door = tuple[Callable[[], socket.socket], Callable[[socket.socket, int], None]]
_BOTH = functools.partial(_told, uapi.SDP_TRANSPORT_BOTH)
_TCP = functools.partial(_told, uapi.SDP_TRANSPORT_TCP)
_PROTOCOL = functools.partial(_raw, socket.AF_INET, uapi.IPPROTO_SDP)
DOORS: dict[str, Door] = {
    "program": (lambda: socket.socket(), _connect),
    "program, later": (lambda: socket.socket(), _connect_later),
    "both": (_BOTH, _connect),
    "both, later": (_BOTH, _connect_later),
    "tcp": (_TCP, _connect),
    "tcp, fast": (_TCP, _fast_open),
    "tcp, bind": (_TCP, _bind),
    "both, bind": (_BOTH, _bind),
    "protocol": (_PROTOCOL, _connect),
    "protocol, later": (_PROTOCOL, _connect_later),
}


def _name(error: OSError) -> str:
    return errno.errorcode[error.errno or 0]


def _outcome(use: Callable[[socket.socket, int], None], sock: socket.socket, port: int) -> object:
    with sock:
        try:
            use(sock, port)
        except OSError as error:
            return _name(error)
        try:
            return sock.getsockopt(socket.IPPROTO_TCP, uapi.SDP_TRANSPORT)
        except OSError:
            return None


def _made(make: Callable[[], socket.socket], count: int) -> list[socket.socket] | str:
    try:
        return [make() for _ in range(count)]
    except OSError as error:
        return _name(error)


def main() -> None:
    """Goes in and tries the doors."""
    wanted = json.loads(sys.argv[1])
    doors = [DOORS[name] for name in wanted["doors"]]
    ports = wanted["ports"]
    early = [_made(make, len(ports)) for make, _ in doors] if wanted.get("early") else []
    if wanted.get("allowed") is not None:
        enter(wanted["allowed"])
    for number, (make, use) in enumerate(doors):
        socks = early[number] if early else _made(make, len(ports))
        if isinstance(socks, str):
            print(json.dumps(socks), flush=True)
        else:
            pairs = zip(socks, ports, strict=True)
            print(json.dumps([_outcome(use, sock, port) for sock, port in pairs]), flush=True)


if __name__ == "__main__":
    main()
