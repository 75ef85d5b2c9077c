# SPDX-License-Identifier: MIT
"""The aim of zero copy, and what the rounds of a run say of it: its default is nowhere worse than the better
one of copies and zero copy.

A ratio compares results of the same round. It reaches the aim if all of its spread does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sdptests.bench import table, verdicts
from sdptests.bench.spread import MORE, Spread
from sdptests.bench.table import KIB, Row, label
from sdptests.bench.verdicts import Line
from sdptests.twohosts.report import say

COPIES, ZCOPY, DEFAULT, READ, TCP = "copies", "zero copy", "default", "RDMA Read", "TCP"
# With the translation cache.
CACHED = "zero copy, cached"
# Behind the name of a way whose ends are event loops.
EVENTS = ", events"
# The rate of the default, of that of the better way.
AIM_BETTER = 0.93
# The paper's sizes from which zero copy was faster, by connections (see plots.PAPER).
PAPER_CROSSING = {1: 256 * KIB, 2: 64 * KIB, 4: 32 * KIB, 8: 16 * KIB}
# Below this share of the bytes the default way does not use zero copy.
_USES = 0.5
_WIDE = 16


@dataclass
class Section:
    """The results with so many connections on one link."""

    link: str
    device: str
    connections: int
    rows: dict[str, Row]
    sizes: Sequence[int]

    @property
    def name(self) -> str:
        """For the first column."""
        return f"{self.link} x {self.connections}"

    def ratio(self, one: str, other: str, size: int) -> Spread | None:
        """Of the rates of two ways."""
        row = self.rows.get(one)
        return table.ratio(row, self.rows.get(other), size) if row else None

    def rate(self, way: str, size: int) -> float:
        """The median, or 0 if there is none."""
        row = self.rows.get(way)
        return (row.rate(size) if row else None) or 0.0

    def of_better(self, ends: str, size: int) -> Spread | None:
        """The default way, of the better one among always and never."""
        ways = (COPIES + ends, ZCOPY + ends)
        return table.of_better(self.rows, DEFAULT + ends, ways, size)

    def crossing(self) -> int | None:
        """The size from which zero copy is faster than copies, by the medians."""
        return _from(self.sizes, lambda size: self.rate(ZCOPY, size) > self.rate(COPIES, size))

    def decided(self) -> int | None:
        """The same, where the spread decides it as well."""
        return _from(self.sizes, lambda size: _more(self.ratio(ZCOPY, COPIES, size)))

    def found(self) -> int | None:
        """The size from which the default way uses zero copy."""
        row = self.rows.get(DEFAULT)
        return _from(self.sizes, lambda size: row is not None and row.uncopied(size) > _USES)


def _more(value: Spread | None) -> bool:
    return value is not None and value.beside_one() == MORE


def _from(sizes: Sequence[int], holds: Callable[[int], bool]) -> int | None:
    """The least size for which it holds, and for all larger ones too."""
    found = None
    for size in sorted(sizes, reverse=True):
        if not holds(size):
            break
        found = size
    return found


def _size(size: int | None) -> str:
    return label(size) if size else "-"


def show_better(sections: Sequence[Section]) -> None:
    """Prints the default way beside the better one of always and never."""
    sizes = sorted({size for section in sections for size in section.sizes})
    say(f"\n{'default, of the better way':<30}" + "".join(f"{label(s):>{_WIDE}}" for s in sizes))
    for section in sections:
        for ends in ("", EVENTS):
            cells = [section.of_better(ends, size) for size in sizes]
            if any(cells):
                shown = "".join(f"{one.short() if one else '-':>{_WIDE}}" for one in cells)
                say(f"  {section.name + ends:<28}" + shown)


def show_crossings(sections: Sequence[Section]) -> None:
    """Prints from which sizes on zero copy is faster and used."""
    say(f"\n{'zero copy, from which size':<24}{'faster':>9}{'decided':>9}{'default':>9}{'2005':>9}")
    for section in sections:
        sizes = (section.crossing(), section.decided(), section.found())
        cells = [*map(_size, sizes), _size(PAPER_CROSSING.get(section.connections))]
        say(f"  {section.name:<22}" + "".join(f"{cell:>9}" for cell in cells))


def show_uncopied(section: Section) -> None:
    """Prints the share of bytes that arrived without a copy."""
    table.show_uncopied(list(section.rows.values()), section.sizes)


def everywhere(sections: Iterable[Section]) -> Iterator[Line]:
    """The default way beside the better one, for all sizes, by link."""
    cells: dict[str, list[tuple[str, Spread]]] = {}
    for section in sections:
        for ends in ("", EVENTS):
            for size in section.sizes:
                if value := section.of_better(ends, size):
                    place = f"{section.connections} x {label(size)}{ends}"
                    cells.setdefault(section.link, []).append((place, value))
    for link, found in cells.items():
        what = f"{link}: default of the better way, all sizes"
        yield from verdicts.all_reach(what, found, AIM_BETTER)


def show(sections: Sequence[Section]) -> None:
    """Prints the aim."""
    verdicts.show(everywhere(sections))
