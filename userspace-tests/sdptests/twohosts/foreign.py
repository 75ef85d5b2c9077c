# SPDX-License-Identifier: MIT
"""Foreign test suites: skipped tests with reasons, and results by number."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from sdptests.twohosts.ktap import Ktap


@dataclass
class Skip:
    """A skipped test, and the reason."""

    test: str
    reason: str


@dataclass
class Declines:
    """The messages with which tests may skip themselves; a test with another message fails."""

    patterns: list[re.Pattern[str]]

    def has(self, said: str) -> bool:
        """Whether a test may skip itself with this message."""
        return any(pattern.fullmatch(said) for pattern in self.patterns)


# The beginning of a line about messages of the tests themselves.
SAID = "says "


def _lines(path: Path) -> list[Skip]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, mark, reason = line.partition(" # ")
        if not mark or not test.strip() or not reason.strip():
            sys.exit(f"{path}:{number}: a test, then `# reason`")
        found.append(Skip(test.strip(), reason.strip()))
    return found


def skips(path: Path) -> list[Skip]:
    """The skipped tests of a list: `test  # reason` on each line, and comments."""
    return [line for line in _lines(path) if not line.test.startswith(SAID)]


def declines(path: Path) -> Declines:
    """The messages with which tests may skip themselves: `says pattern  # reason`."""
    said = [line.test.removeprefix(SAID) for line in _lines(path) if line.test.startswith(SAID)]
    return Declines([re.compile(pattern) for pattern in said])


class Report(Ktap):
    """KTAP with the plan at the end, because the number of tests is known only then."""

    def skip(self, name: str, reason: str) -> None:
        """A test that was not run."""
        self.add(name, True, skipped=reason)

    def declined(self, name: str, said: str, may_say: Declines) -> None:
        """A test that has skipped itself."""
        if may_say.has(said):
            self.skip(name, said)
        else:
            self.add(name, False, f"left itself out, which nobody expected: {said}")
