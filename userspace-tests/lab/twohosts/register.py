# SPDX-License-Identifier: MIT
"""Tests by their names, and the one way to pick from them: `RUNNER [--list] [PATTERN...]`."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R", bound=Callable[..., object])

SOAK = os.environ.get("SOAK") == "1"


@dataclass(frozen=True)
class Entry(Generic[R]):
    """A test."""

    name: str
    run: R
    # Only in long runs (SOAK=1), and when it is named.
    long: bool
    # What the place must have where it runs.
    needs: frozenset[str]

    def names(self) -> tuple[str, str]:
        """What it can be picked by: its own name, and that of the file it is in."""
        return self.name, self.run.__module__.rpartition(".")[2]


class Register(dict[str, Entry[R]]):
    """Tests, in the order in which they are written down."""

    def add(self, run: R, name: str = "", *, long: bool = False, needs: Iterable[str] = ()) -> R:
        """Adds one, by the name of the function if it has no other."""
        name = name or run.__name__
        if name in self:
            raise ValueError(f"two tests are called {name}")
        self[name] = Entry(name, run, long, frozenset(needs))
        return run

    def picked(self, patterns: Sequence[str], there: Iterable[str] = ()) -> list[Entry[R]]:
        """Those that patterns name, or all but the long ones, as far as they can run there."""
        possible = [entry for entry in self.values() if entry.needs <= set(there)]
        if patterns:
            return [entry for entry in possible if any(fits(name, patterns) for name in entry.names())]
        return [entry for entry in possible if SOAK or not entry.long]


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of them is about the name."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that patterns are about; all, where there are no patterns."""
    return [name for name in names if not patterns or fits(name, patterns)]


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with what all runners have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("pattern", nargs="*", help="tests to run, as fnmatch patterns of names")
    made.add_argument("--list", action="store_true", help="print the names of the tests")
    return made


def chosen(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """These names, if there are any. With --list they are printed, and that is all."""
    found = list(names)
    if not found:
        wanted = f"fits {' or '.join(options.pattern)}" if options.pattern else "can run here"
        sys.exit(f"no test {wanted}")
    if options.list:
        print(*found, sep="\n")
        sys.exit(0)
    return found
