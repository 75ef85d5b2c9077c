# SPDX-License-Identifier: MIT
"""SRP: sessions and devices go while requests are on their way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import srp
import storage
from fabric import FAR, NEAR, End
from register import scenario

# The kernel's initiator holds the lock of its port while it connects again. Where nobody answers that
# takes the connection manager a minute, for which all who want to give the port up wait, and that is
# reported as a hung task, whatever the device is. So it does not connect again.
IMPATIENT: dict[str, int | str] = {
    "reconnect_delay": "off",
    "fast_io_fail_tmo": 2,
    "dev_loss_tmo": 5,
}


@scenario
def srp_logs_out_under_load() -> str:
    """What is on its way fails."""
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
    """Under load; the initiator learns it by requests without an answer."""
    return _removed(FAR)
