# SPDX-License-Identifier: MIT
"""The two forms of output: a table for people, KTAP for the suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from sdptests.twohosts import ktap
from sdptests.twohosts.proof import Outcome

HEADINGS = ("program", "path", "device", "result", "SDP counters, both hosts together")


def say(line: str, to: TextIO | None = None) -> None:
    """Prints a line at once, because a run takes minutes."""
    print(line, file=to, flush=True)


class Table:
    """One aligned line for each outcome, at once, and the reasons of failures at the end."""

    def begin(self, names: Sequence[str]) -> None:
        """Prints headings; the columns fit these names."""
        self._widths = (max(map(len, (*names, HEADINGS[0]))), 4, 6, 14)
        say(self._row(HEADINGS))
        say(self._row(["-" * width for width in (*self._widths, len(HEADINGS[-1]))]))

    def add(self, outcome: Outcome) -> None:
        """One outcome."""
        figure = outcome.figure if outcome.ok else "FAILED"
        say(self._row((outcome.name, outcome.path, outcome.device, figure, outcome.counters)))

    def end(self, outcomes: Sequence[Outcome]) -> None:
        """The failures with reasons, and the totals."""
        for outcome in outcomes:
            if not outcome.ok:
                say(f"\n{outcome.name} failed:")
                say("\n".join("    " + line for line in outcome.reason.splitlines()))
        failed = sum(not outcome.ok for outcome in outcomes)
        say(f"\n{len(outcomes) - failed} passed, {failed} failed")

    def _row(self, cells: Sequence[str]) -> str:
        *left, right = self._widths
        *words, figure, more = cells
        row = [f"{word:<{width}}" for word, width in zip(words, left, strict=True)]
        return "  ".join([*row, f"{figure:>{right}}", more]).rstrip()


class Ktap:
    """KTAP for the suite."""

    def begin(self, names: Sequence[str]) -> None:
        """The version and the plan."""
        self._ktap = ktap.Ktap(len(names))

    def add(self, outcome: Outcome) -> None:
        """One outcome, after its reason as diagnostics."""
        notes = outcome.reason
        if outcome.ok and outcome.figure != "-":
            figures = (outcome.path, outcome.device, outcome.figure, outcome.counters)
            notes += " ".join(figures).rstrip()
        self._ktap.add(outcome.name, outcome.ok, notes)

    def end(self, _outcomes: Sequence[Outcome]) -> None:
        """The totals, as diagnostics."""
        self._ktap.end()
