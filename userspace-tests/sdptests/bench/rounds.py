# SPDX-License-Identifier: MIT
"""Rounds of measurements: all ways beside each other, in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from sdptests.bench.streams import Rate
from sdptests.bench.table import Row, label
from sdptests.twohosts.report import say


def order(names: Sequence[str], number: int) -> Sequence[str]:
    """The names, beginning with another one for each number."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def add(
    title: str,
    rows: Mapping[str, Row],
    columns: Sequence[int],
    ways: Mapping[str, Callable[[int], Rate]],
    number: int,
    name: Callable[[int], str] = label,
) -> None:
    """One result of each way and column; the first way is another one each time."""
    names = list(ways)
    for row in rows.values():
        row.rounds.append({})
    for turn, column in enumerate(columns):
        for way in order(names, number + turn):
            rows[way].rounds[-1][column] = ways[way](column)
        rates = ", ".join(
            f"{way} {row.rounds[-1][column].mib_per_s:.1f}" for way, row in rows.items()
        )
        say(f"# {title}, {name(column)}: {rates}", to=sys.stderr)
