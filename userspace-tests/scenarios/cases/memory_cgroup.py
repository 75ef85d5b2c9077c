# SPDX-License-Identifier: MIT
"""Memory of the stream belongs to the cgroup of who wrote it, and is bounded by it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import limits
from actor import Actor, Line
from network import B
from peer import namespace
from register import Skip, scenario
from stream import Listener
from twohosts import native
from twohosts.failure import check

ROOT = Path("/sys/fs/cgroup")
SO_SNDBUFFORCE = 32
MIB = 1 << 20


@contextlib.contextmanager
def _cgroup() -> Iterator[Path]:
    if "memory" not in (ROOT / "cgroup.controllers").read_text().split():
        raise Skip("no memory controller in cgroup v2")
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    group = ROOT / "sdp-scenario"
    group.mkdir()
    try:
        yield group
    finally:
        limits.until(
            "an empty cgroup", limits.seconds(15), lambda: not (group / "cgroup.procs").read_text()
        )
        group.rmdir()


def _waiting(sock: socket.socket) -> int:
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def _fill(line: Line, group: str, port: int, size: int) -> None:
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    sock = native.make("sdp", B.address(4))
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, size // 2)
    native.connect(sock, B.address(4), port)
    line.say("connected")
    line.hear()
    sock.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(65536))
    line.say((sent, _waiting(sock)))
    line.hear()


def _current(group: Path) -> int:
    return int((group / "memory.current").read_text())


@scenario
def written_bytes_are_charged_to_the_writer() -> str:
    """A full send buffer shows in memory.current, and its end as well."""
    size = 8 * MIB
    with namespace("b"):
        listener = Listener(B.address(4))
    with _cgroup() as group:
        actor = Actor("a", _fill, str(group), listener.port, size)
        try:
            actor.word(limits.seconds(20))
            accepted = listener.accept(limits.seconds(20))
            before = _current(group)
            actor.tell("go on")
            _sent, waiting = actor.word(limits.seconds(60))
            grown = _current(group) - before
            check(
                size // 2 <= waiting <= size + 65536, f"{waiting} bytes wait in {size} of SO_SNDBUF"
            )
            check(
                0.9 * waiting <= grown <= 1.5 * waiting + MIB,
                f"memory.current has grown by {grown} for {waiting} bytes",
            )
            actor.kill()
            actor.reap(limits.seconds(10))
        finally:
            actor.end()
        accepted.close()
        limits.until("uncharged memory", limits.seconds(20), lambda: _current(group) < MIB)
    return f"{grown} bytes charged for {waiting}"
