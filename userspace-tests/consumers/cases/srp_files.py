# SPDX-License-Identifier: MIT
"""SRP: what is read is what was written."""

from __future__ import annotations

import time

import disk
import fabric
import srp
from cases.nvme_files import FILES, REQUESTS
from disk import MIB
from fabric import FAR, NEAR, SELF, End
from register import scenario


def _pieces(near: End, far: End) -> str:
    srp.needed()
    with srp.target(near, far), srp.initiator(near, far) as initiator:
        fabric.check_joined(near, far)
        pieces = disk.Pieces(initiator.disk, MIB, 5)
        begin = time.monotonic()
        total = pieces.exchange(REQUESTS, disk.size(initiator.disk))
        took = time.monotonic() - begin
        pieces.close()
    return f"{total / MIB:.1f} MiB there and back in {took:.1f} s"


@scenario
def srp_has_pieces_of_all_shapes() -> str:
    """Requests from several places in memory, at any sector."""
    return _pieces(NEAR, FAR)


@scenario
def srp_has_pieces_by_a_device_to_itself() -> str:
    """Initiator and target on one device."""
    return _pieces(SELF, SELF)


@scenario
def srp_carries_a_file_system() -> str:
    """With writers beside each other."""
    srp.needed()
    with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR) as initiator:
        disk.make_file_system(initiator.disk)
        begin = time.monotonic()
        with disk.mounted(initiator.disk) as directory:
            files = disk.Files(directory)
            total = files.write_many(FILES, MIB // 4, 4)
            files.compare()
        took = time.monotonic() - begin
        # Nothing is known of it any more but what the target has.
        with disk.mounted(initiator.disk) as directory:
            files.compare()
        disk.check_file_system(initiator.disk)
    return f"{total / MIB:.1f} MiB in {FILES} files, written and read in {took:.1f} s"
