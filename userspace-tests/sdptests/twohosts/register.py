# SPDX-License-Identifier: MIT
"""The register of tests, and the selection by name: `RUNNER [--list] [PATTERN...]`."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R", bound=Callable[..., object])
T = TypeVar("T")

SOAK = os.environ.get("SOAK") == "1"


@dataclass(frozen=True)
class Entry(Generic[R]):
    """A test."""

    name: str
    run: R
    # Runs only in long runs (SOAK=1), or if it is named.
    long: bool
    # Requirements on the environment.
    needs: frozenset[str]

    def names(self) -> tuple[str, str]:
        """The names by which it can be selected: its own, and its file's."""
        return self.name, self.run.__module__.rpartition(".")[2]


class Register(dict[str, Entry[R]]):
    """Tests, in the order of registration."""

    def add(self, run: R, name: str = "", *, long: bool = False, needs: Iterable[str] = ()) -> R:
        """Adds a test; the default name is the function's."""
        name = name or run.__name__
        if name in self:
            raise ValueError(f"two tests are called {name}")
        self[name] = Entry(name, run, long, frozenset(needs))
        return run

    def picked(self, patterns: Sequence[str], there: Iterable[str] = ()) -> list[Entry[R]]:
        """The tests that match the patterns, or all short ones, if their needs are met."""
        possible = [entry for entry in self.values() if entry.needs <= set(there)]
        if patterns:
            return [entry for entry in possible if any(fits(name, patterns) for name in entry.names())]
        return [entry for entry in possible if SOAK or not entry.long]

    def selected(self, options: argparse.Namespace, there: Iterable[str] = ()) -> list[Entry[R]]:
        """The tests of a command line, as by `chosen`."""
        entries = self.picked(options.pattern, there)
        chosen(options, [entry.name for entry in entries])
        return entries


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the name."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that match the patterns; all, if there are no patterns."""
    return [name for name in names if not patterns or fits(name, patterns)]


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with the common arguments of all runners."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("pattern", nargs="*", help="tests to run, as fnmatch patterns of names")
    made.add_argument("--list", action="store_true", help="print the names of the tests")
    return made


def chosen(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """These names; without any, an error. With --list they are printed and the program ends."""
    found = list(names)
    if not found:
        wanted = f"fits {' or '.join(options.pattern)}" if options.pattern else "can run here"
        sys.exit(f"no test {wanted}")
    if options.list:
        print(*found, sep="\n")
        sys.exit(0)
    return found


def named(options: argparse.Namespace, known: Mapping[str, T]) -> dict[str, T]:
    """The tests with names that match the patterns, as by `chosen`."""
    names = chosen(options, matching(known, options.pattern))
    return {name: known[name] for name in names}
