# SPDX-License-Identifier: MIT
"""Aims, and what became of them, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sdptests.bench.spread import MET, NOT_MET, OPEN, Spread, number
from sdptests.twohosts.report import say


@dataclass(frozen=True)
class Line:
    """An aim, and what became of it."""

    what: str
    value: str
    aim: str
    verdict: str


def reached(what: str, value: Spread | None, least: float) -> Iterator[Line]:
    """Whether a ratio reaches an aim; nothing without either."""
    if value and least:
        yield Line(what, str(value), number(least), value.verdict(least))


def all_reach(what: str, cells: Sequence[tuple[str, Spread]], aim: float) -> Iterator[Line]:
    """Whether the ratios of all places reach it; the worst one is named."""
    if not cells:
        return
    place, value = min(cells, key=lambda cell: cell[1].median)
    counts = [one.verdict(aim) for _place, one in cells]
    met = counts.count(MET)
    below = counts.count(NOT_MET)
    shown = f"{met} of {len(cells)}, {len(counts) - met - below} undecided; least {place}: {value}"
    verdict = MET if met == len(cells) else NOT_MET if below else OPEN
    yield Line(what, shown, number(aim), verdict)


def show(lines: Iterable[Line]) -> None:
    """Prints all of them."""
    found = list(lines)
    width = max((len(line.what) for line in found), default=0)
    say(f"\n{'aims':<{width + 2}}  {'median spread':<20} {'aim':<6} verdict")
    for line in found:
        say(f"  {line.what:<{width}}  {line.value:<20} {line.aim:<6} {line.verdict}")
