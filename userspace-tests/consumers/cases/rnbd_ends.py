# SPDX-License-Identifier: MIT
"""RNBD: devices go while requests are on their way."""

from __future__ import annotations

import disk
import fabric
import limits
import rnbd
from fabric import FAR, NEAR, End
from register import scenario

WRITERS = 4


@scenario
def rnbd_is_unmapped_under_load() -> str:
    """What is on its way fails."""
    rnbd.needed()
    with rnbd.client(NEAR, FAR, "unmapped") as client:
        writers = disk.Writers(client.disk, WRITERS)
        try:
            writers.await_progress(20)
            client.unmap("force")
            took = writers.await_end(limits.seconds(10))
        finally:
            writers.end()
    return f"the last request was over after {took:.1f} s"


def _removed(end: End, session: str) -> str:
    rnbd.needed()
    with fabric.device_afterwards(end):
        with rnbd.client(NEAR, FAR, session) as client:
            writers = disk.Writers(client.disk, WRITERS)
            try:
                writers.await_progress(20)
                fabric.remove_device(end)
                took = writers.await_end(limits.seconds(20))
            finally:
                writers.end()
        fabric.add_device(end)
        with rnbd.client(NEAR, FAR, f"{session}-again") as client:
            pieces = disk.Pieces(client.disk, disk.MIB, 4)
            pieces.exchange(10, disk.size(client.disk))
            pieces.close()
    return f"the last request was over after {took:.1f} s"


@scenario
def rnbd_loses_the_device_of_the_client() -> str:
    """Under load."""
    return _removed(NEAR, "near")


@scenario
def rnbd_loses_the_device_of_the_server() -> str:
    """Under load."""
    return _removed(FAR, "far")
