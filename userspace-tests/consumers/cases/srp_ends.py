# SPDX-License-Identifier: MIT
"""SRP: sessions and devices go while requests are on their way."""

from __future__ import annotations

import disk
import fabric
import limits
import srp
from fabric import FAR, NEAR, End
from register import scenario

WRITERS = 4
# The kernel's initiator holds the lock of its port while it connects again. Where nobody answers that
# takes the connection manager a minute, for which all who want to give the port up wait, and that is
# reported as a hung task, whatever the device is. So it does not connect again.
IMPATIENT = {"reconnect_delay": "off", "fast_io_fail_tmo": 2, "dev_loss_tmo": 5}


@scenario
def srp_logs_out_under_load() -> str:
    """What is on its way fails."""
    srp.needed()
    with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR) as initiator:
        writers = disk.Writers(initiator.disk, WRITERS)
        try:
            writers.await_progress(20)
            initiator.log_out()
            took = writers.await_end(limits.seconds(10))
        finally:
            writers.end()
    return f"the last request was over after {took:.1f} s"


def _removed(end: End) -> str:
    srp.needed()
    with fabric.device_afterwards(end):
        with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR, **IMPATIENT) as initiator:
            writers = disk.Writers(initiator.disk, WRITERS)
            try:
                writers.await_progress(20)
                fabric.remove_device(end)
                took = writers.await_end(limits.seconds(20))
            finally:
                writers.end()
            limits.until("the end of the session", limits.seconds(20), lambda: not initiator.there)
        fabric.add_device(end)
        # With a new device all is as before.
        with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR) as initiator:
            pieces = disk.Pieces(initiator.disk, disk.MIB, 6)
            pieces.exchange(10, disk.size(initiator.disk))
            pieces.close()
    return f"the last request was over after {took:.1f} s"


@scenario
def srp_loses_the_device_of_the_initiator() -> str:
    """Under load."""
    return _removed(NEAR)


@scenario
def srp_loses_the_device_of_the_target() -> str:
    """Under load; the initiator learns it by requests without an answer."""
    return _removed(FAR)
