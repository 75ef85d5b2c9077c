#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tenant without rights outside of its own namespaces, who writes frames of rlo's EtherType.

    setpriv --reuid 65534 ... unshare -Urn tenant.py

It takes commands on standard input, one a line, and says `done ...` or `failed ...` after each.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sdptests.frames import frame

SOL_PACKET, PACKET_VNET_HDR = 263, 15
LO, LINK = "lo", "t0"
# Lengths of what an interface takes beside the Ethernet header.
LONGEST = {LO: 65000, LINK: 4400}
# As many frames as fit between two looks at the clock.
BATCH = 64


class Port:
    """Sockets on an interface: plain, in pieces, and one that gets a copy of each frame."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plain = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.plain.bind((name, 0))
        self.own = self.plain.getsockname()[4]
        self.pieces = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.pieces.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.pieces.bind((name, 0))
        self.copies: socket.socket | None = None

    def listen(self, on: bool) -> None:
        """Whether a packet socket shares the frames."""
        if on and not self.copies:
            self.copies = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(frame.TYPE))
            self.copies.bind((self.name, frame.TYPE))
            self.copies.setblocking(False)
        elif not on and self.copies:
            self.copies.close()
            self.copies = None

    def heard(self) -> list[bytes]:
        """The frames that were shared."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while self.copies:
                found.append(self.copies.recv(65536))
        return found

    def send_in_pieces(self, data: bytes, linear: int) -> None:
        """All but the first bytes are in separate pages of the packet."""
        self.pieces.send(struct.pack("=BBHHHH", 0, 0, linear, 0, 0, 0) + data)


def _address(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def shared(count: int) -> str:
    """Frames in pieces which a packet socket has as well, on `lo`."""
    port = Port(LO)
    port.listen(True)
    for number in range(count):
        length = (12000, 3000, 600)[number % 3]
        body = frame.head(frame.DATAGRAM, length) + bytes(length)
        # Some are none of rlo's.
        if number % 2:
            body = bytes(len(body))
        port.send_in_pieces(bytes(12) + struct.pack(">H", frame.TYPE) + body, (64, 14, 102, 110)[number % 4])
        port.heard()
    return str(count)


def long(target: str, count: int) -> str:
    """Datagrams to queue pair 1 that are longer than its receives."""
    port = Port(LINK)
    body = frame.head(frame.DATAGRAM, 600, source="10.9.0.2", target="10.9.0.1") + bytes(600)
    data = _address(target) + port.own + struct.pack(">H", frame.TYPE) + body
    for number in range(count):
        port.plain.send(data)
        if number % 16 == 0:
            time.sleep(0.01)
    return str(count)


def vlans(count: int) -> str:
    """VLANs above the tenant's own interface."""
    lines = [f"link add link {LINK} name {LINK}.{i} type vlan id {i}" for i in range(1, count + 1)]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)
    return str(count)


def anything(target: str, seed: int, seconds: float) -> str:
    """Random frames on both interfaces."""
    dice = random.Random(seed)
    ports = [Port(LO), Port(LINK), Port(LINK)]
    targets = {
        LO: [bytes(6), bytes(6), frame.BROADCAST],
        LINK: [_address(target), _address(target), _address(target), frame.BROADCAST, dice.randbytes(6)],
    }
    tokens: list[int] = []
    sent = refused = heard = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        port = dice.choice(ports)
        port.listen(dice.random() < 0.7)
        for _ in range(BATCH):
            data = frame.any_frame(dice, targets[port.name], port.own, LONGEST[port.name], tokens)
            try:
                if dice.random() < 0.4:
                    port.send_in_pieces(data, dice.choice((0, 14, 18, 64, 102, 200, len(data))))
                else:
                    port.plain.send(data)
                sent += 1
            except OSError:
                # Too short, too long, or no memory for now.
                refused += 1
        for one in port.heard():
            heard += 1
            token = frame.answer_token(one)
            if token is not None and token not in tokens:
                tokens = [*tokens[-7:], token]
    return f"{sent} sent, {refused} refused, {heard} heard"


COMMANDS = {
    "shared": (shared, (int,)),
    "long": (long, (str, int)),
    "vlans": (vlans, (int,)),
    "anything": (anything, (str, int, float)),
}


def main() -> None:
    """Carries out commands until there are none."""
    subprocess.run(["ip", "link", "set", LO, "mtu", "65536", "up"], check=True)
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        call, kinds = COMMANDS[name]
        try:
            print("done", call(*(kind(word) for kind, word in zip(kinds, words, strict=True))), flush=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print("failed", error, flush=True)


if __name__ == "__main__":
    main()
