# SPDX-License-Identifier: MIT
"""Leftovers of connections: sockets, resources of the RDMA core, memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.twohosts import counters, resources
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import namespaces

HOSTS = ("a", "b")


def table(host: str) -> list[str]:
    """The lines of the connection table of a host."""
    with namespace(host):
        return Path("/proc/thread-self/net/sdp").read_text().splitlines()[1:]


def tables() -> list[str]:
    """The lines of both hosts."""
    return [f"{host}: {line}" for host in HOSTS for line in table(host)]


def stats(host: str) -> counters.Counters:
    """The counters of a host."""
    with namespace(host):
        return counters.parse(Path("/proc/thread-self/net/sdpstats").read_text())


def counted_sockets(host: str) -> int:
    """The number of SDP sockets, by the network core's count."""
    with namespace(host):
        for line in Path("/proc/thread-self/net/protocols").read_text().splitlines():
            words = line.split()
            if words and words[0] == "SDP":
                return int(words[2])
    raise Failure("/proc/net/protocols does not list SDP")


def await_empty_tables(limit: float | None = None) -> float:
    """Waits until no socket is left; returns the seconds it took."""
    limit = limit or limits.seconds(20)
    try:
        return limits.until("empty tables", limit, lambda: not tables())
    except Failure as failure:
        raise Failure("\n".join([str(failure), *tables()])) from None


def await_no_sockets() -> None:
    """Waits until the network core counts no socket; it counts one a moment longer than the table has it."""
    left: dict[str, int] = {}

    def none() -> bool:
        left.update({host: counted_sockets(host) for host in HOSTS})
        return not any(left.values())

    try:
        limits.until("no sockets", limits.seconds(10), none)
    except Failure:
        raise Failure(f"sockets in /proc/net/protocols: {left}") from None


def rdma() -> resources.Resources:
    """The counts of the RDMA core, without a device's own objects.

    Regions and their protection domains are left out: the module keeps them
    for their user's next zero copy.
    """
    counted = resources.count(namespaces()[0])
    return {name: count for name, count in counted.items() if name.split()[-1] not in ("mr", "pd")}


def await_resources(
    before: resources.Resources,
    count: Callable[[], resources.Resources] = rdma,
    seconds: float = 10,
) -> None:
    """Waits until the RDMA core counts no more than before."""
    now: resources.Resources = {}

    def back() -> bool:
        now.clear()
        now.update(count())
        return all(count <= before.get(name, 0) for name, count in now.items())

    try:
        limits.until("resources", limits.seconds(seconds), back)
    except Failure:
        raise Failure(f"resources of the RDMA core: {before} before, {now} after") from None


def memory() -> int:
    """KiB of memory in use, without memory that can be reclaimed."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    lines = Path("/proc/meminfo").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return values["MemTotal"] - values["MemAvailable"]


def slab_objects(name: str) -> int | None:
    """The number of objects of a cache in use, if the kernel can tell.

    Shrinking also takes freed objects from KASAN's quarantine.
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
