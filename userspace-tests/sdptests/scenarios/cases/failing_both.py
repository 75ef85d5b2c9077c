# SPDX-License-Identifier: MIT
"""Sockets that may use SDP or TCP, and a failing allocation that the program does not notice."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from sdptests.peer.peer import namespace
from sdptests.scenarios import faults, limits
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check
from sdptests.twohosts.native import IPPROTO_SDP


def _either() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SDP)
    sock.settimeout(limits.seconds(30))
    return sock


def _talk(client: socket.socket, listener: socket.socket) -> None:
    """The connection exists, and bytes travel in both directions."""
    server, _ = listener.accept()
    with server:
        server.settimeout(limits.seconds(30))
        for source, sink in ((client, server), (server, client)):
            source.sendall(b"some bytes")
            check(sink.recv(10, socket.MSG_WAITALL) == b"some bytes", "bytes are lost")


@scenario
def connect_over_either_survives_each_failing_allocation() -> str:
    """connect(2) of a socket that falls back to TCP if SDP has no memory."""
    with namespace("b"):
        listener = _either()
        listener.bind((B.address(4), 0))
        listener.listen(8)
    made: list[socket.socket] = []

    def prepare(_number: int) -> Callable[[], object]:
        sock = _either()
        sock.setblocking(True)
        made.append(sock)
        return lambda: sock.connect(listener.getsockname())

    def judge(number: int, _result: object) -> None:
        check(number == 0, f"connect ends with {os.strerror(number)}")
        made[-1].settimeout(limits.seconds(30))
        with made[-1] as client:
            _talk(client, listener)

    with listener, namespace("a"):
        count = faults.each(prepare, judge)
    return f"{count} allocations"
