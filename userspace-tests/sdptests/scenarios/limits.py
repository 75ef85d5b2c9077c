# SPDX-License-Identifier: MIT
"""Time limits and amounts of work, by the kernel on which this runs."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import GUESTS


def _configuration() -> str:
    try:
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        return ""


# It checks every memory access: it is several times slower, and freed memory returns late.
DEBUG_KERNEL = "\nCONFIG_KASAN=y\n" in _configuration()
SOAK = os.environ.get("SOAK") == "1"
SLOWNESS = float(os.environ.get("SDP_SLOWNESS", GUESTS * (6 if DEBUG_KERNEL else 2)))


def seconds(quick: float) -> float:
    """A time limit, from the maximum on a good machine."""
    return quick * SLOWNESS


def amount(base: int, debug: int) -> int:
    """An amount, by kernel."""
    return debug if DEBUG_KERNEL else base


def until(what: str, limit: float, happened: Callable[[], object]) -> float:
    """Waits until `happened` is true; returns the seconds it took."""
    begin = time.monotonic()
    while not happened():
        if time.monotonic() - begin > limit:
            raise Failure(f"{what}: not within {limit:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begin
