# SPDX-License-Identifier: MIT
"""Hosts with zero copy, and a stream between them by blocking calls."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.leftovers import stats
from sdptests.scenarios.network import B
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

MIB = 1 << 20
THRESHOLD = 4096
DEFAULT = 262144
KNOBS = Path("/proc/sys/net/sdp")
# The default number of regions of a device.
REGIONS = 64


def adjust(knob: str, value: int) -> None:
    """Sets a knob of both hosts."""
    for host in ("a", "b"):
        with namespace(host):
            (KNOBS / knob).write_text(str(value))


@contextlib.contextmanager
def regions_of_the_machine(most: int) -> Iterator[None]:
    """Limits the regions of each device, by the knob of the first namespace."""
    knob = KNOBS / "zcopy_regions"
    before = knob.read_text()
    knob.write_text(str(most))
    try:
        yield
    finally:
        knob.write_text(before)


@contextlib.contextmanager
def regions(most: int) -> Iterator[None]:
    """Limits the regions of each device."""
    adjust("zcopy_regions", most)
    try:
        yield
    finally:
        adjust("zcopy_regions", REGIONS)


@contextlib.contextmanager
def lending(cached: bool = True) -> Iterator[None]:
    """Both hosts use zero copy, with memory that may be `cached`."""
    adjust("zcopy_thresh", THRESHOLD)
    adjust("zcopy_cache", int(cached))
    try:
        yield
    finally:
        adjust("zcopy_thresh", DEFAULT)
        adjust("zcopy_cache", 0)


def received(host: str) -> int:
    """Bytes received with zero copy, by reading or writing."""
    found = stats(host)
    return found["zcopy_bytes_received"] + found["written_bytes_received"]


def _write(line: Line, port: int, data: bytes, piece: int) -> None:
    sock = native.connected("sdp", B.address(4), port)
    view = memoryview(data)
    for start in range(0, len(data), piece):
        sock.sendall(view[start : start + piece])
    line.say("sent")
    # Until the reader has read everything.
    sock.recv(1)


def _read(_line: Line, listener: Listener, total: int, piece: int) -> str:
    listener.sock.setblocking(True)
    sock = native.accept(listener.sock)
    room = bytearray(piece)
    digest = hashlib.sha256()
    for start in range(0, total, piece):
        wanted = min(piece, total - start)
        got = sock.recv_into(room, wanted, socket.MSG_WAITALL)
        check(got == wanted, f"{got} of {wanted} bytes came")
        digest.update(memoryview(room)[:got])
    return digest.hexdigest()


def transfer(data: bytes, piece: int, limit: float) -> None:
    """Sends all of `data` from a to b, so much with each call, within `limit` seconds."""
    with namespace("b"):
        listener = Listener(B.address(4))
    reader = Actor("b", _read, listener, len(data), piece)
    writer = Actor("a", _write, listener.port, data, piece)
    try:
        check(writer.word(limits.seconds(limit)) == "sent", "the bytes are sent")
        wanted = ("result", hashlib.sha256(data).hexdigest())
        check(reader.word(limits.seconds(20)) == wanted, "the bytes differ")
    finally:
        for actor in (reader, writer):
            actor.end()
        listener.close()
