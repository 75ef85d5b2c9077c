# SPDX-License-Identifier: MIT
"""KTAP, version 1: output for all runners in Python."""

from __future__ import annotations

import sys
from typing import TextIO


class Ktap:
    """Results as they come, numbered from 1."""

    def __init__(
        self, planned: int | None = None, *notes: str, to: TextIO = sys.stdout
    ) -> None:
        """The version, notes, and the plan; without it the plan comes at the end."""
        self._to = to
        self._planned = planned
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self._say("KTAP version 1")
        self.note(*notes)
        if planned is not None:
            self._say(f"1..{planned}")

    def _say(self, line: str) -> None:
        # Flushed at once, because a run takes minutes.
        print(line, file=self._to, flush=True)

    def note(self, *texts: str) -> None:
        """Diagnostics, which precede the result that they explain."""
        for text in texts:
            for line in text.splitlines():
                self._say(f"# {line.removeprefix('# ')}")

    def add(self, name: str, good: bool, *notes: str, skipped: str = "") -> None:
        """One result; `skipped` is the reason why the test was not run."""
        self.note(*notes)
        if not good:
            self.failed += 1
        elif skipped:
            self.skipped += 1
        else:
            self.passed += 1
        number = self.passed + self.failed + self.skipped
        # A hash sign would begin a directive.
        line = f"{'ok' if good else 'not ok'} {number} {name.replace('#', '')}"
        self._say(f"{line} # SKIP {' '.join(skipped.split())}" if skipped and good else line)

    def end(self) -> int:
        """Prints the totals; returns the exit status."""
        if self._planned is None:
            self._say(f"1..{self.passed + self.failed + self.skipped}")
        self._say(f"# Totals: pass:{self.passed} fail:{self.failed} skip:{self.skipped}")
        return 1 if self.failed else 0
