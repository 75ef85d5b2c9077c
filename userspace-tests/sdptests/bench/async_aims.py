# SPDX-License-Identifier: MIT
"""The aims of asynchronous zero copy, and what the rounds of a run say of them.

A ratio compares results of the same round. It reaches an aim if all of its spread does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sdptests.bench import table, verdicts
from sdptests.bench.experiments import FAULTS, LATENCY, LEAST, OVERLAP, THROUGHPUT, Experiment
from sdptests.bench.flow_programs import Way
from sdptests.bench.spread import Spread, number
from sdptests.bench.streams import MIB
from sdptests.bench.table import KIB, Row, label
from sdptests.bench.verdicts import Line
from sdptests.twohosts.failure import Failure

COPIES, ZCOPY, TCP = "copies", "zero copy", "TCP"
COPY, BLOCK = "AZ copy-on-write", "AZ block-on-write"
AZ = (COPY, BLOCK)
# The minimum threshold: everything that can use zero copy does.
THRESHOLD = 4 * KIB
WAYS = {
    COPIES: Way("sdp", 0),
    ZCOPY: Way("sdp", THRESHOLD),
    COPY: Way("sdp", prefix=("sdp_run", "--async")),
    BLOCK: Way("sdp", prefix=("sdp_run", "--async=block")),
    TCP: Way("tcp"),
}
# Of blocking zero copy: the rate of a stream by the size of messages, and the progress of a sender
# whose computation takes as long as a blocking send.
AIM_RATE = 1.35
RATED = (64 * KIB, 128 * KIB, 256 * KIB)
AIM_PROGRESS = 1.8
# Of the better one of copies and zero copy, where memory is written to.
AIM_BETTER = 0.93


@dataclass
class Section:
    """The results of an experiment on one link."""

    link: str
    device: str
    experiment: Experiment
    rows: dict[str, Row]

    @property
    def name(self) -> str:
        """For a heading."""
        return f"{self.link}: {self.experiment.title}"

    def ratio(self, one: str, other: str, column: int) -> Spread | None:
        """Of the rates of two ways."""
        row = self.rows.get(one)
        return table.ratio(row, self.rows.get(other), column) if row else None

    def of_better(self, way: str, column: int) -> Spread | None:
        """The rate, of that of the better one of copies and zero copy."""
        return table.of_better(self.rows, way, (COPIES, ZCOPY), column)

    def message_us(self, rate: float, column: int) -> float:
        """The time of a message at that many MiB/s on each connection."""
        experiment = self.experiment
        each = rate * MIB / experiment.connections(column)
        return experiment.task(column).size / each * 1e6

    def one_way_us(self, row: Row, column: int) -> Spread | None:
        """Half of the time of a message and its answer."""
        return Spread.of(self.message_us(rate, column) / 2 for rate in row.rates(column))

    def progress(self, row: Row, column: int) -> Spread | None:
        """Which part of its time the sender computes: that of the same work with nothing else."""
        return Spread.of(column / self.message_us(rate, column) for rate in row.rates(column))

    def lent(self, row: Row, column: int) -> float:
        """The stretches of memory that were lent for a message."""
        found = [one[column] for one in row.rounds if column in one]
        messages = sum(one.total for one in found) / self.experiment.task(column).size
        return sum(one.lent for one in found) / max(1, messages)


def check_lending(section: Section) -> None:
    """The ways do what they are named for: without rights a program runs as any other."""
    experiment = section.experiment
    if experiment.kind != THROUGHPUT:
        return
    for column in experiment.columns:
        for way in AZ if column >= LEAST else ():
            row = section.rows[way]
            if row.rates(column) and not section.lent(row, column):
                raise Failure(f"{section.name}: {way} has lent nothing of {label(column)}")


def _lines(section: Section) -> Iterator[Line]:
    """The aims of one section."""
    experiment = section.experiment
    for way in AZ:
        if experiment.kind == THROUGHPUT:
            for size in (size for size in RATED if size in experiment.columns):
                what = f"{section.link}: stream of {label(size)}, {way} of zero copy"
                yield from verdicts.reached(what, section.ratio(way, ZCOPY, size), AIM_RATE)
        elif experiment.kind == OVERLAP:
            sender = f"computing sender of {label(experiment.task(0).size)}"
            value = section.ratio(way, ZCOPY, experiment.balanced)
            what = f"{section.link}: {sender}, {way} of zero copy"
            yield from verdicts.reached(what, value, AIM_PROGRESS)


def _off_by_itself(sections: Sequence[Section]) -> Iterator[Line]:
    """Both ways beside the better one of the others, for all sizes and windows, by link."""
    for link in dict.fromkeys(section.link for section in sections):
        its = [one for one in sections if one.link == link and one.experiment.kind == FAULTS]
        for way in AZ:
            cells = [
                (f"{column} x {label(one.experiment.task(column).size)}", value)
                for one in its
                for column in one.experiment.columns
                if (value := one.of_better(way, column))
            ]
            what = f"{link}: {way} of the better way, buffers written to"
            yield from verdicts.all_reach(what, cells, AIM_BETTER)


def lines(sections: Sequence[Section]) -> list[Line]:
    """All aims."""
    found = [line for section in sections for line in _lines(section)]
    return [*found, *_off_by_itself(sections)]


def show(section: Section) -> None:
    """Prints the tables of a section."""
    experiment = section.experiment
    rows = list(section.rows.values())
    az = [row for row in rows if row.name in AZ]

    def part(heading: str, its: Sequence[Row], cell: Callable[[Row, int], float | None]) -> None:
        columns, name = experiment.columns, experiment.name
        table.show_part(heading, its, columns, lambda *at: number(cell(*at)), name=name)

    def ratios(heading: str, its: Sequence[Row], cell: Callable[[Row, int], Spread | None]) -> None:
        def shown(row: Row, column: int) -> str:
            found = cell(row, column)
            return found.short() if found else "-"

        table.show_part(heading, its, experiment.columns, shown, table.WIDE, experiment.name)

    if experiment.kind == LATENCY:
        part("one way, us, median", rows, lambda *at: _median(section.one_way_us(*at)))
    else:
        part("MiB/s, median", rows, lambda row, column: row.rate(column))
    if experiment.kind == OVERLAP:
        part("part of time computing", rows, lambda *at: _median(section.progress(*at)))
    others = [row for row in rows if row.name != ZCOPY]
    ratios("of zero copy", others, lambda row, column: section.ratio(row.name, ZCOPY, column))
    if experiment.kind == FAULTS:
        ratios("of the better way", az, lambda row, at: section.of_better(row.name, at))
    part("stretches lent a message", az, section.lent)
    table.show_uncopied(rows, experiment.columns, experiment.name)


def _median(value: Spread | None) -> float | None:
    return value.median if value else None
