# SPDX-License-Identifier: MIT
"""Results of loads over sockets inside the kernel: medians, ratios of the same round, Markdown, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sdptests.bench.spread import UNDECIDED, Spread, number

KIB, MIB = 1 << 10, 1 << 20
PING, STREAM, CONNECTIONS = "ping", "stream", "connections"
NAMES = {PING: "round trip of", STREAM: "stream of", CONNECTIONS: "connection for"}
TCP, TCP_RXE = "TCP", "TCP beside rxe"


class Spent(Protocol):
    """What a load has done, and what it took, in ns (sdptests/kernel_sockets)."""

    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def wall(self) -> int: ...
    @property
    def outside(self) -> int: ...
    @property
    def busy(self) -> int: ...
    @property
    def client(self) -> int: ...
    @property
    def server(self) -> int: ...
    @property
    def processor(self) -> int: ...


@dataclass(frozen=True)
class Load:
    """What is done with messages of a size."""

    way: str
    size: int

    def __str__(self) -> str:
        unit = f"{self.size} B"
        for step, name in ((MIB, "MiB"), (KIB, "KiB")):
            if self.size >= step and not self.size % step:
                unit = f"{self.size // step} {name}"
                break
        return f"{NAMES[self.way]} {unit}"


@dataclass(frozen=True)
class Kind:
    """A kind of sockets, a column."""

    name: str
    # The word of the module's command.
    word: str
    # The kind whose results of the same rounds these are compared with.
    beside: str = TCP


def microseconds(spent: Spent) -> float:
    """Processor time of a message, of a round trip or of a connection."""
    return spent.processor / spent.count / 1000


def wall_microseconds(spent: Spent) -> float:
    """The same by the clock."""
    return spent.wall / spent.count / 1000


def rate(load: Load, spent: Spent) -> float:
    """MiB/s of a stream, or round trips and connections per second."""
    if load.way == STREAM:
        return spent.bytes / MIB / (spent.wall / 1e9)
    return spent.count / (spent.wall / 1e9)


Measure = Callable[[Spent], float]


@dataclass
class Results:
    """Results of all rounds; a measurement that failed has none in its round."""

    kinds: Sequence[Kind]
    rounds: list[dict[tuple[Load, str], Spent]] = field(default_factory=list)

    def add(self, load: Load, kind: Kind, spent: Spent) -> None:
        """A result of the last round."""
        self.rounds[-1][load, kind.name] = spent

    def loads(self) -> list[Load]:
        """All loads, in the order of the first results."""
        return list(dict.fromkeys(load for one in self.rounds for load, _kind in one))

    def _by_round(self, load: Load, kind: str, measure: Measure) -> dict[int, float]:
        """Of the rounds that have a result."""
        key = load, kind
        return {at: measure(one[key]) for at, one in enumerate(self.rounds) if key in one}

    def value(self, load: Load, kind: Kind, measure: Measure) -> Spread | None:
        """Median and spread of a kind."""
        return Spread.of(self._by_round(load, kind.name, measure).values())

    def ratio(self, load: Load, kind: Kind, measure: Measure) -> Spread | None:
        """Of the results of the same rounds."""
        return Spread.of_ratios(
            self._by_round(load, kind.name, measure), self._by_round(load, kind.beside, measure)
        )

    def undecided(self, load: Load, kind: Kind, measure: Measure) -> bool:
        """Whether the rounds do not agree on which of the two is faster, or are too few."""
        ratio = self.ratio(load, kind, measure)
        return ratio is None or ratio.beside_one() == UNDECIDED


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; all columns but the first are figures."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(headings) - 1)])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def values(results: Results, measure: Callable[[Load, Spent], float]) -> Iterator[str]:
    """A table of medians and spreads."""

    def cell(load: Load, kind: Kind) -> str:
        found = results.value(load, kind, lambda spent: measure(load, spent))
        return str(found) if found else "-"

    rows = ([str(load), *(cell(load, kind) for kind in results.kinds)] for load in results.loads())
    return markdown(["", *(kind.name for kind in results.kinds)], rows)


def ratios(results: Results, measure: Measure) -> Iterator[str]:
    """A table of the ratios to TCP."""
    kinds = [kind for kind in results.kinds if kind.name != kind.beside]

    def cell(load: Load, kind: Kind) -> str:
        found = results.ratio(load, kind, measure)
        if not found:
            return "-"
        return f"{found}{f' {UNDECIDED}' if results.undecided(load, kind, measure) else ''}"

    rows = ([str(load), *(cell(load, kind) for kind in kinds)] for load in results.loads())
    return markdown(["", *(kind.name for kind in kinds)], rows)


SUMMARY = ("load", "bytes", "kind", "rounds", "processor_us", "least", "most", "of_tcp",
           "of_tcp_least", "of_tcp_most", "undecided", "wall_us", "per_s_or_mib_per_s")
RAW = ("round", "load", "size", "kind", "count", "bytes", "wall_ns", "outside_ns", "busy_ns",
       "client_ns", "server_ns")


def _csv(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue()


def summary(results: Results) -> str:
    """Medians and ratios as CSV."""

    def row(load: Load, kind: Kind) -> Sequence[object] | None:
        spent = results.value(load, kind, microseconds)
        if not spent:
            return None
        ratio = results.ratio(load, kind, microseconds)
        compared = (number(ratio.median), number(ratio.least), number(ratio.most),
                    int(results.undecided(load, kind, microseconds))) if ratio else ("",) * 4
        wall = results.value(load, kind, wall_microseconds)
        fast = results.value(load, kind, lambda one: rate(load, one))
        assert wall and fast
        times = (number(spent.median), number(spent.least), number(spent.most))
        return (load.way, load.size, kind.name, spent.count, *times, *compared,
                number(wall.median), number(fast.median))

    rows = (row(load, kind) for load in results.loads() for kind in results.kinds)
    return _csv(SUMMARY, (one for one in rows if one))


def raw(rounds: Iterable[Mapping[tuple[Load, str], Spent]]) -> str:
    """Each measurement as CSV."""
    rows = (
        (at, load.way, load.size, kind, one.count, one.bytes, one.wall, one.outside, one.busy,
         one.client, one.server)
        for at, found in enumerate(rounds, 1)
        for (load, kind), one in found.items()
    )
    return _csv(RAW, rows)
