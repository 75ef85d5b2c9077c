# SPDX-License-Identifier: MIT
"""A cgroup without free memory: streams become slower, and no process is killed for them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import select
import socket
import struct
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener, Stream
from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.cgroup import MIB, cgroup, current, killed
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.scenarios.traffic import End
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

MCL_CURRENT = 1
# mallopt(3): the process keeps freed memory.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Much more than the cgroup's limit.
SNDBUF = 16 * MIB


def _join(group: str) -> None:
    """Enters the cgroup, with all own memory allocated before."""
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    gc.disable()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)
    libc.mallopt(M_MMAP_THRESHOLD, 1 << 24)
    bytes(4 * MIB)
    if libc.mlockall(MCL_CURRENT):
        raise OSError(ctypes.get_errno(), "mlockall")


def _send_until_stopped(end: End) -> None:
    while True:
        data = traffic.content(end.seed, end.sent, traffic.CHUNK)
        try:
            end.sent += end.stream.sock.send(data)
        except BlockingIOError:
            return


def _write(line: Line, group: str, port: int, board: mmap.mmap) -> int:
    _join(group)
    sock = native.connected("sdp", B.address(4), port)
    end = End(Stream(sock), 1, 2)
    # The first run has the buffer as the limit, so that the second one allocates nothing new.
    _send_until_stopped(end)
    line.say(end.sent)
    line.hear()
    sock.setsockopt(socket.SOL_SOCKET, traffic.SO_SNDBUFFORCE, SNDBUF // 2)
    _send_until_stopped(end)
    # No message, because messages need memory of the cgroup as well.
    struct.pack_into("q", board, 0, end.sent)
    # Now a blocking one.
    sock.setblocking(True)
    more = 4 * MIB
    while more > 0:
        sent = sock.send(traffic.content(end.seed, end.sent, traffic.CHUNK))
        end.sent += sent
        more -= sent
    sock.close()
    return end.sent


@scenario
def full_cgroup_holds_its_writers_up() -> str:
    """A full cgroup is like a full send buffer: EAGAIN, or waiting until bytes were sent."""
    with namespace("b"):
        listener = Listener(B.address(4))
    with cgroup() as group:
        board = mmap.mmap(-1, mmap.PAGESIZE)
        struct.pack_into("q", board, 0, 0)
        actor = Actor("a", _write, str(group), listener.port, board)
        try:
            first = actor.word(limits.seconds(30))
            reader = End(listener.accept(limits.seconds(20)), 2, 1)
            traffic.run([reader], lambda: reader.received == first, limits.seconds(30), "the first")
            room = 2 * MIB
            (group / "memory.max").write_text(str(current(group) + room))
            actor.tell("go on")
            limits.until(
                "a full cgroup", limits.seconds(30), lambda: struct.unpack_from("q", board)[0]
            )
            taken = struct.unpack_from("q", board)[0] - first
            # The reader's memory is limited separately; the rest is in the cgroup.
            check(taken < SNDBUF // 2, f"{taken} bytes were taken with {room} in the cgroup")
            traffic.run([reader], lambda: reader.end is not None, limits.seconds(60), "the rest")
            word = actor.word(limits.seconds(20))
            check(
                word == ("result", reader.received) and reader.end == 0,
                f"{word} at the writer, {reader.received} and {traffic.name(reader.end)} here",
            )
            actor.reap(limits.seconds(10))
        finally:
            actor.end()
        check(killed(group) == 0, "somebody was killed for want of memory")
        reader.close()
    return f"{taken} bytes taken with {room} in the cgroup"


CROWD = 12
EACH = MIB if limits.SOAK else MIB // 4


def _hold(line: Line, group: str, port: int) -> None:
    _join(group)
    held = []
    for _ in range(CROWD):
        sock = native.connected("sdp", B.address(4), port)
        held.append(End(Stream(sock), 2, 1))
    line.say("connected")
    line.hear()
    traffic.run(held, lambda: all(end.end is not None for end in held), 600, "reading")
    line.say([(end.end, end.received) for end in held])


@scenario
def full_cgroup_holds_its_readers_up() -> str:
    """Without memory for more receive buffers a connection continues with those it has."""
    with namespace("b"):
        listener = Listener(B.address(4))
    with cgroup() as group:
        actor = Actor("a", _hold, str(group), listener.port)
        try:
            check(actor.word(limits.seconds(60)) == "connected", "not connected")
            ends = [End(listener.accept(limits.seconds(20)), 1, 2) for _ in range(CROWD)]
            before = leftovers.stats("a")["rx_alloc_failures"]
            (group / "memory.max").write_text(str(current(group) + MIB))
            for end in ends:
                end.total = EACH
                end.closes = True

            def refused() -> int:
                return leftovers.stats("a")["rx_alloc_failures"] - before

            traffic.run(ends, refused, limits.seconds(60), "a buffer that is refused")
            actor.tell("read")
            traffic.run(
                ends, lambda: all(end.shut for end in ends), limits.seconds(120), "the sending"
            )
            found = actor.word(limits.seconds(60))
            check(found == [(0, EACH)] * CROWD, f"the readers had {found}")
            count = refused()
        finally:
            actor.end()
        check(killed(group) == 0, "somebody was killed for want of memory")
        for end in ends:
            end.close()
    return f"{count} receive buffers were refused"


def _open(line: Line, group: str, port: int) -> int:
    _join(group)
    held = []
    line.say("ready")
    line.hear()
    while True:
        sock = native.make("sdp", B.address(4))
        held.append(sock)
        native.connect(sock, B.address(4), port)
        line.say(len(held))


@scenario
def full_cgroup_makes_no_more_sockets() -> str:
    """With an error, or as for sockets of any family: the kernel kills the process."""
    with namespace("b"):
        listener = Listener(B.address(4), backlog=512)
    with cgroup() as group:
        actor = Actor("a", _open, str(group), listener.port)
        accepted, count, end = [], 0, ""
        try:
            actor.word(limits.seconds(30))
            (group / "memory.max").write_text(str(current(group) + MIB // 2))
            actor.tell("go on")
            poll = select.poll()
            poll.register(listener.sock, select.POLLIN)
            while not end:
                word = actor.outcome(limits.seconds(30))
                if isinstance(word, int):
                    count = word
                    accepted.append(listener.accept(limits.seconds(20)))
                    continue
                end = "it was killed" if word is None else traffic.name(word[1])
            actor.reap(limits.seconds(20))
        finally:
            actor.end()
        check(
            end in ("ENOMEM", "ENOBUFS") or (end == "it was killed" and killed(group) > 0),
            f"the end: {end}",
        )
        for one in accepted:
            with contextlib.suppress(OSError):
                one.close()
    traffic.works()
    return f"{count} connections, then {end}"
