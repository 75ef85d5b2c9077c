# SPDX-License-Identifier: MIT
"""Statistics of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Fewer rounds decide nothing: five ratios are all on the same side by chance with a probability
# of 2 * (1/2)**5, which is 6 %.
DECIDING = 5
# What a ratio is beside 1.
LESS, MORE, UNDECIDED = "less", "more", "undecided"
# What became of an aim.
MET, NOT_MET = "met", "NOT MET"
OPEN = f"{NOT_MET}: {UNDECIDED}"


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


def outermost(rounds: int) -> int:
    """How many of the smallest results, and of the largest, do not count for the spread.

    The range of the others has the median of very many rounds in it with a probability of nine in
    ten at least. So more rounds make it narrower, where the range of all results gets wider. Up to
    seven rounds all count, and less than five do not reach nine in ten.
    """
    dropped, below, total = 0, 1, 2**rounds
    while 2 * (below := below + math.comb(rounds, dropped + 1)) <= total / 10:
        dropped += 1
    return dropped


def certainty(rounds: int) -> float:
    """The probability of the median of very many rounds to lie in the spread of so many."""
    beyond = sum(math.comb(rounds, below) for below in range(outermost(rounds) + 1))
    return max(0.0, 1 - 2 * beyond / 2**rounds)


@dataclass(frozen=True)
class Spread:
    """Median and range of the results of several rounds."""

    median: float
    least: float
    most: float
    # Of rounds that have a result.
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Of all rounds that have a result."""
        found = sorted(values)
        if not found:
            return None
        dropped = outermost(len(found))
        return cls(statistics.median(found), found[dropped], found[-1 - dropped], len(found))

    @classmethod
    def of_ratios(
        cls, ones: Mapping[int, float], others: Mapping[int, float]
    ) -> Spread | None:
        """Of the ratios of results by round, in the rounds that have both."""
        return cls.of(one / others[at] for at, one in ones.items() if at in others)

    def __str__(self) -> str:
        return f"{number(self.median)} {number(self.least)}-{number(self.most)}"

    def beside_one(self) -> str:
        """Whether a ratio is less or more than 1; undecided if its spread has both answers in it, or
        if it is of too few rounds."""
        if self.count < DECIDING:
            return UNDECIDED
        if self.most < 1:
            return LESS
        return MORE if self.least > 1 else UNDECIDED

    def verdict(self, aim: float) -> str:
        """Whether it reaches the aim; not if the aim lies within the spread, nor by too few rounds."""
        if self.count < DECIDING:
            return OPEN
        if self.least >= aim:
            return MET
        return NOT_MET if self.most < aim else OPEN

    def short(self) -> str:
        """The same in short form."""
        return f"{short(self.median)} {short(self.least)}-{short(self.most)}"
