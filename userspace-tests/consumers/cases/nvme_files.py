# SPDX-License-Identifier: MIT
"""NVMe over RDMA: what is read is what was written."""

from __future__ import annotations

import time

import disk
import fabric
import limits
import nvme
from disk import MIB
from fabric import FAR, NEAR, SELF, End
from register import scenario

REQUESTS = 3000 if limits.SOAK else limits.amount(600, 60)
FILES = 200 if limits.SOAK else limits.amount(100, 20)


def _pieces(near: End, far: End, **options: int) -> str:
    nvme.needed()
    with nvme.target(far), nvme.host(near, far, **options) as host:
        fabric.check_joined(near, far)
        pieces = disk.Pieces(host.disk, MIB, 1)
        begin = time.monotonic()
        total = pieces.exchange(REQUESTS, disk.size(host.disk))
        took = time.monotonic() - begin
        pieces.close()
    return f"{total / MIB:.1f} MiB there and back in {took:.1f} s"


@scenario
def nvme_has_pieces_of_all_shapes() -> str:
    """Requests from several places in memory, at any sector."""
    return _pieces(NEAR, FAR)


@scenario
def nvme_has_pieces_by_a_device_to_itself() -> str:
    """Host and target on one device."""
    return _pieces(SELF, SELF)


def _files(near: End, far: End) -> str:
    nvme.needed()
    with nvme.target(far), nvme.host(near, far) as host:
        disk.make_file_system(host.disk)
        begin = time.monotonic()
        with disk.mounted(host.disk) as directory:
            files = disk.Files(directory)
            total = files.write_many(FILES, MIB // 4, 4)
            files.compare()
        took = time.monotonic() - begin
        # Nothing is known of it any more but what the target has.
        with disk.mounted(host.disk) as directory:
            files.compare()
        disk.check_file_system(host.disk)
    return f"{total / MIB:.1f} MiB in {FILES} files, written and read in {took:.1f} s"


@scenario
def nvme_carries_a_file_system() -> str:
    """With writers beside each other."""
    return _files(NEAR, FAR)


@scenario
def nvme_carries_a_file_system_by_a_device_to_itself() -> str:
    """The same on one device."""
    return _files(SELF, SELF)
