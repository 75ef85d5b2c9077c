# SPDX-License-Identifier: MIT
"""The scenarios, in the order in which they are written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[], str | None]


class Skip(Exception):
    """The scenario cannot be played here, and why."""


@dataclass(frozen=True)
class Scenario:
    """A function that returns what is worth a line in the report, or nothing."""

    name: str
    run: Run
    # Only in long runs.
    long: bool


SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Run) -> Run:
    """Make a function a scenario."""
    return _register(run, long=False)


def long_scenario(run: Run) -> Run:
    """Make a function a scenario of long runs (SOAK=1)."""
    return _register(run, long=True)


def _register(run: Run, *, long: bool) -> Run:
    name = run.__name__
    if name in SCENARIOS:
        raise ValueError(f"two scenarios are called {name}")
    SCENARIOS[name] = Scenario(name, run, long)
    return run
