# SPDX-License-Identifier: MIT
"""The memory of an idle connection; both of its ends are on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from twohosts.lab import Lab

KIB = 1 << 10
# The first batch includes one-time costs: processes, first slabs, caches.
FEW, MANY = 20, 520


def _meminfo() -> dict[str, int]:
    """/proc/meminfo in KiB, after dropping the caches."""
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    text = Path("/proc/meminfo").read_text()
    return {name: int(value) for name, value in re.findall(r"^(\S+):\s+(\d+) kB$", text, re.M)}


def _held(lab: Lab, count: int) -> dict[str, int]:
    """The machine's memory while so many idle connections are held."""
    how = ("--count", str(count), "--backlog", "1024")
    with lab.b.start(
        lab.endpoint("accept-many", "--address", lab.b.ipv4, *how), ready=r"listening (\d+)"
    ) as server:
        port = str(server.number())
        with lab.a.start(
            lab.endpoint("hold-many", "--address", lab.b.ipv4, "--port", port, *how),
            ready="holding",
        ):
            server.expect("holding")
            return _meminfo()


def per_end(lab: Lab) -> dict[str, float]:
    """KiB for one end of an idle connection, in total and by kind of memory."""
    few, many = _held(lab, FEW), _held(lab, MANY)
    ends = 2 * (MANY - FEW)

    def used(name: str, sign: int = 1) -> float:
        return sign * (many[name] - few[name]) / ends

    return {
        "all": used("MemAvailable", -1),
        "slab": used("Slab"),
        "vmalloc": used("VmallocUsed"),
        "programs": used("AnonPages"),
    }
