# SPDX-License-Identifier: MIT
"""Results as SVG, and those of bench-zcopy, by gnuplot, in the form of the paper's figures of 2005.

The paper calls copies BCopy, and zero copy ZCopy. Its statements are in the headings.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from sdptests.bench.gauge import GROUND
from sdptests.bench.spread import Spread
from sdptests.bench.zcopy_aims import COPIES, DEFAULT, PAPER_CROSSING, READ, TCP, ZCOPY, Section

# The paper's statements about its figures, by number. Those about the use of processors are left
# out, and its figure 11 with them: they mean nothing where processor time is what is measured.
PAPER = {
    6: ("BCopy is faster up to 256 KB, ZCopy from there on",),
    7: ("ZCopy is faster from 64 KB on",),
    8: ("ZCopy is faster from 32 KB on",),
    9: ("ZCopy is faster from 16 KB on: more than 700 MB/s, BCopy 500 MB/s",),
    10: (
        "64 KB: ZCopy is faster with 2 connections and more",
        "1 MB: ZCopy is faster with any number of them",
    ),
    12: (
        "ZCopy needs less than BCopy from 4 to 16 KB on",
        "the more connections, the more BCopy needs for a byte",
    ),
}
COLOURS = {
    READ: "#777777",
    COPIES: "#c03030",
    ZCOPY: "#2060c0",
    DEFAULT: "#208040",
    TCP: "#c09020",
}
Row = dict[str, object]


def points(section: Section) -> list[Row]:
    """The medians of a section with their spreads."""
    return [
        {
            "link": section.link,
            "connections": section.connections,
            "way": name,
            "size": size,
            "rate": found.median,
            "least": found.least,
            "most": found.most,
            "times": row.times(size),
            "uncopied": row.uncopied(size),
        }
        for name, row in section.rows.items()
        for size in section.sizes
        if (found := Spread.of(row.rates(size)))
    ]


_RATES = f"MiB/s, {GROUND}"
# x, y, and the ends of the bar at y.
Point = tuple[float, float, float, float]
# A title, a colour, the axes, and points.
Series = tuple[str, str, str, list[Point]]


def directory(link: str) -> str:
    """The name of the directory for the plots of a link."""
    return link.replace(" ", "-").replace("/", "")


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return float(value)


def _time(row: Row) -> float:
    times = row["times"]
    assert isinstance(times, dict)
    return float(sum(times.values()))


def _rate(row: Row, x: str) -> Point:
    """The rate with its spread."""
    return _number(row, x), _number(row, "rate"), _number(row, "least"), _number(row, "most")


def _heading(number: int, text: str) -> str:
    """The title, and the paper's result."""
    return "\n".join((text, *(f"2005: {line}" for line in PAPER[number])))


