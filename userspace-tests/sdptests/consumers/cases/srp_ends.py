# SPDX-License-Identifier: MIT
"""SRP: sessions end and devices are removed with requests in flight."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sdptests.consumers import srp, storage
from sdptests.consumers.fabric import FAR, NEAR, End
from sdptests.scenarios.register import scenario

# The kernel's initiator holds the lock of its port while it reconnects. Without an answer the
# connection manager takes a minute for that. Every task that wants to release the port waits, and
# is reported as a hung task, with any device. So reconnecting is disabled.
IMPATIENT: dict[str, int | str] = {
    "reconnect_delay": "off",
    "fast_io_fail_tmo": 2,
    "dev_loss_tmo": 5,
}


@scenario
def srp_logs_out_under_load() -> str:
    """Requests in flight fail."""
    srp.needed()
    with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR) as initiator:
        return storage.end_under_load(initiator.disk, initiator.log_out, 10)


@contextlib.contextmanager
def _session(**timeouts: int | str) -> Iterator[srp.Initiator]:
    with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR, **timeouts) as initiator:
        yield initiator


def _removed(end: End) -> str:
    srp.needed()
    return storage.lose_device(end, lambda: _session(**IMPATIENT), _session, 6)


@scenario
def srp_loses_the_device_of_the_initiator() -> str:
    """Under load."""
    return _removed(NEAR)


@scenario
def srp_loses_the_device_of_the_target() -> str:
    """Under load; the initiator learns it from requests without an answer."""
    return _removed(FAR)
