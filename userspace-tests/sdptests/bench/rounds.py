# SPDX-License-Identifier: MIT
"""Rounds of measurements: all ways beside each other, in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sdptests.bench.failures import Failures
from sdptests.bench.streams import Rate
from sdptests.bench.table import Row, label
from sdptests.twohosts.report import say

T = TypeVar("T")


def order(ways: Sequence[T], number: int) -> Sequence[T]:
    """The ways, beginning with another one for each number. They go backwards every other time, so that
    what one leaves behind does not always meet the same one."""
    first = number % max(1, len(ways))
    begun, others = ways[first : first + 1], [*ways[first + 1 :], *ways[:first]]
    return [*begun, *(reversed(others) if number % 2 else others)]


def add(
    title: str,
    rows: Mapping[str, Row],
    columns: Sequence[int],
    ways: dict[str, Callable[[int], Rate]],
    number: int,
    failures: Failures,
    name: Callable[[int], str] = label,
) -> None:
    """One result of each way and column; the first way is another one each time.

    A way that fails is removed, because its ends are at different messages then.
    """
    for row in rows.values():
        row.rounds.append({})
    for turn, column in enumerate(columns):
        shown = []
        for way in order(list(ways), number + turn):
            with failures.noted(f"{title}, {name(column)}, {way}"):
                rate = rows[way].rounds[-1][column] = ways[way](column)
                shown.append(f"{way} {rate.mib_per_s:.1f}")
            if column not in rows[way].rounds[-1]:
                del ways[way]
        say(f"# {title}, {name(column)}: {', '.join(shown)}", to=sys.stderr)
