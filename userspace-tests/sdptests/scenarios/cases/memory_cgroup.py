# SPDX-License-Identifier: MIT
"""Memory of the stream is charged to the writer's cgroup, and limited by it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.cgroup import MIB, cgroup, current
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check


def _waiting(sock: socket.socket) -> int:
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def _fill(line: Line, group: str, port: int, size: int) -> None:
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    buffer = (socket.SOL_SOCKET, traffic.SO_SNDBUFFORCE, size // 2)
    sock = native.connected("sdp", B.address(4), port, buffer)
    line.say("connected")
    line.hear()
    sock.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(65536))
    line.say((sent, _waiting(sock)))
    line.hear()


@scenario
def written_bytes_are_charged_to_the_writer() -> str:
    """memory.current shows a full send buffer, and its release."""
    size = 8 * MIB
    with namespace("b"):
        listener = Listener(B.address(4))
    with cgroup() as group:
        actor = Actor("a", _fill, str(group), listener.port, size)
        try:
            actor.word(limits.seconds(20))
            accepted = listener.accept(limits.seconds(20))
            before = current(group)
            actor.tell("go on")
            _sent, waiting = actor.word(limits.seconds(60))
            grown = current(group) - before
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
        limits.until("uncharged memory", limits.seconds(20), lambda: current(group) < MIB)
    return f"{grown} bytes charged for {waiting}"
