# SPDX-License-Identifier: MIT
"""RNBD: what is read is what was written."""

from __future__ import annotations

import time

import disk
import fabric
import rnbd
from cases.nvme_files import FILES, REQUESTS
from disk import MIB
from fabric import FAR, NEAR
from register import scenario


@scenario
def rnbd_has_pieces_of_all_shapes() -> str:
    """Requests from several places in memory, at any sector."""
    rnbd.needed()
    with rnbd.client(NEAR, FAR, "pieces") as client:
        fabric.check_joined(NEAR, FAR)
        pieces = disk.Pieces(client.disk, MIB, 3)
        begin = time.monotonic()
        total = pieces.exchange(REQUESTS, disk.size(client.disk))
        took = time.monotonic() - begin
        pieces.close()
    return f"{total / MIB:.1f} MiB there and back in {took:.1f} s"


@scenario
def rnbd_carries_a_file_system() -> str:
    """With writers beside each other."""
    rnbd.needed()
    with rnbd.client(NEAR, FAR, "files") as client:
        disk.make_file_system(client.disk)
        begin = time.monotonic()
        with disk.mounted(client.disk) as directory:
            files = disk.Files(directory)
            total = files.write_many(FILES, MIB // 4, 4)
            files.compare()
        took = time.monotonic() - begin
        with disk.mounted(client.disk) as directory:
            files.compare()
        disk.check_file_system(client.disk)
    return f"{total / MIB:.1f} MiB in {FILES} files, written and read in {took:.1f} s"
