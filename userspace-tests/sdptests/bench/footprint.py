# SPDX-License-Identifier: MIT
"""Many idle connections: their memory, the time to make them, and one in use among them.

Both ends of each are on this machine. Each has been used before.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.apps import qperf
from sdptests.twohosts.lab import Lab

KIB = 1 << 10
# The first batch includes one-time costs: processes, first slabs, caches.
FEW, MANY = 20, 520
# Sent through each connection, so that its buffers grow.
USE = 256 * KIB
# Seconds until a connection without messages has given back what it does not need. It begins two to
# four seconds after its last byte, and its buffers become small by messages.
IDLE = 10


def _meminfo() -> dict[str, int]:
    """/proc/meminfo in KiB, after dropping the caches."""
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    text = Path("/proc/meminfo").read_text()
    return {name: int(value) for name, value in re.findall(r"^(\S+):\s+(\d+) kB$", text, re.M)}


@contextlib.contextmanager
def held(lab: Lab, count: int, use: int) -> Iterator[float]:
    """While so many connections are held, of which each has carried `use` bytes: the seconds that
    it took to make them."""
    how = ("--count", str(count), "--backlog", "1024", "--use", str(use))
    with lab.b.start(
        lab.endpoint("accept-many", "--address", lab.b.ipv4, *how), ready=r"listening (\d+)"
    ) as server:
        port = str(server.number())
        begin = time.monotonic()
        with lab.a.start(
            lab.endpoint("hold-many", "--address", lab.b.ipv4, "--port", port, *how),
            ready="holding",
        ):
            server.expect("holding")
            yield time.monotonic() - begin


def _slabs() -> dict[str, int]:
    """Bytes of objects in use, by the name of their slab; nothing if the kernel does not tell."""
    file = Path("/proc/slabinfo")
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    fields = (line.split() for line in lines)
    return {name: int(active) * int(size) for name, active, _, size, *_ in fields}


def _counted(lab: Lab, count: int, use: int, seconds: int) -> tuple[dict[str, int], dict[str, int]]:
    with held(lab, count, use):
        time.sleep(seconds)
        # First those, because reading the other leaves objects of its own.
        slabs = _slabs()
        return _meminfo(), slabs


def in_detail(lab: Lab, use: int, seconds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes for one end of a connection that has carried `use` bytes and then nothing for
    `seconds`: by kind of memory, and by slab."""
    (few, few_slabs), (many, many_slabs) = (
        _counted(lab, count, use, seconds) for count in (FEW, MANY)
    )
    ends = 2 * (MANY - FEW)
    names = {
        "all": ("MemAvailable", -KIB),
        "slab": ("Slab", KIB),
        "vmalloc": ("VmallocUsed", KIB),
        "percpu": ("Percpu", KIB),
        "page tables": ("PageTables", KIB),
        "stacks": ("KernelStack", KIB),
        "programs": ("AnonPages", KIB),
    }
    kinds = {
        kind: unit * (many[name] - few[name]) / ends for kind, (name, unit) in names.items()
    }
    known = sum(kinds[kind] for kind in ("slab", "vmalloc", "percpu", "page tables", "programs"))
    kinds["pages of no kind"] = kinds["all"] - known
    slabs = {name: (size - few_slabs.get(name, 0)) / ends for name, size in many_slabs.items()}
    return kinds, slabs


def _memory(lab: Lab, count: int) -> dict[str, int]:
    with held(lab, count, USE):
        time.sleep(IDLE)
        return _meminfo()


def per_end(lab: Lab) -> dict[str, float]:
    """KiB for one end of an idle connection, in total and by kind of memory."""
    few, many = _memory(lab, FEW), _memory(lab, MANY)
    ends = 2 * (MANY - FEW)

    def used(name: str, sign: int = 1) -> float:
        return sign * (many[name] - few[name]) / ends

    return {
        "all": used("MemAvailable", -1),
        "slab": used("Slab"),
        "vmalloc": used("VmallocUsed"),
        "programs": used("AnonPages"),
    }


@dataclass(frozen=True)
class Crowd:
    """One connection in use among `count` idle ones."""

    count: int
    # Connections made in a second, one after the other.
    per_second: float
    # us one way of 64 bytes.
    one_way: float


def crowd(lab: Lab, count: int) -> Crowd:
    """Makes so many connections and measures a further one."""
    with held(lab, count, 0) as seconds:
        found = qperf.measure(lab, f"{lab.family}_lat", "-m", "64", seconds=1)
        return Crowd(count, count / seconds, found["latency"] / 1000)
