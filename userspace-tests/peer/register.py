# SPDX-License-Identifier: MIT
"""The cases, in the order in which they are written down."""

from __future__ import annotations

from collections.abc import Callable

from scene import Scene

Run = Callable[[Scene], None]
CASES: dict[str, Run] = {}


def case(name: str) -> Callable[[Run], Run]:
    """Make a function a case."""

    def add(run: Run) -> Run:
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = run
        return run

    return add
