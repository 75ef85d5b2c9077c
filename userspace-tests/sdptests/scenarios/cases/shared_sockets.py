# SPDX-License-Identifier: MIT
"""Sockets that several threads or processes use: what one of them does to the calls of others."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import threading
import time
from collections import Counter

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits, network, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import packet_scenario
from sdptests.twohosts import native, uapi
from sdptests.twohosts.failure import check

MIB = 1 << 20
ROUNDS = 40
WITHOUT_COPIES = (socket.SOL_TCP, uapi.SDP_ZCOPY_THRESH, 16384)


def _send(line: Line, port: int) -> None:
    sock = native.connected("sdp", B.address(4), port, WITHOUT_COPIES)
    line.say("connected")
    with contextlib.suppress(OSError):
        while True:
            sock.send(bytes(MIB))
    signal.pause()


def _send_little(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            sock.send(bytes(4000))


def _receive_and_send(_line: Line, sock: socket.socket) -> None:
    room = bytearray(MIB)
    threading.Thread(target=_send_little, args=(sock,)).start()
    with contextlib.suppress(OSError):
        while True:
            sock.recv_into(room, MIB, socket.MSG_WAITALL)
    signal.pause()


def _end(sock: socket.socket) -> str:
    """Reads on for a moment; how the stream ends."""
    sock.settimeout(1)
    end = time.monotonic() + 0.5
    try:
        while time.monotonic() < end:
            if not sock.recv(MIB):
                return "without an error"
    except OSError as error:
        return traffic.name(error.errno)
    return "not at all"


@packet_scenario
def program_that_is_killed_takes_no_error_from_others() -> str:
    """A program is killed in recv() and in send(), and bytes in flight to it are lost with their packets.
    Another one has its socket, and the peer goes on."""
    some = random.Random(3)
    with namespace("b"):
        listener = native.listen("sdp", B.address(4))
    ends: Counter[str] = Counter()
    for _ in range(ROUNDS):
        sender = Actor("a", _send, native.own_name(listener)[1])
        sock = native.accept(listener)
        sock.setsockopt(*WITHOUT_COPIES)
        victim = Actor("b", _receive_and_send, sock)
        sender.word(limits.seconds(10))
        time.sleep(0.1 + some.random() * 0.05)
        with network.silent(A), network.silent(B):
            victim.end()
        ends[_end(sock)] += 1
        sender.end()
        sock.close()
    listener.close()
    told = ROUNDS - ends["not at all"]
    check(not ends["without an error"] and told > ROUNDS // 2, f"streams end: {ends}")
    traffic.works()
    return f"{ROUNDS} programs: {ends}"
