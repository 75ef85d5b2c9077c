# SPDX-License-Identifier: MIT
"""Measurements that failed: their cells stay empty, and the other results count."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.report import say


@dataclass
class Failures:
    """The failures of a bench, which ends with a bad status if there are any."""

    found: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """A failure inside ends only what is done inside."""
        try:
            yield
        except (Failure, OSError) as failure:
            self.found.append(f"{what}: {failure}")
            say(f"# failed: {self.found[-1]}", to=sys.stderr)

    def show(self) -> None:
        """Prints all of them with their reasons."""
        if self.found:
            say("\nfailed:\n" + "\n".join(f"- {one}" for one in self.found))
