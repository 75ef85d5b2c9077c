# SPDX-License-Identifier: MIT
"""NVMe over RDMA: read bytes are the written ones."""

from __future__ import annotations

from sdptests.consumers import fabric, nvme, storage
from sdptests.consumers.fabric import FAR, NEAR, SELF, End
from sdptests.scenarios.register import scenario


def _pieces(near: End, far: End) -> str:
    nvme.needed()
    with nvme.target(far), nvme.host(near, far) as host:
        fabric.check_joined(near, far)
        return storage.exchange_many(host.disk, 1)


@scenario
def nvme_has_pieces_of_all_shapes() -> str:
    """Requests from several memory areas, at any sector."""
    return _pieces(NEAR, FAR)


@scenario
def nvme_has_pieces_by_a_device_to_itself() -> str:
    """Host and target on one device."""
    return _pieces(SELF, SELF)


def _files(near: End, far: End) -> str:
    nvme.needed()
    with nvme.target(far), nvme.host(near, far) as host:
        return storage.carry_files(host.disk)


@scenario
def nvme_carries_a_file_system() -> str:
    """With concurrent writers."""
    return _files(NEAR, FAR)


@scenario
def nvme_carries_a_file_system_by_a_device_to_itself() -> str:
    """The same on one device."""
    return _files(SELF, SELF)
