# SPDX-License-Identifier: MIT
"""Statistics of repeated measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


def number(value: float | None) -> str:
    """Three significant digits, or as many decimals."""
    if value is None:
        return "-"
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def short(value: float) -> str:
    """Two significant digits, for tables with three values in a cell."""
    if value < 1:
        return f"{value:.{3 if value < 0.1 else 2}f}".lstrip("0").rstrip(".") or "0"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


@dataclass(frozen=True)
class Spread:
    """Median and range of the results of several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Of all rounds that have a result."""
        found = list(values)
        if not found:
            return None
        return cls(statistics.median(found), min(found), max(found))

    @classmethod
    def of_ratios(cls, ones: Iterable[float], others: Iterable[float]) -> Spread | None:
        """Of the ratios of results from the same round."""
        return cls.of(one / other for one, other in zip(ones, others, strict=True))

    def __str__(self) -> str:
        return f"{number(self.median)} {number(self.least)}-{number(self.most)}"

    def short(self) -> str:
        """The same in short form."""
        return f"{short(self.median)} {short(self.least)}-{short(self.most)}"
