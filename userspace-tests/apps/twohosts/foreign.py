# SPDX-License-Identifier: MIT
"""Suites that others wrote: which of their tests are left out and why, and results by number."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from twohosts.report import say


@dataclass
class Skip:
    """A test that is left out, and why."""

    test: str
    reason: str


def skips(path: Path) -> list[Skip]:
    """What a list of skips says: `test  # reason` on each line, and comments."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, mark, reason = line.partition("#")
        if not mark or not test.strip() or not reason.strip():
            sys.exit(f"{path}:{number}: a test, then `# reason`")
        found.append(Skip(test.strip(), reason.strip()))
    return found


class Report:
    """KTAP with the plan at the end, as the number of tests is known only then."""

    def __init__(self) -> None:
        self.number = 0
        self.failed = 0
        say("KTAP version 1")

    def add(self, name: str, good: bool, directive: str = "") -> None:
        """One result."""
        self.number += 1
        self.failed += not good
        say(f"{'ok' if good else 'not ok'} {self.number} {name}{directive}")

    def skip(self, name: str, reason: str) -> None:
        """A test that was not run."""
        self.add(name, True, f" # SKIP {reason}")

    def end(self) -> None:
        """The plan; and the end of the program, with 1 if something failed."""
        say(f"1..{self.number}")
        sys.exit(1 if self.failed else 0)
