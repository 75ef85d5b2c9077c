# SPDX-License-Identifier: MIT
"""A device that has no memory region left: bytes are copied, and nobody is told of an error."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import limits
import network
from actor import Actor, Line
from cases.lent_memory import MIB, lending
from network import A, B
from peer import namespace
from register import scenario
from stream import Listener
from twohosts import counters, native
from twohosts.failure import check

STATS = Path("/proc/self/net/sdpstats")
KNOB = Path("/proc/sys/net/sdp/zcopy_regions")
USUAL = 64
LENGTH = 4 * MIB
SENT = ("zcopy_bytes_sent", "written_bytes_sent")
RECEIVED = ("zcopy_bytes_received", "written_bytes_received")
USED = ("region_hits", "region_misses")


def _stats(host: str) -> counters.Counters:
    with namespace(host):
        return counters.parse(STATS.read_text())


def _write(line: Line, port: int, data: bytes) -> None:
    sock = native.make("sdp", B.address(4))
    native.connect(sock, B.address(4), port)
    sock.sendall(data)
    line.say("sent")
    # Until the reader has had it all.
    sock.recv(1)


def _read(_line: Line, listener: Listener) -> str:
    listener.sock.setblocking(True)
    sock = native.accept(listener.sock)
    room = bytearray(LENGTH)
    got = sock.recv_into(room, LENGTH, socket.MSG_WAITALL)
    return hashlib.sha256(room[:got]).hexdigest()


def _moved(host: str, before: counters.Counters, *names: str) -> int:
    now = _stats(host)
    return sum(now[name] - before[name] for name in names)


def _transfer(data: bytes) -> None:
    with namespace("b"):
        listener = Listener(B.address(4))
    reader = Actor("b", _read, listener)
    writer = Actor("a", _write, listener.port, data)
    try:
        check(writer.word(limits.seconds(20)) == "sent", "the bytes are sent")
        wanted = ("result", hashlib.sha256(data).hexdigest())
        check(reader.word(limits.seconds(20)) == wanted, "the bytes differ")
    finally:
        for actor in (reader, writer):
            actor.end()
        listener.close()


def _knob(value: int) -> None:
    for host in ("a", "b"):
        with namespace(host):
            KNOB.write_text(str(value))


@scenario
def bytes_are_copied_without_regions() -> None:
    """With new devices, which have none, and then with as many as there usually are."""
    for end in (A, B):
        with network.device_gone(end):
            pass
    data = bytes(range(256)) * (LENGTH // 256)
    _knob(0)
    try:
        with lending():
            writer, reader = _stats("a"), _stats("b")
            _transfer(data)
            check(_moved("a", writer, "region_shortages") > 0, "the writer has found none")
            check(_moved("a", writer, *SENT, *USED) == 0, "all that is sent is copied")
            check(_moved("b", reader, *RECEIVED, *USED) == 0, "all that is received is copied")
    finally:
        _knob(USUAL)
    with lending():
        reader = _stats("b")
        _transfer(data)
        check(_moved("b", reader, *RECEIVED) > 0, "nothing came without a copy")