def _sizes(points: Iterable[Point]) -> str:
    """The tick marks of an axis of sizes: the existing sizes, in KiB and MiB."""
    marks = []
    for size in sorted({int(point[0]) for point in points}):
        for unit, bytes_ in (("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)):
            if size >= bytes_ and size % bytes_ == 0:
                marks.append(f"'{size // bytes_} {unit}' {size}")
                break
    return f"set xtics font 'sans,10' ({', '.join(marks)})"


def plot(
    file: Path,
    heading: str,
    x: tuple[str, bool],
    labels: tuple[str, str],
    given: Sequence[Series],
    extra: Sequence[str] = (),
) -> None:
    """One figure."""
    series = [one for one in given if one[3]]
    scale = ("set logscale x 2", _sizes(point for one in series for point in one[3]))
    lines = [
        # Names are plain text: an underscore must not make a subscript.
        "set terminal svg size 720,520 font 'sans,12' background '#ffffff' noenhanced",
        f"set output '{file}'",
        f"set title {json.dumps(heading)}",
        f"set xlabel '{x[0]}'",
        f"set ylabel '{labels[0]}'",
        "set yrange [0:*]",
        "set key outside bottom center horizontal",
        "set grid ytics lc rgb '#dddddd'",
        *(scale if x[1] else ()),
        *extra,
    ]
    if labels[1]:
        lines += [f"set y2label '{labels[1]}'", "set y2tics", "set y2range [0:*]"]
        lines += ["set ytics nomirror"]
    for number, (*_, points) in enumerate(series):
        cells = (" ".join(map(str, point)) for point in points)
        lines += [f"$D{number} << EOD", *cells, "EOD"]
    drawn = [
        f"$D{number} using 1:2:3:4 axes {axes} with yerrorlines lc rgb '{colour}' "
        f"dt {2 if axes == 'x1y2' else 1} pt 7 ps 0.5 title '{title}'"
        for number, (title, colour, axes, _points) in enumerate(series)
    ]
    lines.append("plot " + ", ".join(drawn))
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def _by_size(rows: Sequence[Row], directory: Path, number: int, connections: int) -> None:
    """Figures 6 to 9: the rate by the size of messages."""
    series: list[Series] = []
    for way, colour in COLOURS.items():
        its = [row for row in rows if row["connections"] == connections and row["way"] == way]
        series.append((way, colour, "x1y1", [_rate(row, "size") for row in its]))
    crossing = PAPER_CROSSING[connections]
    mark = [
        f"set arrow from {crossing}, graph 0 to {crossing}, graph 1 nohead lc rgb '#999999' dt 3",
        f"set label 'crossing of 2005' at {crossing}, graph 0.97 offset 0.5,0 tc rgb '#777777'",
    ]
    plot(
        directory / f"figure{number}.svg",
        _heading(number, f"{directory.name}, connections: {connections}"),
        ("size of messages", True),
        (_RATES, ""),
        series,
        mark,
    )


def _by_connections(rows: Sequence[Row], directory: Path) -> None:
    """Figure 10: 64 KiB and 1 MiB by the number of connections."""
    shades = {
        COPIES: ("#e09090", "#c03030"),
        ZCOPY: ("#90b0e0", "#2060c0"),
        DEFAULT: ("#90c0a0", "#208040"),
    }
    series: list[Series] = []
    for size, name, shade in ((64 << 10, "64K", 0), (1 << 20, "1M", 1)):
        for way, colours in shades.items():
            its = [row for row in rows if row["size"] == size and row["way"] == way]
            found = [_rate(row, "connections") for row in its]
            series.append((f"{way} {name}", colours[shade], "x1y1", found))
    plot(
        directory / "figure10.svg",
        _heading(10, f"{directory.name}, by connections"),
        ("connections", False),
        (_RATES, ""),
        series,
    )


def _overhead(rows: Sequence[Row], directory: Path) -> None:
    """Figure 12: processor time for each KiB."""
    shades = {
        COPIES: ("#e8b0b0", "#d06060", "#902020"),
        ZCOPY: ("#b0c8e8", "#6090d0", "#204890"),
        DEFAULT: ("#b0d8c0", "#60a880", "#185830"),
    }
    series: list[Series] = []
    for shade, connections in enumerate((1, 2, 8)):
        for way, colours in shades.items():
            its = [r for r in rows if r["connections"] == connections and r["way"] == way]
            # us per KiB: ms per MiB, times 1000, over 1024.
            times = [(_number(row, "size"), _time(row) * 1000 / 1024) for row in its]
            points = [(size, us, us, us) for size, us in times]
            series.append((f"{way} x {connections}", colours[shade], "x1y1", points))
    plot(
        directory / "figure12.svg",
        _heading(12, f"{directory.name}, processor time of both hosts for each KiB"),
        ("size of messages", True),
        ("us for each KiB", ""),
        series,
    )


def draw(directory: Path, rows: Sequence[Row]) -> None:
    """All figures of a link, for the measured numbers of connections and sizes."""
    measured = {row["connections"] for row in rows}
    for number, connections in ((6, 1), (7, 2), (8, 4), (9, 8)):
        if connections in measured:
            _by_size(rows, directory, number, connections)
    if {64 << 10, 1 << 20} & {row["size"] for row in rows}:
        _by_connections(rows, directory)
    if {1, 2, 8} & measured:
        _overhead(rows, directory)
