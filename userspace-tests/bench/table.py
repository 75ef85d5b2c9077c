# SPDX-License-Identifier: MIT
"""Rows of figures by the size of messages, and what they are beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import layers
from streams import MIB, Rate
from twohosts.report import say

KIB = 1 << 10
WIDTH = 26


@dataclass(frozen=True)
class Row:
    """One way of moving bytes."""

    name: str
    # By size; what was not measured is not there.
    rates: dict[int, Rate] = field(default_factory=dict)
    # What it is made of, and cannot be faster than: the name of another row.
    raw: str = ""
    # Why there is nothing.
    absent: str = ""


def label(size: int) -> str:
    """64, 4K, 1M."""
    if size >= MIB:
        return f"{size // MIB}M"
    return f"{size // KIB}K" if size >= KIB else str(size)


def number(value: float | None) -> str:
    """Three figures of it."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _print(
    heading: str,
    rows: Sequence[Row],
    sizes: Sequence[int],
    cell: Callable[[Row, int], float | None],
) -> None:
    say(f"\n{heading:<{WIDTH}}" + "".join(f"{label(size):>9}" for size in sizes))
    for row in rows:
        if row.absent:
            say(f"  {row.name:<{WIDTH - 2}}   not available: {row.absent}")
            continue
        cells = [number(cell(row, size)) for size in sizes]
        if any(one != "-" for one in cells):
            say(f"  {row.name:<{WIDTH - 2}}" + "".join(f"{one:>9}" for one in cells))


def ratio(row: Row, other: Row | None, size: int) -> float | None:
    """Of two rates."""
    if other is None or size not in row.rates or size not in other.rates:
        return None
    return row.rates[size].mib_per_s / other.rates[size].mib_per_s


def show(rows: Sequence[Row], sizes: Sequence[int]) -> None:
    """Rates, what they are of others, and the processors' time."""
    find = {row.name: row for row in rows}

    def rate(row: Row, size: int) -> float | None:
        return row.rates[size].mib_per_s if size in row.rates else None

    def time(row: Row, size: int) -> float | None:
        return sum(row.rates[size].times.values()) or None if size in row.rates else None

    there = [row for row in rows if not row.absent]
    _print("MiB/s", rows, sizes, rate)
    of_raw = "of raw; raw of a memcpy"
    _print(of_raw, there, sizes, lambda row, size: ratio(row, find.get(row.raw), size))
    _print("of TCP", there, sizes, lambda row, size: ratio(row, find.get("TCP"), size))
    _print("processor, ms for each MiB", there, sizes, time)


def show_layers(rows: Sequence[Row], size: int) -> None:
    """Where the time of one size goes."""
    say(f"\nprocessor time, ms for each MiB, messages of {label(size)}")
    say(f"  {'':<{WIDTH - 2}}" + "".join(f"{name:>13}" for name in (*layers.LAYERS, "all")))
    for row in rows:
        if size in row.rates and (times := row.rates[size].times):
            cells = [*times.values(), sum(times.values())]
            say(f"  {row.name:<{WIDTH - 2}}" + "".join(f"{cell:13.2f}" for cell in cells))
