# SPDX-License-Identifier: MIT
"""Several connections in use at once: a process at each end of each, in turns of so many messages.

All processes exist and have their memory before a turn begins, so no result includes the start of
a program. Processes, not threads: the interpreter runs one thread of a process at a time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import layers
import messages
from pairs import Pair
from sampler import Sampler
from streams import MIB, PATIENCE, Rate, per_mib, too_late
from twohosts.failure import Failure

_ORDER, _ANSWER = struct.Struct("=QQ"), struct.Struct("=dd")
_READY, _GO = b"r", b"g"
# More samples than by default: the time of a way without copies is a small part of a short turn.
_FREQUENCY = 500
Work = Callable[[socket.socket, memoryview, int], None]


class _End:
    """A process that has one end of a connection."""

    def __init__(self, sock: socket.socket, work: Work) -> None:
        self._control, theirs = socket.socketpair()
        self._child = os.fork()
        if not self._child:
            _close_all_but(sock.fileno(), theirs.fileno())
            try:
                _obey(sock, theirs, work)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        theirs.close()

    def order(self, size: int, count: int) -> None:
        self._control.sendall(_ORDER.pack(size, count))

    def await_ready(self) -> None:
        self._heard(len(_READY))

    def go(self) -> None:
        self._control.sendall(_GO)

    def times(self) -> tuple[float, float]:
        """The beginning and the end of its turn."""
        begin, end = _ANSWER.unpack(self._heard(_ANSWER.size))
        return begin, end

    def _heard(self, length: int) -> bytes:
        found = self._control.recv(length, socket.MSG_WAITALL)
        if len(found) < length:
            raise Failure("an end of a connection has died")
        return found

    def close(self) -> None:
        # After a failure it may be waiting for its peer.
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        self._control.close()


def _close_all_but(*kept: int) -> None:
    """So that an end is closed when its own process ends."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _obey(sock: socket.socket, control: socket.socket, work: Work) -> None:
    memory = messages.room(1)
    while order := control.recv(_ORDER.size):
        size, count = _ORDER.unpack(order)
        if len(memory) != size:
            memory = messages.room(size)
        control.sendall(_READY)
        if control.recv(len(_GO)) != _GO:
            return
        begin = time.monotonic()
        work(sock, memory, count)
        control.sendall(_ANSWER.pack(begin, time.monotonic()))


class Flows:
    """Connections from a to b that are used at the same time."""

    def __init__(
        self, senders: list[_End], receivers: list[_End], uncopied: Callable[[], int]
    ) -> None:
        self._senders = senders
        self._receivers = receivers
        self._uncopied = uncopied
        # By size: the messages of each connection that take as long as a measurement.
        self._counts: dict[int, int] = {}

    def _turn(self, size: int, count: int) -> tuple[float, float]:
        """The time when the first began to send, and that of the last byte's arrival."""
        ends = [*self._receivers, *self._senders]
        signal.alarm(PATIENCE)
        for end in ends:
            end.order(size, count)
        for end in ends:
            end.await_ready()
        for end in ends:
            end.go()
        arrived = max(end.times()[1] for end in self._receivers)
        begun = min(end.times()[0] for end in self._senders)
        signal.alarm(0)
        return begun, arrived

    def _enough(self, size: int, seconds: float) -> int:
        if size not in self._counts:
            count = max(1, min(64, (64 << 10) // size))
            while True:
                begin, end = self._turn(size, count)
                if end - begin > seconds / 8:
                    break
                count *= 4
            self._counts[size] = max(2, int(count * seconds / (end - begin)))
        return self._counts[size]

    def rate(self, size: int, seconds: float, symbols: layers.Symbols) -> Rate:
        """The rate of messages of that size on all connections together."""
        count = self._enough(size, seconds)
        before = self._uncopied()
        with Sampler(_FREQUENCY) as sampler:
            begin, end = self._turn(size, count)
        uncopied = self._uncopied() - before
        profile = layers.profile(sampler.samples(), sampler.frequency, begin, end, symbols)
        total = count * size * len(self._senders)
        return Rate(total / MIB / (end - begin), per_mib(profile, total), total, uncopied)


@contextlib.contextmanager
def started(
    pair: Callable[[], AbstractContextManager[Pair]],
    connections: int,
    *,
    in_events: bool = False,
    uncopied: Callable[[], int] = lambda: 0,
) -> Iterator[Flows]:
    """So many connections; with `in_events` their ends are event loops.

    `uncopied` is the sum of bytes that have arrived without a copy.
    """
    send = messages.send_in_events if in_events else messages.send
    receive = messages.receive_in_events if in_events else messages.receive
    signal.signal(signal.SIGALRM, too_late)
    senders: list[_End] = []
    receivers: list[_End] = []
    with ExitStack() as stack:
        for _ in range(connections):
            with pair() as (one, other):
                for ends, sock, work in ((senders, one, send), (receivers, other, receive)):
                    ends.append(_End(sock, work))
                    stack.callback(ends[-1].close)
        yield Flows(senders, receivers, uncopied)
