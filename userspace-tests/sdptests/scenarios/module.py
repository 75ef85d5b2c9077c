# SPDX-License-Identifier: MIT
"""Loading and unloading of the module."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.scenarios.register import Skip
from sdptests.twohosts.failure import Failure

_FILES = (os.environ.get("SDP_MODULE"), "/run/vm/sdp.ko")
# The time limit of a connection with a peer that does not close.
CLOSE_TIMEOUT_MS = 4000


def file() -> str:
    """The module's file, in one of the harness's places."""
    for path in filter(None, _FILES):
        if Path(path).exists():
            return path
    raise Skip("the file of sdp.ko is not known: set SDP_MODULE")


def is_loaded() -> bool:
    """Whether it is loaded."""
    return Path("/sys/module/sdp").exists()


def insert() -> None:
    """insmod"""
    done = subprocess.run(["insmod", file()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"insmod: {done.stderr.strip()}")
    hurry()


def try_remove() -> bool:
    """rmmod; False if it is refused because the module is in use."""
    limit = limits.seconds(20)
    try:
        done = subprocess.run(
            ["rmmod", "sdp"], capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"rmmod did not end within {limit:.0f} s") from None
    if done.returncode and "in use" not in done.stderr:
        raise Failure(f"rmmod: {done.stderr.strip()}")
    return done.returncode == 0


def hurry(*hosts: str) -> None:
    """Shortens the time limit for peers that do not close, which is a minute by default."""
    for host in hosts or ("a", "b"):
        with namespace(host):
            Path("/proc/sys/net/sdp/close_timeout_ms").write_text(str(CLOSE_TIMEOUT_MS))
