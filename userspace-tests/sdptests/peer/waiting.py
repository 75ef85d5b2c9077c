# SPDX-License-Identifier: MIT
"""A blocking system call in a thread, so that a hang is a failed case."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import PATIENCE
from sdptests.peer.stream import Stream
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.sleeping import sleeps_in


class Waiting:
    """One call on a socket, which is set to blocking for it. The thread sleeps in it, or has ended, from the
    beginning on: the module soon declines an offer that no reader waits for.
    """

    def __init__(self, stream: Stream, call: Callable[[], int]) -> None:
        self._count = -1
        self._errno = 0
        stream.sock.setblocking(True)
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()
        deadline = time.monotonic() + PATIENCE
        while self._thread.is_alive() and not self._sleeps():
            check(time.monotonic() < deadline, "the call neither sleeps nor ends")
            time.sleep(0.001)

    def _sleeps(self) -> bool:
        """Whether the thread sleeps in its call."""
        try:
            return sleeps_in(
                Path(f"/proc/self/task/{self._thread.native_id}"), "sendto", "recvfrom"
            )
        except OSError:
            # It has ended.
            return False

    def _run(self, call: Callable[[], int]) -> None:
        try:
            self._count = call()
        except OSError as error:
            self._errno = error.errno or -1

    def end(self, timeout: float = PATIENCE) -> tuple[int, int]:
        """Its result and errno; the unused one is -1 or 0."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise Failure(f"the call has not ended in {timeout:.0f} s")
        return self._count, self._errno

    def returns(self, count: int, timeout: float = PATIENCE) -> None:
        """It must return this value."""
        found = self.end(timeout)
        check(found == (count, 0), f"the call has ended with {found}, not with {count}")

    def fails(self, *errnos: int) -> None:
        """It must fail with one of these errors."""
        count, number = self.end()
        check(number in errnos, f"the call has ended with {count}, errno {number}")


class Reader(Waiting):
    """recv() that waits until its buffer is full."""

    def __init__(self, stream: Stream, room: int, flags: int = 0) -> None:
        self.data = bytearray(room)
        super().__init__(stream, lambda: stream.sock.recv_into(self.data, room, flags))


class Writer(Waiting):
    """send() that waits until the other side has taken everything."""

    def __init__(self, stream: Stream, data: bytes) -> None:
        super().__init__(stream, lambda: stream.sock.send(data))
