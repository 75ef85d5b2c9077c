# SPDX-License-Identifier: MIT
"""A memory cgroup for one scenario."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sdptests.scenarios import limits
from sdptests.scenarios.register import Skip

ROOT = Path("/sys/fs/cgroup")
MIB = 1 << 20


@contextlib.contextmanager
def cgroup() -> Iterator[Path]:
    """Its directory; it is empty, and removed at the end."""
    if "memory" not in (ROOT / "cgroup.controllers").read_text().split():
        raise Skip("no memory controller in cgroup v2")
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    group = ROOT / "sdp-scenario"
    group.mkdir()
    try:
        yield group
    finally:
        limits.until(
            "an empty cgroup", limits.seconds(15), lambda: not (group / "cgroup.procs").read_text()
        )
        group.rmdir()


def current(group: Path) -> int:
    """Bytes that are charged to it."""
    return int((group / "memory.current").read_text())


def killed(group: Path) -> int:
    """The number of its processes that the OOM killer has killed."""
    events = dict(line.split() for line in (group / "memory.events").read_text().splitlines())
    return int(events["oom_kill"])
