# SPDX-License-Identifier: MIT
"""A file with pages that never come: a file system in user space that answers no read."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sdptests.scenarios import limits
from sdptests.scenarios.actor import Actor, Line

SIZE = 4096
MODE = 0o100600

# include/uapi/linux/fuse.h
_REQUEST = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_INIT = struct.Struct("<IIIIHHIIHHI28x")
_ATTRIBUTES = struct.Struct("<QIIQQQQQQIIIIIIIIII")
_OPENED = struct.Struct("<QII")
_FORGET, _GETATTR, _OPEN, _READ, _INIT_CODE, _INTERRUPT = 2, 3, 14, 15, 26, 36
_SILENT = (_FORGET, _READ, _INTERRUPT)
_BODIES = {
    _INIT_CODE: _INIT.pack(7, 31, SIZE, 0, 0, 0, SIZE, 1, 0, 0, 0),
    _GETATTR: _ATTRIBUTES.pack(0, 0, 0, 1, SIZE, 8, *[0] * 6, MODE, 1, 0, 0, 0, SIZE, 0),
    _OPEN: _OPENED.pack(1, 0, 0),
}


def _answer(device: int) -> None:
    """Answers one request, if it is no read."""
    request = os.read(device, 1 << 16)
    _, code, unique, *_ = _REQUEST.unpack_from(request)
    if code not in _SILENT:
        body = _BODIES.get(code, b"")
        error = 0 if code in _BODIES else -errno.ENOSYS
        os.write(device, _ANSWER.pack(_ANSWER.size + len(body), error, unique) + body)


def _serve(line: Line, path: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode={MODE:o},user_id=0,group_id=0"
    command = ["mount", "-i", "-t", "fuse", "-o", options, "late", path]
    subprocess.run(command, check=True, pass_fds=[device])
    line.say("mounted")
    poll = select.poll()
    poll.register(device, select.POLLIN)
    poll.register(line.fileno(), select.POLLIN)
    while line.fileno() not in (ready := dict(poll.poll())):
        if device in ready:
            _answer(device)


@contextlib.contextmanager
def late_file() -> Iterator[str]:
    """Mounts the file, and gives its path. Reads that wait at the end fail."""
    with contextlib.ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "late"
        file.touch()
        server = Actor("a", _serve, str(file))
        stack.callback(server.end)
        server.word(limits.seconds(10))
        stack.callback(subprocess.run, ["umount", "-l", str(file)], check=True)
        yield str(file)


def mapped(path: str) -> mmap.mmap:
    """The file's page as memory that is not there yet."""
    file = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(file, SIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    finally:
        os.close(file)
