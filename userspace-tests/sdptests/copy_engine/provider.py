# SPDX-License-Identifier: MIT
"""The copy engine in software: loading it, its faults, and what its user reports."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

NAME = "sdp_copy_engine"
MODULES = (os.environ.get("SDP_COPY_ENGINE_MODULE"), f"/run/vm/{NAME}.ko", f"/mnt/share/{NAME}.ko")
ENGINE = Path(f"/sys/module/{NAME}/parameters")
DRIVER = Path(f"/sys/bus/platform/drivers/{NAME}")
# Seconds until what is waited for; guests that share a machine are slower.
PATIENCE = 60.0 * int(os.environ.get("SDP_GUESTS", "1"))
SWITCHES = ("fail_prepare", "fail_copies", "stall", "attentive")


class Failure(Exception):
    """A case has failed."""


def check(true: bool, why: object) -> None:
    """Fails the case unless it is true."""
    if not true:
        raise Failure(str(why))


def until(true: Callable[[], bool], why: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        check(time.monotonic() < end, f"timeout: {why()}")
        time.sleep(0.01)


def report(module: str) -> dict[str, str]:
    """The state of a module's engine."""
    words = Path(f"/sys/module/{module}/parameters/engine").read_text().split()
    return dict(word.split("=") for word in words)


def load() -> None:
    """Loads the engine."""
    if ENGINE.exists():
        return
    for file in filter(None, MODULES):
        if Path(file).exists():
            subprocess.run(["insmod", file], check=True)
            return
    sys.exit(f"{NAME}.ko is not there: set SDP_COPY_ENGINE_MODULE")


def unload() -> bool:
    """Whether it could be unloaded."""
    return subprocess.run(["rmmod", NAME], capture_output=True, check=False).returncode == 0


def fault(name: str, value: int) -> None:
    """Injects a fault into the engine, or sets another switch of it."""
    (ENGINE / name).write_text(str(value))


def figure(name: str) -> int:
    """A result of the engine."""
    return int((ENGINE / name).read_text())


def heal() -> None:
    """No more faults; the engine is as it was loaded."""
    for name in SWITCHES:
        if ENGINE.exists():
            fault(name, 0)


def check_bound(depth: int) -> None:
    """The number of descriptors in flight never exceeded its limit."""
    most = figure("most")
    print(f"# {most} descriptors at a time")
    check(1 <= most <= depth, most)


def debug_kernel() -> bool:
    """Whether the kernel checks every memory access."""
    return b"\nCONFIG_KASAN=y\n" in gzip.decompress(Path("/proc/config.gz").read_bytes())
