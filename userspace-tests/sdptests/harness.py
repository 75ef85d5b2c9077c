# SPDX-License-Identifier: MIT
"""Modules of the harness (`qemu/`), which is a folder of programs and no package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from sdptests import checkout

FOLDER = checkout.TOP / "qemu"


def module(name: str) -> ModuleType:
    """The module in the file of that name; FileNotFoundError if there is none."""
    found = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert found and found.loader
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made
