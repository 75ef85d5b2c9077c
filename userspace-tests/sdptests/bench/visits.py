# SPDX-License-Identifier: MIT
"""Short connections: connect, a request, its answer, close; one after the other."""

from __future__ import annotations

import os
import signal
import socket
import time

from sdptests.bench import layers, pairs
from sdptests.bench.gauge import Gauge
from sdptests.peer.peer import namespace
from sdptests.twohosts import native

PATIENCE = 60
MESSAGE = bytes(64)


def _serve(listener: socket.socket) -> None:
    while True:
        with native.accept(listener) as sock:
            sock.recv(len(MESSAGE), socket.MSG_WAITALL)
            sock.sendall(MESSAGE)
            # The client closes first, so its ports are those that wait.
            sock.recv(1)


def count(family: str, seconds: float) -> int:
    """Connections from a to b, for so long."""
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
            made, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                with namespace(pairs.A.name):
                    sock = native.make(family, pairs.B.ipv4)
                with sock:
                    native.connect(sock, pairs.B.ipv4, port)
                    sock.sendall(MESSAGE)
                    sock.recv(len(MESSAGE), socket.MSG_WAITALL)
                made += 1
            return made
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def per_second(family: str, seconds: float, symbols: layers.Symbols) -> float:
    """Connections for each second, of the processor on a native guest."""
    begin = time.monotonic()
    with Gauge(symbols) as gauge:
        made = count(family, seconds)
    return made / gauge.took(begin, time.monotonic())
