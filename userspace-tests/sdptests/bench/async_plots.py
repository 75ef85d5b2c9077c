# SPDX-License-Identifier: MIT
"""The results of bench-async as SVG, in the form of figures 6 to 8 and 10 of the AZ-SDP paper.

The paper calls copies BSDP, blocking zero copy ZSDP and asynchronous zero copy AZ-SDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdptests.bench import plots
from sdptests.bench.async_aims import AZ, BLOCK, COPIES, COPY, TCP, ZCOPY, Section
from sdptests.bench.experiments import CONNECTIONS, FAULTS, LATENCY, OVERLAP, THROUGHPUT
from sdptests.bench.plots import Point, Series
from sdptests.bench.spread import Spread
from sdptests.bench.table import label

# The paper's figure and its statements, by experiment: two lines each.
PAPER = {
    LATENCY: (
        "6a",
        "ZSDP and AZ-SDP are faster than BSDP",
        "no significant difference between the two: one message is sent at a time",
    ),
    THROUGHPUT: (
        "6b",
        "small messages: BSDP is the fastest",
        "medium messages: AZ-SDP is about 35 % faster than ZSDP",
    ),
    OVERLAP: (
        "7",
        "64 KB: AZ-SDP up to a factor of 2 faster",
        "1 MB: no drop of AZ-SDP up to 200 us of computation, a large one of the others",
    ),
    FAULTS: (
        "8",
        "small windows: AZ-SDP is slower than ZSDP",
        "each fault adds about 6 us",
    ),
    CONNECTIONS: (
        "10a",
        "64 KB, one stream: AZ-SDP is the fastest",
        "several streams: ZSDP gets as fast as AZ-SDP",
    ),
}
COLOURS = {
    COPIES: "#c03030",
    ZCOPY: "#2060c0",
    COPY: "#208040",
    BLOCK: "#8040a0",
    TCP: "#c09020",
}
_AXES = {
    LATENCY: ("size of messages", True),
    THROUGHPUT: ("size of messages", True),
    OVERLAP: ("computation between two sends, us", False),
    FAULTS: ("buffers, each written to before it is sent", False),
    CONNECTIONS: ("connections", False),
}
# Of each way, the part of the time in which a sender computes.
_PROGRESS = "part of time computing, %"


def _value(section: Section, way: str, column: int) -> Spread | None:
    """us of a latency, MiB/s of anything else."""
    row = section.rows[way]
    if section.experiment.kind == LATENCY:
        return section.one_way_us(row, column)
    return Spread.of(row.rates(column))


def points(section: Section) -> list[plots.Row]:
    """The medians of a section with their spreads."""
    experiment = section.experiment
    return [
        {
            "link": section.link,
            "experiment": experiment.kind,
            "size": experiment.task(column).size,
            "way": way,
            "x": column,
            "value": value.median,
            "least": value.least,
            "most": value.most,
            "uncopied": row.uncopied(column),
            "lent": section.lent(row, column) if way in AZ else 0,
        }
        for way, row in section.rows.items()
        for column in experiment.columns
        if (value := _value(section, way, column))
    ]


def _series(section: Section) -> list[Series]:
    """The lines of a figure."""
    columns = section.experiment.columns
    found: list[Series] = []
    for way, colour in COLOURS.items():
        if way not in section.rows:
            continue
        its: list[Point] = [
            (column, value.median, value.least, value.most)
            for column in columns
            if (value := _value(section, way, column))
        ]
        found.append((way, colour, "x1y1", its))
        if section.experiment.kind == OVERLAP:
            found.append((f"{way}, computing", colour, "x1y2", _progress(section, way)))
    return found


def _progress(section: Section, way: str) -> list[Point]:
    """In percent."""
    row = section.rows[way]
    return [
        (column, 100 * part.median, 100 * part.least, 100 * part.most)
        for column in section.experiment.columns
        if (part := section.progress(row, column))
    ]


def file_name(section: Section) -> str:
    """Of its figure; one of several sizes names its size."""
    experiment = section.experiment
    figure = PAPER[experiment.kind][0]
    named = experiment.kind in (OVERLAP, FAULTS)
    size = f"-{label(experiment.task(experiment.columns[0]).size)}" if named else ""
    return f"figure{figure}{size}.svg"


def draw(directory: Path, sections: Sequence[Section]) -> None:
    """A figure of each section of a link."""
    for section in sections:
        kind = section.experiment.kind
        left = "us" if kind == LATENCY else "MiB/s"
        _figure, *statements = PAPER[kind]
        plots.plot(
            directory / file_name(section),
            "\n".join((section.name, *(f"2006: {line}" for line in statements))),
            _AXES[kind],
            (left, _PROGRESS if kind == OVERLAP else ""),
            _series(section),
        )


def statements() -> list[str]:
    """The paper's, as lines of a page."""
    return [f"- Figure {figure}: {'; '.join(lines)}." for figure, *lines in PAPER.values()]
