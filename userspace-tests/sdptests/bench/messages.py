# SPDX-License-Identifier: MIT
"""Messages of one size through a socket, from and to page-aligned memory."""

from __future__ import annotations

import mmap
import select
import socket


def room(size: int) -> memoryview:
    """Memory in pages of its own, all present."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes(size)
    return memoryview(memory)


def receive(sock: socket.socket, into: memoryview, count: int) -> None:
    """Receives so many messages."""
    for number in range(count):
        got = sock.recv_into(into, len(into), socket.MSG_WAITALL)
        if got != len(into):
            raise ConnectionError(f"{got} of {len(into)} bytes of message {number}")


def send(sock: socket.socket, data: memoryview, count: int) -> None:
    """Sends so many messages."""
    for _ in range(count):
        left = data
        while left:
            left = left[sock.send(left) :]


def receive_in_events(sock: socket.socket, into: memoryview, count: int) -> None:
    """The same as an event loop does it: no call waits but that for events."""
    sock.setblocking(False)
    with select.epoll() as events:
        events.register(sock, select.EPOLLIN)
        for number in range(count):
            left = into
            while left:
                try:
                    got = sock.recv_into(left)
                except BlockingIOError:
                    events.poll()
                    continue
                if not got:
                    raise ConnectionError(f"the end of the stream in message {number}")
                left = left[got:]


def send_in_events(sock: socket.socket, data: memoryview, count: int) -> None:
    """The same as an event loop does it: no call waits but that for events."""
    sock.setblocking(False)
    with select.epoll() as events:
        events.register(sock, select.EPOLLOUT)
        for _ in range(count):
            left = data
            while left:
                try:
                    left = left[sock.send(left) :]
                except BlockingIOError:
                    events.poll()


def echo(sock: socket.socket, both: memoryview, count: int) -> None:
    """Sends each message back, so many times."""
    for _ in range(count):
        if sock.recv_into(both, len(both), socket.MSG_WAITALL) != len(both):
            raise ConnectionError("the end of the stream")
        sock.sendall(both)


def ping(sock: socket.socket, both: memoryview, count: int) -> None:
    """The other end of echo()."""
    for _ in range(count):
        sock.sendall(both)
        if sock.recv_into(both, len(both), socket.MSG_WAITALL) != len(both):
            raise ConnectionError("the end of the stream")
