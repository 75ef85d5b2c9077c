# SPDX-License-Identifier: MIT
"""Results of programs by transport and round, and their ratios to TCP."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdptests.bench.meter import NO_SAMPLES
from sdptests.bench.spread import LESS, MORE, UNDECIDED, Spread, number
from sdptests.twohosts.report import say

TCP, SDP = "TCP", "SDP"
# They are compared, so a failure of theirs costs its own round only. The others are tried once.
NEEDED = (TCP, SDP)
# Less is better.
TIMES = ("us",)
_NAME, _CELL, _RATIO = 22, 9, 18
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Result:
    """One round of one program on one transport."""

    value: float
    # ms of all processors, for each MiB or for a thousand operations; None where it is unknown.
    processor: float | None
    # The same by layer, from samples.
    layers: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Program:
    """A program, and its results by transport; rounds without a result are None."""

    name: str
    unit: str
    rounds: dict[str, list[Result | None]] = field(default_factory=dict)
    # By transport: why it has failed the last time.
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, transport: str, number: int, result: Result) -> None:
        """The result of a round."""
        found = self.rounds.setdefault(transport, [])
        found += [None] * (number + 1 - len(found))
        found[number] = result

    def is_given_up(self, transport: str) -> bool:
        """Whether it is not tried again: it may hang each time."""
        return transport in self.absent and transport not in NEEDED

    def _both(self, transport: str, other: str) -> list[tuple[Result, Result]]:
        pairs = zip(self.rounds.get(transport, ()), self.rounds.get(other, ()), strict=False)
        return [(one, two) for one, two in pairs if one and two]

    def speed(self, transport: str, other: str = TCP) -> Spread | None:
        """How many times as fast as the other one it is, in the rounds that have both."""
        return Spread.of(
            two.value / one.value if self.unit in TIMES else one.value / two.value
            for one, two in self._both(transport, other)
        )

    def work(self, transport: str, other: str = TCP) -> Spread | None:
        """How many times the processor time of the other one it takes."""
        return Spread.of(
            one.processor / max(two.processor, 1e-6)
            for one, two in self._both(transport, other)
            if one.processor is not None and two.processor is not None
        )

    def value(self, transport: str) -> float | None:
        """The median."""
        return _median([one.value for one in self.rounds.get(transport, ()) if one])

    def processor(self, transport: str) -> float | None:
        """The median."""
        found = [one.processor for one in self.rounds.get(transport, ()) if one]
        return _median([ms for ms in found if ms is not None])

    def layer(self, transport: str, name: str) -> float | None:
        """The median of a layer's time."""
        rounds = [one for one in self.rounds.get(transport, ()) if one]
        return _median([one.layers.get(name, 0.0) for one in rounds])

    def verdict(self) -> str:
        """That on SDP."""
        speed = self.speed(SDP)
        if not speed:
            return "does not run"
        beside = speed.beside_one()
        return {MORE: "faster", LESS: "slower"}.get(beside, beside)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ratio(value: Spread | None) -> str:
    return str(value) if value else "-"


def show(programs: Sequence[Program]) -> None:
    """Prints SDP beside TCP."""
    headings = (f"{name:>{_CELL}}" for name in (TCP, SDP))
    times = (f"{name + ' ms':>{_CELL}}" for name in (TCP, SDP))
    say(
        f"{'program':<{_NAME}} {'unit':<6}{''.join(headings)}{'SDP / TCP':>{_RATIO}}"
        f"{''.join(times)}{'SDP / TCP':>{_RATIO}}  verdict"
    )
    for one in programs:
        values = (f"{number(one.value(name)):>{_CELL}}" for name in (TCP, SDP))
        times = (f"{number(one.processor(name)):>{_CELL}}" for name in (TCP, SDP))
        say(
            f"{one.name:<{_NAME}} {one.unit:<6}{''.join(values)}{_ratio(one.speed(SDP)):>{_RATIO}}"
            f"{''.join(times)}{_ratio(one.work(SDP)):>{_RATIO}}  {one.verdict()}"
        )
    for verdict in ("faster", "slower", UNDECIDED):
        names = [one.name for one in programs if one.verdict() == verdict]
        say(f"{verdict}: {', '.join(names) or 'none'}")
    results = [result for one in programs for of in one.rounds.values() for result in of if result]
    if results and all(result.processor is None for result in results):
        say(NO_SAMPLES)


def show_beside(programs: Sequence[Program], transports: Sequence[str]) -> None:
    """Prints speeds and processor time of several transports, of TCP's."""
    width = max(_RATIO, 2 + max(map(len, transports)))
    for heading, of in (("speed, of TCP's", "speed"), ("processor time, of TCP's", "work")):
        say(f"\n{heading:<{_NAME + 4}}" + "".join(f"{name:>{width}}" for name in transports))
        for one in programs:
            values = [getattr(one, of)(name) for name in transports]
            cells = [_cell(one.absent, *pair) for pair in zip(transports, values, strict=True)]
            say(f"  {one.name:<{_NAME + 2}}" + "".join(f"{cell:>{width}}" for cell in cells))


def _cell(absent: Mapping[str, str], transport: str, value: Spread | None) -> str:
    return _ratio(value) if value or transport not in absent else "fails"


def show_layers(programs: Sequence[Program], layers: Sequence[str]) -> None:
    """Prints the processor time by layer, for TCP and SDP; layers without any time are left out."""
    transports = (TCP, SDP)

    def takes_time(name: str) -> bool:
        return any(one.layer(transport, name) for one in programs for transport in transports)

    shown = [name for name in layers if takes_time(name)]
    widths = [max(_CELL, 2 + len(name)) for name in shown]
    heads = "".join(f"{name:>{width}}" for name, width in zip(shown, widths, strict=True))
    say(f"{'ms':<{_NAME + 5}}{heads}")
    for one in programs:
        for transport in transports:
            times = [number(one.layer(transport, name)) for name in shown]
            cells = "".join(f"{n:>{width}}" for n, width in zip(times, widths, strict=True))
            say(f"{one.name:<{_NAME}} {transport:<4}{cells}")


def show_absent(programs: Sequence[Program]) -> None:
    """Prints why results are missing."""
    for one in programs:
        for transport, reason in one.absent.items():
            lines = [line.strip() for line in _COLOUR.sub("", reason).splitlines()]
            # The end of a program's output tells most.
            first, *rest = [line for line in lines if line] or ["no reason told"]
            told = "; ".join([first[:160], *rest[-2:]])
            say(f"- {one.name} over {transport}: {told}")
