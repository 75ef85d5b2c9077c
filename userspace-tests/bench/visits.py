# SPDX-License-Identifier: MIT
"""Short connections: connect, a request, its answer, close; one after the other."""

from __future__ import annotations

import os
import signal
import socket
import time

import pairs
from peer import namespace
from twohosts import native

PATIENCE = 60
MESSAGE = bytes(64)


def _serve(listener: socket.socket) -> None:
    while True:
        with native.accept(listener) as sock:
            sock.recv(len(MESSAGE), socket.MSG_WAITALL)
            sock.sendall(MESSAGE)
            # The client closes first, so its ports are those that wait.
            sock.recv(1)


def per_second(family: str, seconds: float) -> float:
    """Connections per second from a to b."""
    with namespace(pairs.B.name):
        listener = native.listen(family, pairs.B.ipv4, 0, 128)
    with listener:
        port = native.own_name(listener)[1]
        child = os.fork()
        if not child:
            signal.alarm(PATIENCE)
            try:
                _serve(listener)
            finally:
                os._exit(1)
        try:
            count, begin = 0, time.monotonic()
            while time.monotonic() - begin < seconds:
                with namespace(pairs.A.name):
                    sock = native.make(family, pairs.B.ipv4)
                with sock:
                    native.connect(sock, pairs.B.ipv4, port)
                    sock.sendall(MESSAGE)
                    sock.recv(len(MESSAGE), socket.MSG_WAITALL)
                count += 1
            return count / (time.monotonic() - begin)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
