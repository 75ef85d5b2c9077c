# SPDX-License-Identifier: MIT
"""The RDMA objects of connections, as `rdma res` counts them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import Host

# Queue pairs of type RC are connections; the others belong to the device.
Resources = dict[str, int]


def count(host: Host) -> Resources:
    """Queue pairs of connections, and all other counted objects of the RDMA core, by name."""
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
    """Waits until `seen` returns no complaint."""
    deadline = time.monotonic() + seconds
    while complaint := seen():
        if time.monotonic() > deadline:
            raise Failure(f"{what}, {seconds:.0f} s later:\n{complaint}")
        time.sleep(0.2)
