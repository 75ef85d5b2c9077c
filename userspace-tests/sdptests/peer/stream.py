# SPDX-License-Identifier: MIT
"""Sockets of the module under test, with a time limit for each call.

They are non-blocking, so that a hang is a failed case and not a hanging run.
"""

from __future__ import annotations

import errno
import select
import socket
import time

from sdptests.peer.peer import PATIENCE
from sdptests.twohosts import native
from sdptests.twohosts.failure import Failure


def _wait(sock: socket.socket, events: int, what: str, timeout: float) -> int:
    poll = select.poll()
    poll.register(sock.fileno(), events)
    found = poll.poll(timeout * 1000)
    if not found:
        raise Failure(f"{what}: nothing in {timeout:.0f} s")
    return found[0][1]


class Stream:
    """One socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)

    def close(self) -> None:
        """close(2)"""
        self.sock.close()

    def send(self, data: bytes, timeout: float = PATIENCE) -> None:
        """Sends all bytes."""
        view = memoryview(data)
        deadline = time.monotonic() + timeout
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                _wait(self.sock, select.POLLOUT, "send", max(0, deadline - time.monotonic()))

    def fill(self) -> int:
        """Sends zeros until no more are accepted; returns their number."""
        sent = 0
        try:
            while True:
                sent += self.sock.send(bytes(65536))
        except BlockingIOError:
            return sent

    def receive(self, count: int, timeout: float = PATIENCE) -> bytes:
        """Reads so many bytes, or fewer at the end of the stream."""
        data = b""
        deadline = time.monotonic() + timeout
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except BlockingIOError:
                _wait(self.sock, select.POLLIN, "recv", max(0, deadline - time.monotonic()))
                continue
            if not part:
                break
            data += part
        return data

    def end(self, timeout: float = PATIENCE) -> tuple[int, bytes]:
        """The errno that ends reading (0: end of the stream), and the bytes before it."""
        data = b""
        deadline = time.monotonic() + timeout
        while True:
            try:
                part = self.sock.recv(65536)
            except BlockingIOError:
                _wait(self.sock, select.POLLIN, "the end", max(0, deadline - time.monotonic()))
                continue
            except OSError as error:
                return error.errno or 0, data
            if not part:
                return 0, data
            data += part

    def urgent(self, timeout: float = PATIENCE) -> bytes:
        """The urgent byte."""
        _wait(self.sock, select.POLLPRI, "urgent data", timeout)
        return self.sock.recv(1, socket.MSG_OOB)

    def await_bytes(self, timeout: float = PATIENCE) -> None:
        """Waits until there is something to read; it stays unread."""
        _wait(self.sock, select.POLLIN, "something to read", timeout)

    def is_idle(self) -> bool:
        """Neither readable nor in error."""
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN | select.POLLPRI)
        return not poll.poll(0)

    def names(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The socket's own address and the peer's."""
        return native.own_name(self.sock), native.peer_name(self.sock)


class Listener:
    """A listening socket in the caller's namespace."""

    def __init__(self, address: str, backlog: int = 64) -> None:
        self.sock = native.listen("sdp", address, 0, backlog)
        self.sock.setblocking(False)
        self.address, self.port = native.own_name(self.sock)

    def close(self) -> None:
        """close(2)"""
        self.sock.close()

    def accept(self, timeout: float = PATIENCE) -> Stream:
        """The next connection."""
        _wait(self.sock, select.POLLIN, "accept", timeout)
        return Stream(native.accept(self.sock))

    def is_idle(self) -> bool:
        """No connection waits to be accepted."""
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        return not poll.poll(0)


class Connecting:
    """A connect() in progress, from the caller's namespace."""

    def __init__(self, address: str, port: int) -> None:
        self.sock = native.make("sdp", address)
        self.sock.setblocking(False)
        try:
            native.connect(self.sock, address, port)
        except OSError as error:
            if error.errno != errno.EINPROGRESS:
                raise

    def close(self) -> None:
        """close(2)"""
        self.sock.close()

    def outcome(self, timeout: float = PATIENCE) -> int:
        """0, or the errno of the failed connect."""
        _wait(self.sock, select.POLLOUT, "connect", timeout)
        return self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def stream(self, timeout: float = PATIENCE) -> Stream:
        """The connection."""
        if number := self.outcome(timeout):
            raise Failure(f"connect: {errno.errorcode.get(number, number)}")
        return Stream(self.sock)
