# SPDX-License-Identifier: MIT
"""The processor time of a piece of work.

On a native guest it is the host's, in two parts: the kernel's own work, and the rest, which is programs and
what a kernel in a process costs. Elsewhere it comes from samples, by layer.
"""

from __future__ import annotations

import math
from types import TracebackType

from sdptests.bench import layers, meter
from sdptests.bench.sampler import Sampler

KERNEL, REST = "kernel", "rest"
# What rates and times are judged by, for pages of results.
GROUND = "processor time, by the host" if meter.TERMINAL else "time by the clock"
LAYERS = (KERNEL, REST) if meter.TERMINAL else layers.LAYERS


class Gauge:
    """Inside a with block, the work is measured."""

    def __init__(self, symbols: layers.Symbols) -> None:
        self._symbols = symbols
        self._sampler = None if meter.TERMINAL else Sampler()
        self._used: meter.Used | None = None

    def __enter__(self) -> Gauge:
        if self._sampler:
            self._sampler.__enter__()
        self._used = meter.used()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sampler:
            self._sampler.__exit__(kind, error, trace)
        elif self._used and (now := meter.used()):
            self._used = now.since(self._used)

    def seconds(self, begin: float = -math.inf, end: float = math.inf) -> dict[str, float]:
        """Of all processors, by layer, between two readings of time.monotonic()."""
        if self._sampler:
            samples, frequency = self._sampler.samples(), self._sampler.frequency
            return layers.profile(samples, frequency, begin, end, self._symbols).seconds
        if not self._used:
            return {}
        if self._used.kernel is None:
            return {REST: self._used.whole}
        return {KERNEL: self._used.kernel, REST: self._used.whole - self._used.kernel}

    def took(self, begin: float, end: float) -> float:
        """The seconds by which rates are judged: processor time on a native guest, whose host may have had
        other work meanwhile."""
        return self._used.whole if self._used else end - begin
