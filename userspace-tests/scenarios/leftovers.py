# SPDX-License-Identifier: MIT
"""What connections leave behind: sockets, resources of the RDMA core, memory."""

from __future__ import annotations

import os
from pathlib import Path

import limits
from peer import namespace
from twohosts import counters, resources
from twohosts.failure import Failure
from twohosts.hosts import namespaces

HOSTS = ("a", "b")


def table(host: str) -> list[str]:
    """The lines of the connection table of a host."""
    with namespace(host):
        return Path("/proc/self/net/sdp").read_text().splitlines()[1:]


def tables() -> list[str]:
    """Those of both hosts."""
    return [f"{host}: {line}" for host in HOSTS for line in table(host)]


def stats(host: str) -> counters.Counters:
    """The counters of a host."""
    with namespace(host):
        return counters.parse(Path("/proc/self/net/sdpstats").read_text())


def counted_sockets(host: str) -> int:
    """Sockets of the protocol by the core's own count."""
    with namespace(host):
        for line in Path("/proc/self/net/protocols").read_text().splitlines():
            words = line.split()
            if words and words[0] == "SDP":
                return int(words[2])
    raise Failure("/proc/net/protocols does not list SDP")


def await_empty_tables(limit: float | None = None) -> float:
    """Wait until no socket is left; the seconds it took."""
    limit = limit or limits.seconds(20)
    try:
        return limits.until("empty tables", limit, lambda: not tables())
    except Failure as failure:
        raise Failure("\n".join([str(failure), *tables()])) from None


def rdma() -> resources.Resources:
    """What the RDMA core counts, without what a device has of itself.

    Regions are not among it, nor the protection domains that they are in: the module keeps them
    for the next time that their user lends memory.
    """
    counted = resources.count(namespaces()[0])
    return {name: count for name, count in counted.items() if name.split()[-1] not in ("mr", "pd")}


def await_resources(before: resources.Resources) -> None:
    """Wait until the RDMA core counts no more than before."""
    now: resources.Resources = {}

    def back() -> bool:
        now.clear()
        now.update(rdma())
        return now == before

    try:
        limits.until("resources", limits.seconds(10), back)
    except Failure:
        raise Failure(f"resources of the RDMA core: {before} before, {now} after") from None


def memory() -> int:
    """KiB of memory in use beside what can be dropped."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    lines = Path("/proc/meminfo").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return values["MemTotal"] - values["MemAvailable"]


def slab_objects(name: str) -> int | None:
    """Objects of a cache that are in use, where the kernel can tell.

    Shrinking takes freed ones from the quarantine of the address sanitizer as well.
    """
    shrink = Path(f"/sys/kernel/slab/{name}/shrink")
    try:
        if shrink.exists():
            shrink.write_text("1")
        for line in Path("/proc/slabinfo").read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    except OSError:
        pass
    return None
