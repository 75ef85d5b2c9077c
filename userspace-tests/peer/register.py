# SPDX-License-Identifier: MIT
"""The cases of the hostile peer."""

from __future__ import annotations

from collections.abc import Callable

from scene import Scene
from twohosts.register import Register

Run = Callable[[Scene], None]
CASES: Register[Run] = Register()


def case(name: str, *, long: bool = False) -> Callable[[Run], Run]:
    """Make a function a case; a long one is for long runs (SOAK=1) and for who names it."""
    return lambda run: CASES.add(run, name, long=long)
