# SPDX-License-Identifier: MIT
"""What a connection holds in the RDMA core, as `rdma res` counts it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from twohosts.failure import Failure
from twohosts.hosts import Host

# Queue pairs of type RC are connections; the others belong to the device's management.
Resources = dict[str, int]


def count(host: Host) -> Resources:
    """Queue pairs of connections, and everything else that the RDMA core counts, by name."""
    found: Resources = {}
    for device in json.loads(host.run(["rdma", "-j", "res", "show"]).stdout):
        for kind in ("pd", "cq", "mr", "cm_id"):
            found[f"{device['ifname']} {kind}"] = int(device.get(kind, 0))
    for pair in json.loads(host.run(["rdma", "-j", "res", "show", "qp"]).stdout):
        if pair.get("type") == "RC":
            name = f"{pair['ifname']} connections"
            found[name] = found.get(name, 0) + 1
    return {name: value for name, value in found.items() if value}


def until(what: str, seconds: float, seen: Callable[[], object | None]) -> None:
    """Wait until `seen` has nothing to complain about."""
    deadline = time.monotonic() + seconds
    while complaint := seen():
        if time.monotonic() > deadline:
            raise Failure(f"{what}, {seconds:.0f} s later:\n{complaint}")
        time.sleep(0.2)
