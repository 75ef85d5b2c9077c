# SPDX-License-Identifier: MIT
"""Actors that sleep in a system call; each says `ready` before it."""

from __future__ import annotations

import os
import socket

from sdptests.scenarios import traffic
from sdptests.scenarios.actor import Line
from sdptests.scenarios.network import B
from sdptests.twohosts import native

# No host has this address.
NOBODY = "10.0.0.77"
LINGER_MINUTES = b"\x01\0\0\0\x58\x02\0\0"


def receive(line: Line, port: int) -> None:
    """The peer says nothing."""
    sock = native.connected("sdp", B.address(4), port)
    line.say("ready")
    sock.recv(1)


def send(line: Line, port: int) -> None:
    """The peer does not read."""
    sock = native.connected("sdp", B.address(4), port)
    line.say("ready")
    while True:
        sock.send(bytes(65536))


def close_lingering(line: Line, port: int) -> None:
    """The peer does not read, and SO_LINGER has ten minutes."""
    sock = native.connected("sdp", B.address(4), port)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_MINUTES)
    traffic.fill(sock)
    line.say("ready")
    os.close(sock.detach())


def resolve(line: Line, _port: int) -> None:
    """connect() looks for a host that there is not."""
    sock = native.make("sdp", NOBODY)
    line.say("ready")
    native.connect(sock, NOBODY, 5000)
