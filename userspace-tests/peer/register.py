# SPDX-License-Identifier: MIT
"""The cases, in the order in which they are written down."""

from __future__ import annotations

from collections.abc import Callable

from scene import Scene

Run = Callable[[Scene], None]
CASES: dict[str, Run] = {}
# Those that are not worth their time in every run.
LONG: set[str] = set()


def case(name: str, *, long: bool = False) -> Callable[[Run], Run]:
    """Make a function a case; a long one is for long runs (SOAK=1) and for who names it."""

    def add(run: Run) -> Run:
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = run
        if long:
            LONG.add(name)
        return run

    return add
