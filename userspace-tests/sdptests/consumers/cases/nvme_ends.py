# SPDX-License-Identifier: MIT
"""NVMe over RDMA: queues are reset, and devices removed, with requests in flight."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sdptests.consumers import disk, nvme, storage
from sdptests.consumers.fabric import FAR, NEAR, End
from sdptests.scenarios import limits
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts.failure import check

# The removal of a device tells the kernel's target before its listener. A host that reconnects in
# between gets a queue that is never taken down, so the removal waits for it for ever. With these
# delays a host reconnects after the removal; its requests meanwhile fail.
PATIENT = {"reconnect_delay": 15, "ctrl_loss_tmo": 15, "fast_io_fail_tmo": 1}


@scenario
def nvme_resets_under_load() -> str:
    """All queue pairs at once, many times; no request fails."""
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
    """Requests in flight fail."""
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
        # Clients of a device are told in the reverse order of their registration. If NVMe is built
        # into the kernel, it is older than rdma_cm. rdma_cm is then told first and waits for
        # identifiers that NVMe releases only when it is told.
        raise Skip("NVMe over RDMA is not a module: a removal waits for itself, whatever the device")
    return storage.lose_device(end, lambda: _session(**PATIENT), _session, 2)


@scenario
def nvme_loses_the_device_of_the_host() -> str:
    """Under load."""
    return _removed(NEAR)


@scenario
def nvme_loses_the_device_of_the_target() -> str:
    """Under load; the host reconnects until its time limit."""
    return _removed(FAR)
