# SPDX-License-Identifier: MIT
"""The processor time of a native guest, which the host knows (`qemu/vm --pin`).

The guest's own clocks know neither the time that the host gave to others, nor the part of it that a
kernel needs only because it is a process.
"""

from __future__ import annotations

import contextlib
import os
import tty
from collections.abc import Iterator
from dataclasses import dataclass

TERMINAL = os.environ.get("SDP_METER")
NO_SAMPLES = (
    "this host allows no samples (sysctl kernel.perf_event_paranoid=2), so the kernel's own work is "
    "unknown"
)


@dataclass(frozen=True)
class Used:
    """Processor time, in seconds."""

    # Of the whole machine, with programs and all that a kernel in a process costs.
    whole: float
    # Of the kernel's own work; None if the host cannot say.
    kernel: float | None

    def since(self, before: Used) -> Used:
        """The time between two readings."""
        known = self.kernel is not None and before.kernel is not None
        return Used(self.whole - before.whole, self.kernel - before.kernel if known else None)


class Meter:
    """A terminal at whose other end the host answers."""

    def __init__(self, terminal: str) -> None:
        self._file = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._file)

    def read(self, question: bytes = b"?") -> Used:
        """The time up to now."""
        os.write(self._file, question)
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self._file, 64)
        whole, kernel = map(int, line.split())
        return Used(whole / 1e9, kernel / 1e9 if kernel >= 0 else None)


_meters: list[Meter] = []


def used(question: bytes = b"?") -> Used | None:
    """The processor time up to now, on a ground that can tell."""
    if not TERMINAL:
        return None
    if not _meters:
        _meters.append(Meter(TERMINAL))
    return _meters[0].read(question)


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """The host writes a profile of what happens meanwhile, if it was asked to."""
    used(b"[")
    yield
    used(b"]")
