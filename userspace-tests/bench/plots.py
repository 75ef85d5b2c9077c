# SPDX-License-Identifier: MIT
"""The results of bench-zcopy as SVG, by gnuplot, in the form of the paper's figures of 2005."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

# The paper's statements about its figures, by number: two lines each.
PAPER = {
    6: (
        "BCopy is faster up to 256 KB, ZCopy from there on",
        "processor: BCopy about 100 %, ZCopy about 40 %, falling to 20 % with the size",
    ),
    7: ("ZCopy is faster from 64 KB on", "processor: ZCopy below 50 % from 128 KB on, BCopy all"),
    8: ("ZCopy is faster from 32 KB on", "processor: ZCopy below 50 % from 128 KB on, BCopy all"),
    9: (
        "ZCopy is faster from 16 KB on: more than 700 MB/s, BCopy 500 MB/s",
        "processor: ZCopy below 50 % from 128 KB on, BCopy all",
    ),
    10: (
        "64 KB: ZCopy is faster with 2 connections and more",
        "1 MB: ZCopy is faster with any number of them",
    ),
    11: ("ZCopy needs less than 50 % of one processor", "BCopy overloads all four"),
    12: (
        "ZCopy needs less than BCopy from 4 to 16 KB on",
        "the more connections, the more BCopy needs for a byte",
    ),
}
# The message size from which ZCopy was faster in the paper, by number of connections.
PAPER_CROSSING = {1: 256 << 10, 2: 64 << 10, 4: 32 << 10, 8: 16 << 10}
COLOURS = {"ib_read_bw": "#777777", "BCopy": "#c03030", "ZCopy": "#2060c0"}
Row = dict[str, object]


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return float(value)


def _time(row: Row) -> float:
    times = row["times"]
    assert isinstance(times, dict)
    return float(sum(times.values()))


def _heading(number: int, text: str) -> str:
    """The title, and the paper's result."""
    return "\n".join((text, *(f"2005: {line}" for line in PAPER[number])))


def _sizes(points: Iterable[tuple[float, float]]) -> str:
    """The tick marks of an axis of sizes: the existing sizes, in KiB and MiB."""
    marks = []
    for size in sorted({int(x) for x, _ in points}):
        for unit, bytes_ in (("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)):
            if size >= bytes_ and size % bytes_ == 0:
                marks.append(f"'{size // bytes_} {unit}' {size}")
                break
    return f"set xtics ({', '.join(marks)})"


def _plot(
    file: Path,
    heading: str,
    x: tuple[str, bool],
    labels: tuple[str, str],
    series: Sequence[tuple[str, str, str, list[tuple[float, float]]]],
    extra: Sequence[str] = (),
) -> None:
    """One figure; each series has a title, a colour, its axes, and points."""
    lines = [
        # Names are plain text: an underscore must not make a subscript.
        "set terminal svg size 720,480 font 'sans,12' background '#ffffff' noenhanced",
        f"set output '{file}'",
        f"set title {json.dumps(heading)}",
        f"set xlabel '{x[0]}'",
        f"set ylabel '{labels[0]}'",
        "set yrange [0:*]",
        "set key outside bottom center horizontal",
        "set grid ytics lc rgb '#dddddd'",
        *(("set logscale x 2", _sizes(point for one in series for point in one[3])) if x[1] else ()),
        *extra,
    ]
    if labels[1]:
        lines += [f"set y2label '{labels[1]}'", "set y2tics", "set y2range [0:*]", "set ytics nomirror"]
    for number, (*_, points) in enumerate(series):
        lines += [f"$D{number} << EOD", *(f"{a} {b}" for a, b in points), "EOD"]
    drawn = [
        f"$D{number} using 1:2 axes {axes} with linespoints lc rgb '{colour}' "
        f"dt {2 if axes == 'x1y2' else 1} pt 7 ps 0.5 title '{title}'"
        for number, (title, colour, axes, _points) in enumerate(series)
    ]
    lines.append("plot " + ", ".join(drawn))
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def _by_size(rows: Sequence[Row], directory: Path, number: int, connections: int) -> None:
    """Figures 6 to 9: rate and processor time by the size of messages."""
    its = [row for row in rows if row["connections"] == connections]
    series = []
    for way, colour in COLOURS.items():
        mine = [row for row in its if row["way"] == way]
        rate = [(_number(row, "size"), _number(row, "rate")) for row in mine]
        series.append((f"{way}, MiB/s", colour, "x1y1", rate))
        if way != "ib_read_bw":
            time = [(_number(row, "size"), _time(row)) for row in mine]
            series.append((f"{way}, ms for each MiB", colour, "x1y2", time))
    crossing = PAPER_CROSSING.get(connections)
    mark = [
        f"set arrow from {crossing}, graph 0 to {crossing}, graph 1 nohead lc rgb '#999999' dt 3",
        f"set label 'crossing of 2005' at {crossing}, graph 0.97 offset 0.5,0 tc rgb '#777777'",
    ] if crossing else []
    _plot(
        directory / f"figure{number}.svg",
        _heading(number, f"ZCopy, BCopy and RDMA Read, connections: {connections}"),
        ("size of messages", True),
        ("MiB/s", "processor, ms for each MiB"),
        series,
        mark,
    )


def _by_connections(rows: Sequence[Row], directory: Path, number: int, what: str) -> None:
    """Figures 10 and 11: 64 KiB and 1 MiB by the number of connections."""
    series = []
    for size, name, shade in ((64 << 10, "64K", 0), (1 << 20, "1M", 1)):
        for way in ("BCopy", "ZCopy"):
            its = [row for row in rows if row["size"] == size and row["way"] == way]
            value = _time if what == "time" else lambda row: _number(row, "rate")
            points = [(_number(row, "connections"), value(row)) for row in its]
            colour = (("#e09090", "#c03030"), ("#90b0e0", "#2060c0"))[way == "ZCopy"][shade]
            series.append((f"{way} {name}", colour, "x1y1", points))
    label = "processor, ms for each MiB" if what == "time" else "MiB/s"
    _plot(
        directory / f"figure{number}.svg",
        _heading(number, "ZCopy and BCopy by connections"),
        ("connections", False),
        (label, ""),
        [one for one in series if one[3]],
    )


def _overhead(rows: Sequence[Row], directory: Path) -> None:
    """Figure 12: time for each KiB."""
    series = []
    for connections, shade in ((1, 0), (2, 1), (8, 2)):
        for way in ("BCopy", "ZCopy"):
            its = [r for r in rows if r["connections"] == connections and r["way"] == way]
            # us per KiB: ms per MiB, times 1000, over 1024.
            points = [(_number(row, "size"), _time(row) * 1000 / 1024) for row in its]
            reds, blues = ("#e8b0b0", "#d06060", "#902020"), ("#b0c8e8", "#6090d0", "#204890")
            colour = (blues if way == "ZCopy" else reds)[shade]
            if points:
                series.append((f"{way} x {connections}", colour, "x1y1", points))
    _plot(
        directory / "figure12.svg",
        _heading(12, "Processor time of both hosts for each KiB"),
        ("size of messages", True),
        ("us for each KiB", ""),
        series,
    )


def draw(directory: Path, rows: Sequence[Row]) -> None:
    """All figures, for the measured numbers of connections."""
    measured = {row["connections"] for row in rows}
    for number, connections in ((6, 1), (7, 2), (8, 4), (9, 8)):
        if connections in measured:
            _by_size(rows, directory, number, connections)
    _by_connections(rows, directory, 10, "rate")
    _by_connections(rows, directory, 11, "time")
    _overhead(rows, directory)
