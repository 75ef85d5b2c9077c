# SPDX-License-Identifier: MIT
"""SDP has been refused, and the program makes other calls while the fallback to TCP begins."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check
from sdptests.twohosts.native import IPPROTO_SDP

# Longer than a refusal takes; a program that waits so long sees TCP's connection.
SPAN = 0.05


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _read(sock: socket.socket) -> None:
    """Sleeps in the call until there is a connection, and until it or the socket ends."""
    with contextlib.suppress(OSError):
        sock.recv(1)


@scenario
def sockets_are_closed_while_tcp_takes_over() -> str:
    """At every time between connect(2) and TCP's connection, by close, shutdown or a reader."""
    chance = random.Random(1)
    begun = 0
    with namespace("b"):
        listener = socket.create_server((B.address(4), 0), backlog=200)
    with listener:
        stop = threading.Event()

        def accept() -> None:
            listener.settimeout(0.2)
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            for begun in range(1, limits.amount(2000, 200) + 1):
                with namespace("a"):
                    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SDP)
                with sock:
                    sock.setblocking(False)
                    check(sock.connect_ex(listener.getsockname()) != 0, "connected at once")
                    if begun % 3 == 0:
                        sock.setblocking(True)
                        reader = threading.Thread(target=_read, args=(sock,))
                        reader.start()
                        time.sleep(chance.uniform(0, SPAN))
                        _shut(sock)
                        reader.join(limits.seconds(10))
                        check(not reader.is_alive(), "who waits in recv() is not woken")
                        continue
                    time.sleep(chance.uniform(0, SPAN))
                    if begun % 3 == 1:
                        _shut(sock)
        finally:
            stop.set()
            acceptor.join()
    return f"{begun} sockets"
