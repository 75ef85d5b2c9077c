# SPDX-License-Identifier: MIT
"""The mapping of a file as the destination of bytes."""

from __future__ import annotations

import hashlib
import mmap
import shutil
import socket
import tempfile
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.leftovers import stats
from sdptests.scenarios.network import B, command
from sdptests.scenarios.register import Skip, scenario
from sdptests.scenarios.uncopied import MIB, lending, received
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

LENGTH = 2 * MIB
DISK = Path("/dev/ram0")


def _write(line: Line, port: int, data: bytes) -> None:
    sock = native.connected("sdp", B.address(4), port)
    sock.sendall(data)
    line.say("sent")
    sock.recv(1)


def _read(_line: Line, listener: Listener, file: str) -> int:
    listener.sock.setblocking(True)
    sock = native.accept(listener.sock)
    with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), LENGTH) as room:
        got = sock.recv_into(room, LENGTH, socket.MSG_WAITALL)
        room.flush()
    return got


def _receive_into(file: Path) -> None:
    data = bytes(range(1, 256)) * (LENGTH // 255 + 1)
    data = data[:LENGTH]
    with namespace("b"):
        listener = Listener(B.address(4))
    reader = Actor("b", _read, listener, str(file))
    writer = Actor("a", _write, listener.port, data)
    try:
        check(writer.word(limits.seconds(20)) == "sent", "the bytes are sent")
        check(reader.word(limits.seconds(20)) == ("result", LENGTH), "not all bytes came")
    finally:
        for actor in (reader, writer):
            actor.end()
        listener.close()
    found, wanted = (hashlib.sha256(some).digest() for some in (file.read_bytes(), data))
    check(found == wanted, "the bytes differ")


@scenario
def peers_do_not_write_to_pages_of_files() -> str:
    """RDMA could go on after the file system has written a page back, so the bytes are copied."""
    if not shutil.which("mkfs.ext4") or not DISK.exists():
        raise Skip("no mkfs.ext4, or no disk of memory")
    with tempfile.TemporaryDirectory() as where:
        command("mkfs.ext4", "-q", "-F", str(DISK), "16M")
        command("mount", "-t", "ext4", str(DISK), where)
        try:
            file = Path(where) / "file"
            file.write_bytes(bytes(LENGTH))
            with lending():
                direct, failures = received("b"), stats("b")["pin_failures"]
                _receive_into(file)
                direct = received("b") - direct
                failures = stats("b")["pin_failures"] - failures
        finally:
            command("umount", where)
    check(direct == 0, f"{direct} bytes were moved to pages of the file without a copy")
    check(failures > 0, "nobody tried to pin the pages")
    return f"{failures} times copied instead"
