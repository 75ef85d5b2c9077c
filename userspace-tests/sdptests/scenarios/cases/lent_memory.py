# SPDX-License-Identifier: MIT
"""Devices are removed and processes killed while pages of programs are advertised."""

from __future__ import annotations

import contextlib
import errno
import mmap
import socket
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.leftovers import stats
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import packet_scenario, scenario
from sdptests.scenarios.uncopied import MIB, lending, received
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

# The transport's retries and a margin.
RETRIES = 15


def _pins() -> int:
    """The number of pinned pages."""
    # Adds up the counts of all processors. A kernel for one processor has no such file.
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/sys/vm/stat_refresh").read_bytes()
    found = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(found["nr_foll_pin_acquired"]) - int(found["nr_foll_pin_released"])


def _hits() -> int:
    """The number of hits in the translation cache."""
    return sum(stats(host)["cache_hits"] for host in ("a", "b"))


def _memory() -> memoryview:
    return memoryview(mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _write(line: Line, sock: socket.socket) -> None:
    data = _memory()
    line.say("ready")
    while True:
        sock.send(data)


def _read(line: Line, sock: socket.socket) -> None:
    room = _memory()
    line.say("ready")
    while sock.recv_into(room, MIB, socket.MSG_WAITALL):
        pass


def _write_there(line: Line, port: int) -> None:
    _write(line, native.connected("sdp", B.address(4), port))


def _read_there(line: Line, port: int) -> None:
    _read(line, native.connected("sdp", B.address(4), port))


def _accepted(line: Line, listener: Listener, write: bool) -> None:
    listener.sock.setblocking(True)
    sock = native.accept(listener.sock)
    (_write if write else _read)(line, sock)


class Flows:
    """A writer on a with its reader on b, and a writer on b with its reader on a."""

    def __init__(self) -> None:
        self.before = {host: received(host) for host in ("a", "b")}
        with namespace("b"):
            first, second = Listener(B.address(4)), Listener(B.address(4))
        self.reader_b = Actor("b", _accepted, first, False)
        self.writer_a = Actor("a", _write_there, first.port)
        self.writer_b = Actor("b", _accepted, second, True)
        self.reader_a = Actor("a", _read_there, second.port)
        for listener in (first, second):
            listener.close()
        for actor in self.all():
            actor.word(limits.seconds(20))
        for host in ("a", "b"):
            limits.until(
                f"bytes without copies on {host}",
                limits.seconds(20),
                lambda host=host: received(host) - self.before[host] > 4 * MIB,
            )

    def all(self) -> tuple[Actor, ...]:
        """All actors."""
        return self.reader_b, self.writer_a, self.writer_b, self.reader_a

    def end(self) -> None:
        """All actors have ended."""
        for actor in self.all():
            actor.end()


def _given_back() -> None:
    limits.until("no page pinned", limits.seconds(20), lambda: _pins() == 0)


def _device_removal(cached: bool) -> None:
    with lending(cached):
        flows = Flows()
        try:
            with network.device_gone(A):
                for actor in (flows.writer_a, flows.reader_a):
                    number = actor.error(limits.seconds(10))
                    check(
                        number in (errno.ECONNRESET, errno.EPIPE),
                        f"on the removed device: {traffic.name(number)}",
                    )
                number = flows.writer_b.error(limits.seconds(RETRIES))
                check(
                    number in (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE),
                    f"its peer: {traffic.name(number)}",
                )
                # An actor that only waits may wait for ever, but can be killed.
                flows.reader_b.kill()
                flows.reader_b.reap(limits.seconds(RETRIES))
        finally:
            flows.end()
        _given_back()


@scenario
def device_removal_amid_reads_and_writes() -> None:
    """Connections on the device get an error at once, their peers at the next request."""
    _device_removal(cached=False)


@scenario
def device_removal_with_memory_cached() -> None:
    """The translation cache does not hold the device."""
    before = _hits()
    _device_removal(cached=True)
    check(_hits() > before, "nothing was cached")


@scenario
def processes_are_killed_with_memory_cached() -> None:
    """Each in turn, and the memory of both ends is released."""
    before = _hits()
    _kills(cached=True)
    check(_hits() > before, "nothing was cached")


@scenario
def processes_are_killed_amid_reads_and_writes() -> None:
    """Each in turn: its peer continues or ends, and no page stays pinned."""
    _kills(cached=False)


def _kills(cached: bool) -> None:
    with lending(cached):
        for name in ("reader_a", "writer_a", "reader_b", "writer_b"):
            flows = Flows()
            try:
                victim: Actor = getattr(flows, name)
                victim.kill()
                victim.reap(limits.seconds(RETRIES))
            finally:
                flows.end()
            _given_back()


@packet_scenario
def link_is_cut_amid_reads_and_writes() -> None:
    """The transport gives up, and every sender gets an error."""
    with lending():
        flows = Flows()
        try:
            with network.silent(A):
                for actor in (flows.writer_a, flows.writer_b):
                    number = actor.error(limits.seconds(2 * RETRIES))
                    check(
                        number in (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE),
                        f"a writer: {traffic.name(number)}",
                    )
        finally:
            flows.end()
        _given_back()
