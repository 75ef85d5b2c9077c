# SPDX-License-Identifier: MIT
"""NVMe over RDMA: queues are made anew, and devices go, while requests are on their way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import disk
import limits
import nvme
import storage
from fabric import FAR, NEAR, End
from register import Skip, scenario
from twohosts.failure import check

# The kernel's target is told of a device that goes before its listener is. A host that comes back in
# between gets a queue that nobody will take down, and the removal waits for it for ever. A host that
# lets this much time pass comes when the device is gone; what it has to do meanwhile has failed.
PATIENT = {"reconnect_delay": 15, "ctrl_loss_tmo": 15, "fast_io_fail_tmo": 1}


@scenario
def nvme_resets_under_load() -> str:
    """All queue pairs at once, again and again; no request fails."""
    nvme.needed()
    with nvme.target(FAR), nvme.host(NEAR, FAR) as host:
        writers = disk.Writers(host.disk, storage.WRITERS)
        try:
            for _ in range(limits.amount(10, 3)):
                writers.await_progress(20)
                host.reset()
                limits.until(
                    "the controller", limits.seconds(10), lambda: host.state() == "live"
                )
            writers.await_progress(20)
            check(not writers.errors, f"errors {writers.errors}")
        finally:
            writers.end()
        return f"{writers.done} requests"


@scenario
def nvme_disconnects_under_load() -> str:
    """What is on its way fails."""
    nvme.needed()
    with nvme.target(FAR), nvme.host(NEAR, FAR) as host:
        return storage.end_under_load(host.disk, host.disconnect, 10)


@contextlib.contextmanager
def _session(**options: int) -> Iterator[nvme.Host]:
    with nvme.target(FAR), nvme.host(NEAR, FAR, **options) as host:
        yield host


def _removed(end: End) -> str:
    nvme.needed()
    if not Path("/sys/module/nvme_rdma/initstate").exists():
        # Clients of a device are told in the reverse order of their registration. Linked into the
        # kernel, NVMe's is older than rdma_cm's, which is told first and waits for identifiers that
        # NVMe gives up when it is told.
        raise Skip("NVMe over RDMA is not a module: a removal waits for itself, whatever the device")
    return storage.lose_device(end, lambda: _session(**PATIENT), _session, 2)


@scenario
def nvme_loses_the_device_of_the_host() -> str:
    """Under load."""
    return _removed(NEAR)


@scenario
def nvme_loses_the_device_of_the_target() -> str:
    """Under load; the host tries again until it has had enough."""
    return _removed(FAR)
