#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program under the library. Its argument is a JSON list of sockets.

A socket is an object: `family` if it is not IPv4, `timeout` if it has one, an `option` if one is
set, and the addresses for `bind`, `listen` and `connect`. For each socket a line shows its
transport and its own address, or the failed call and the error.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sdptests.twohosts import uapi


def _connect_again(sock: socket.socket, name: tuple[str, int]) -> None:
    """Like a program that asks for the result of connect() by a second connect()."""
    sock.setblocking(False)
    result = sock.connect_ex(name)
    while result in (errno.EINPROGRESS, errno.EALREADY):
        select.select([], [sock], [])
        result = sock.connect_ex(name)
    if result not in (0, errno.EISCONN):
        raise OSError(result, "connect")


def _outcome(wanted: dict[str, list[object]], sock: socket.socket) -> list[object]:
    calls = {
        "option": lambda option: sock.setsockopt(*option),
        "bind": sock.bind,
        "listen": lambda _name: sock.listen(),
        "connect": sock.connect,
        "connect_again": lambda name: _connect_again(sock, name),
    }
    for call, make in calls.items():
        if call in wanted:
            try:
                make(tuple(wanted[call]))
            except OSError as error:
                return [call, errno.errorcode[error.errno or 0]]
    try:
        used = sock.getsockopt(socket.IPPROTO_TCP, uapi.SDP_TRANSPORT)
    except OSError:
        used = None
    return [used, sock.getsockname()[0]]


def main() -> None:
    """Makes them one after the other."""
    for wanted in json.loads(sys.argv[1]):
        if "user" in wanted:
            os.setuid(wanted["user"])
        family = getattr(socket, wanted.get("family", "AF_INET"))
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(wanted.get("timeout"))
            print(json.dumps(_outcome(wanted, sock)), flush=True)


if __name__ == "__main__":
    main()
