# SPDX-License-Identifier: MIT
"""Children of this program as the ends of connections, for flows.Flows.

Processes, not threads: the interpreter runs one thread of a process at a time.
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

from sdptests.bench import messages
from sdptests.bench.flows import Flows
from sdptests.bench.pairs import Pair
from sdptests.twohosts.failure import Failure

_ORDER, _ANSWER = struct.Struct("=QQ"), struct.Struct("=dd")
_READY, _GO = b"r", b"g"
Work = Callable[[socket.socket, memoryview, int], None]


class _Fork:
    """A child of this program as an end."""

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
    senders: list[_Fork] = []
    receivers: list[_Fork] = []
    with ExitStack() as stack:
        for _ in range(connections):
            with pair() as (one, other):
                for ends, sock, work in ((senders, one, send), (receivers, other, receive)):
                    ends.append(_Fork(sock, work))
                    stack.callback(ends[-1].close)
        yield Flows(senders, receivers, uncopied)
