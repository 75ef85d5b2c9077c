# SPDX-License-Identifier: MIT
"""Directories of this checkout."""

from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TESTS = TOP / "userspace-tests"
