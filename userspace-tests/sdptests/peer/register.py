# SPDX-License-Identifier: MIT
"""The cases of the hostile peer."""

from __future__ import annotations

from collections.abc import Callable

from sdptests.peer.scene import Scene
from sdptests.twohosts.register import Register

Run = Callable[[Scene], None]
CASES: Register[Run] = Register()


def case(name: str, *, long: bool = False) -> Callable[[Run], Run]:
    """Makes a function a case; a long one runs only in long runs (SOAK=1) or if it is named."""
    return lambda run: CASES.add(run, name, long=long)
