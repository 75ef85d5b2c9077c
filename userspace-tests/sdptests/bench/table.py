# SPDX-License-Identifier: MIT
"""Rows of results by message size, and their ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sdptests.bench.gauge import KERNEL
from sdptests.bench.spread import Spread, number
from sdptests.bench.streams import MIB, Rate
from sdptests.twohosts.report import say

KIB = 1 << 10
WIDTH = 26
NARROW, WIDE = 9, 16


@dataclass
class Row:
    """One way of moving bytes."""

    name: str
    # The name of the row for its underlying operation, which limits its rate.
    raw: str = ""
    # The reason why there are no results.
    absent: str = ""
    # By size, in each round; without sizes that were not measured.
    rounds: list[dict[int, Rate]] = field(default_factory=list)

    def rates(self, size: int) -> list[float]:
        """MiB/s, of each round."""
        return [one[size].mib_per_s for one in self.rounds if size in one]

    def rate(self, size: int) -> float | None:
        """Their median."""
        found = self.rates(size)
        return statistics.median(found) if found else None

    def times(self, size: int) -> dict[str, float]:
        """ms of the processors per MiB by layer: the mean, because all rounds are one sample."""
        found = [one[size].times for one in self.rounds if size in one and one[size].times]
        return {
            layer: statistics.mean(one.get(layer, 0.0) for one in found)
            for layer in (found[0] if found else ())
        }

    def uncopied(self, size: int) -> float:
        """The share of bytes that arrived without a copy, of all rounds."""
        found = [one[size] for one in self.rounds if size in one]
        return sum(one.uncopied for one in found) / max(1, sum(one.total for one in found))


def label(size: int) -> str:
    """64, 4K, 1M."""
    if size >= MIB:
        return f"{size // MIB}M"
    return f"{size // KIB}K" if size >= KIB else str(size)


def show_part(
    heading: str,
    rows: Sequence[Row],
    sizes: Sequence[int],
    cell: Callable[[Row, int], str],
    width: int = NARROW,
    name: Callable[[int], str] = label,
) -> None:
    """Prints a cell of each row and column, without rows that have nothing to say."""
    say(f"\n{heading:<{WIDTH}}" + "".join(f"{name(size):>{width}}" for size in sizes))
    for row in rows:
        if row.absent:
            say(f"  {row.name:<{WIDTH - 2}}   not available: {row.absent}")
            continue
        cells = [cell(row, size) for size in sizes]
        if any(one != "-" for one in cells):
            say(f"  {row.name:<{WIDTH - 2}}" + "".join(f"{one:>{width}}" for one in cells))


def ratio(row: Row, other: Row | None, size: int) -> Spread | None:
    """The ratio of two rates, in the rounds that have both."""
    return _ratio(row, other, size, lambda rate: rate.mib_per_s)


def work(row: Row, other: Row | None, size: int) -> Spread | None:
    """The ratio of the kernel's own work for a MiB, in the rounds that know both."""
    return _ratio(row, other, size, lambda rate: rate.times.get(KERNEL))


def _ratio(
    row: Row, other: Row | None, size: int, figure: Callable[[Rate], float | None]
) -> Spread | None:
    def figures(of: Row) -> dict[int, float]:
        there = {at: figure(one[size]) for at, one in enumerate(of.rounds) if size in one}
        return {at: value for at, value in there.items() if value is not None}

    return Spread.of_ratios(figures(row), figures(other)) if other else None


# A ratio of two rows for messages of a size.
Ratio = Callable[[Row, "Row | None", int], "Spread | None"]


def of_better(rows: Mapping[str, Row], way: str, others: Sequence[str], size: int) -> Spread | None:
    """The ratio to the one of the others that has the greatest median.

    The greatest one of each round would be greater than all medians, by chance alone.
    """
    there = [rows[name] for name in others if name in rows]
    if way not in rows or not there:
        return None
    return ratio(rows[way], max(there, key=lambda row: row.rate(size) or 0.0), size)


def show_uncopied(
    rows: Sequence[Row],
    sizes: Sequence[int],
    name: Callable[[int], str] = label,
) -> None:
    """Prints the share of bytes that arrived without a copy."""
    ways = [row for row in rows if any(map(row.uncopied, sizes))]
    if ways:
        heading = "share without a copy"
        show_part(heading, ways, sizes, lambda row, at: f"{row.uncopied(at):.2f}", name=name)


def show(rows: Sequence[Row], sizes: Sequence[int], *, of_tcp: bool = True) -> None:
    """Prints rates, their ratios, and the processors' time."""
    find = {row.name: row for row in rows}

    def beside(row: Row, other: str, size: int, of: Ratio = ratio) -> str:
        found = of(row, find.get(other), size)
        return found.short() if found else "-"

    def time(row: Row, size: int) -> str:
        return number(sum(row.times(size).values()) or None)

    there = [row for row in rows if not row.absent]
    # Rows that move bytes to another end; a memcpy does not.
    ways = [row for row in there if any(map(row.times, sizes)) and row.name != "TCP"]
    show_part("MiB/s, median", rows, sizes, lambda row, size: number(row.rate(size)))
    of_raw = "of raw; raw of a memcpy"
    show_part(of_raw, there, sizes, lambda row, size: beside(row, row.raw, size), WIDE)
    if of_tcp:
        show_part("of TCP", ways, sizes, lambda row, size: beside(row, "TCP", size), WIDE)
        of_work = "the kernel's work, of TCP's"
        show_part(of_work, ways, sizes, lambda row, size: beside(row, "TCP", size, work), WIDE)
    show_part("processor, ms for each MiB", there, sizes, time)


def show_layers(rows: Sequence[Row], size: int) -> None:
    """Prints the processor time of one size by layer."""
    say(f"\nprocessor time, ms for each MiB, messages of {label(size)}")
    names = next((times for row in rows if (times := row.times(size))), {})
    say(f"  {'':<{WIDTH - 2}}" + "".join(f"{name:>13}" for name in (*names, "all")))
    for row in rows:
        if times := row.times(size):
            cells = [*times.values(), sum(times.values())]
            say(f"  {row.name:<{WIDTH - 2}}" + "".join(f"{cell:13.2f}" for cell in cells))
