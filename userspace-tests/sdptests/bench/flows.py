# SPDX-License-Identifier: MIT
"""Several connections in use at once: a process at each end of each, in turns of so many messages.

All processes exist and have their memory before a turn begins, so no result includes the start of
a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from sdptests.bench import layers
from sdptests.bench.gauge import Gauge
from sdptests.bench.streams import MIB, Rate, enough, patience, per_mib


class End(Protocol):
    """A process that has one end of a connection."""

    def order(self, size: int, count: int) -> None:
        """Tells it to prepare for so many messages."""

    def await_ready(self) -> None:
        """Waits until it is prepared."""

    def go(self) -> None:
        """Has it begin."""

    def times(self) -> tuple[float, float]:
        """The beginning and the end of its turn."""


class Flows:
    """Connections from a to b that are used at the same time."""

    def __init__(
        self,
        senders: Sequence[End],
        receivers: Sequence[End],
        uncopied: Callable[[], int],
        *,
        least: int = 2,
        answered: bool = False,
    ) -> None:
        """At least so many messages; `answered` ones have arrived when the answer is back."""
        self._senders = senders
        self._receivers = receivers
        self._uncopied = uncopied
        self._least = least
        self._last = senders if answered else receivers
        # By size: the messages of each connection that take as long as a measurement.
        self._counts: dict[int, int] = {}

    def _turn(self, size: int, count: int) -> tuple[float, float]:
        """The time when the first began to send, and that of the last byte's arrival."""
        ends = [*self._receivers, *self._senders]
        with patience():
            for end in ends:
                end.order(size, count)
            for end in ends:
                end.await_ready()
            for end in ends:
                end.go()
            times = {id(end): end.times() for end in ends}
        begun = min(times[id(end)][0] for end in self._senders)
        return begun, max(times[id(end)][1] for end in self._last)

    def _enough(self, size: int, seconds: float) -> int:
        if size not in self._counts:
            turn = partial(self._turn, size)
            self._counts[size] = enough(turn, size, seconds, self._least)
        return self._counts[size]

    def rate_alone(self, size: int, seconds: float) -> Rate:
        """The rate of messages of that size on all connections together, without a profile."""
        count = self._enough(size, seconds)
        before = self._uncopied()
        begin, end = self._turn(size, count)
        total = count * size * len(self._senders)
        return Rate(total / MIB / (end - begin), {}, total, self._uncopied() - before)

    def rate(self, size: int, seconds: float, symbols: layers.Symbols) -> Rate:
        """The same with the processors' time."""
        count = self._enough(size, seconds)
        before = self._uncopied()
        with Gauge(symbols) as gauge:
            begin, end = self._turn(size, count)
        uncopied = self._uncopied() - before
        total = count * size * len(self._senders)
        times = per_mib(gauge.seconds(begin, end), total)
        return Rate(total / MIB / gauge.took(begin, end), times, total, uncopied)
