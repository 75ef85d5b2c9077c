# SPDX-License-Identifier: MIT
"""A pair of sockets in use: a process at each end, in turns of so many messages of one size.

Both ends are existing processes, so that no result includes the start of a program.
They get their commands over a socket beside the measured one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sdptests.bench import layers, messages
from sdptests.bench.gauge import KERNEL, Gauge
from sdptests.twohosts.failure import Failure

MIB = 1 << 20
_ORDER, _ANSWER = "=?QQ", "=d"
# Only a hang takes so long.
PATIENCE = 120


@dataclass(frozen=True)
class Rate:
    """One measurement."""

    # MiB for each second, of the processor on a native guest; and ms of all processors per MiB, by layer.
    mib_per_s: float
    times: dict[str, float]
    # The number of bytes, and how many of them arrived without a copy.
    total: int = 0
    uncopied: int = 0
    # The stretches of memory that were lent, by SDP_BORROW.
    lent: int = 0


@dataclass(frozen=True)
class Trip:
    """A message one way, in us: in all, and of that the kernel's own work where that is known."""

    whole: float
    kernel: float | None = None


def per_mib(seconds: dict[str, float], total: int) -> dict[str, float]:
    """ms per MiB."""
    return {layer: 1000 * time * MIB / total for layer, time in seconds.items()}


def _serve(sock: socket.socket, control: socket.socket) -> None:
    memory = messages.room(1)
    while order := control.recv(struct.calcsize(_ORDER)):
        echo, size, count = struct.unpack(_ORDER, order)
        if len(memory) != size:
            memory = messages.room(size)
        (messages.echo if echo else messages.receive)(sock, memory, count)
        control.sendall(struct.pack(_ANSWER, time.monotonic()))


def _too_late(*_signal: object) -> None:
    raise Failure(f"a measurement did not end within {PATIENCE} s")


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """A measurement inside fails if it takes far too long."""
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        # Otherwise it would end another measurement after one that has failed.
        signal.alarm(0)


def enough(
    turn: Callable[[int], tuple[float, float]], size: int, seconds: float, least: int = 2
) -> int:
    """The number of messages that take that long: `turn` uses so many and has its begin and end."""
    count = max(1, min(64, (64 << 10) // size))
    while True:
        begin, end = turn(count)
        if end - begin > seconds / 8:
            break
        count *= 4
    # The first messages of a size set things up that stay, so that time may be far too long.
    again, over = turn(count)
    took = min(end - begin, over - again)
    return max(least, int(count * seconds / took))


class Stream:
    """A socket whose other end is served by another process."""

    def __init__(self, sock: socket.socket, control: socket.socket) -> None:
        self._sock = sock
        self._control = control
        self._memory = messages.room(1)

    def _turn(self, echo: bool, size: int, count: int) -> tuple[float, float]:
        """The time of the beginning, and that of the last byte's arrival."""
        work = messages.ping if echo else messages.send
        if len(self._memory) != size:
            self._memory = messages.room(size)
        with patience():
            self._control.sendall(struct.pack(_ORDER, echo, size, count))
            begin = time.monotonic()
            work(self._sock, self._memory, count)
            answer = self._control.recv(struct.calcsize(_ANSWER))
        if not answer:
            raise Failure("the other end has died")
        return begin, *struct.unpack(_ANSWER, answer)

    def enough(self, echo: bool, size: int, seconds: float) -> int:
        """The number of messages that take that long."""
        return enough(lambda count: self._turn(echo, size, count), size, seconds)

    def send(self, size: int, count: int) -> None:
        """So many messages of that size in one direction."""
        self._turn(False, size, count)

    def ping(self, size: int, count: int) -> None:
        """So many messages of that size in each direction, in turn."""
        self._turn(True, size, count)

    def rate(self, size: int, seconds: float, symbols: layers.Symbols) -> Rate:
        """The rate of messages of that size in one direction."""
        count = self.enough(False, size, seconds)
        with Gauge(symbols) as gauge:
            begin, end = self._turn(False, size, count)
        total = count * size
        times = per_mib(gauge.seconds(begin, end), total)
        return Rate(total / MIB / gauge.took(begin, end), times)

    def one_way(self, size: int, seconds: float, symbols: layers.Symbols) -> Trip:
        """Half of a round trip: the mean."""
        count = self.enough(True, size, seconds)
        with Gauge(symbols) as gauge:
            begin, end = self._turn(True, size, count)
        kernel = gauge.seconds(begin, end).get(KERNEL)
        half = 1e6 / count / 2
        return Trip(gauge.took(begin, end) * half, None if kernel is None else kernel * half)


# Two connected sockets, while they are in use.
Pairing = contextlib.AbstractContextManager[tuple[socket.socket, socket.socket]]


@contextlib.contextmanager
def served(pair: Callable[[], Pairing]) -> Iterator[Stream]:
    """The first of two sockets, while a child serves the second one."""
    ours, theirs = socket.socketpair()
    with pair() as (sock, other), ours:
        child = os.fork()
        if not child:
            # The child sees the end when the last descriptors are closed.
            sock.close()
            ours.close()
            try:
                _serve(other, theirs)
            except OSError:
                os._exit(1)
            os._exit(0)
        theirs.close()
        try:
            yield Stream(sock, ours)
        finally:
            ours.close()
            sock.close()
            os.waitpid(child, 0)
