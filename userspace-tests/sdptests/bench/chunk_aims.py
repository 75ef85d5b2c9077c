# SPDX-License-Identifier: MIT
"""The times of single messages in chunks, and what they say of the aims."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from sdptests.bench.spread import Spread, number
from sdptests.bench.table import KIB, label
from sdptests.twohosts.report import say

RAW, FITTED, DOUBLING, FIXED, WHOLE = "raw SEND", "fitted", "doubling", "fixed 8K", "whole"
# Values of net.sdp.chunk.
WAYS = {FITTED: -1, DOUBLING: -2, FIXED: 8 * KIB, WHOLE: 0}
# The time of raw SEND, of that of SDP with fitted chunks.
AIMS = {16 * KIB: 0.85, 64 * KIB: 0.95, 256 * KIB: 0.95, 1024 * KIB: 0.95, 4096 * KIB: 0.95}
# A stream that keeps the link busy is not cut, so that it is as fast as without chunks.
AIM_STREAM = 0.97
_WIDE = 17


@dataclass
class Found:
    """The results of all rounds."""

    sizes: Sequence[int]
    # By round: us of a message, by way and size; MiB/s of a stream, by way.
    times: dict[tuple[str, int], dict[int, float]] = field(default_factory=dict)
    rates: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, at: int, way: str, size: int, us: float) -> None:
        """The time of one message in a round."""
        self.times.setdefault((way, size), {})[at] = us

    def add_rate(self, at: int, way: str, mib_per_s: float) -> None:
        """The rate of a stream in a round."""
        self.rates.setdefault(way, {})[at] = mib_per_s

    def of_raw(self, way: str, size: int) -> Spread | None:
        """The time of raw SEND, of that of a way, in the same rounds."""
        return Spread.of_ratios(self.times.get((RAW, size), {}), self.times.get((way, size), {}))

    def of_whole(self) -> Spread | None:
        """The rate of a stream with fitted chunks, of that with whole messages."""
        return Spread.of_ratios(self.rates.get(FITTED, {}), self.rates.get(WHOLE, {}))

    def short(self, at: int) -> str:
        """A round in short."""
        return ", ".join(
            f"{label(size)} {self.times[FITTED, size][at]:.1f} of {self.times[RAW, size][at]:.1f}"
            for size in self.sizes
        )


def show(found: Found) -> None:
    """Prints times, ratios and aims."""
    sizes = found.sizes
    say(f"\n{'one way, us':<20}" + "".join(f"{label(size):>{_WIDE}}" for size in sizes))
    for way in (RAW, *WAYS):
        cells = (number(statistics.median(found.times[way, size].values())) for size in sizes)
        say(f"  {way:<18}" + "".join(f"{cell:>{_WIDE}}" for cell in cells))
    say(f"\n{'raw, of the way':<20}" + "".join(f"{label(size):>{_WIDE}}" for size in sizes))
    for way in WAYS:
        ratios = (found.of_raw(way, size) for size in sizes)
        cells = (one.short() if one else "-" for one in ratios)
        say(f"  {way:<18}" + "".join(f"{cell:>{_WIDE}}" for cell in cells))
    say(f"\n{'stream of 64K':<20}{'MiB/s':>{_WIDE}}")
    for way, rates in found.rates.items():
        say(f"  {way:<18}{number(statistics.median(rates.values())):>{_WIDE}}")
    say(f"\n{'aims':<36}{'median spread':<20} {'aim':<6} verdict")
    lines = [(f"{label(size)}, fitted of raw", found.of_raw(FITTED, size), aim)
             for size, aim in AIMS.items() if size in sizes]
    lines.append(("stream of 64K, fitted of whole", found.of_whole(), AIM_STREAM))
    for what, value, aim in lines:
        if value:
            say(f"  {what:<34}{value!s:<20} {number(aim):<6} {value.verdict(aim)}")
