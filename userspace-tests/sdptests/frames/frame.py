# SPDX-License-Identifier: MIT
"""Frames of rlo's EtherType, right and wrong ones."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Sequence

TYPE = 0x88B5
MAGIC = 0x726C6F31
PING, PONG, DATAGRAM = 1, 2, 3
GSI, GSI_QKEY = 1, 0x80010000
HEAD = struct.Struct("=IHHQQ16s16sIIIIIBBHHHHH")
BROADCAST = bytes([0xFF] * 6)
# A management datagram of a connection manager: versions, class and method.
_CM = bytes([1, 7, 2, 3])
_MAD_LEN = 256
# The longest payload that a device accepts, and lengths around others that matter.
MOST = 4096
_LENGTHS = (0, 1, 39, 40, 255, 256, 257, 600, 1024, 2048, MOST - 1, MOST, MOST + 1, 12000, 60000)
# VLAN tags, with identifiers that have an interface, and such as have none.
_TAGS = (0x8100, 0x88A8)


def mapped(address: str) -> bytes:
    """The GID of an IPv4 address."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def head(
    kind: int,
    length: int,
    *,
    nonce: int = 0,
    token: int = 0,
    source: str = "0.0.0.0",
    target: str = "0.0.0.0",
    qpn: int = GSI,
    qkey: int = GSI_QKEY,
) -> bytes:
    """A header of RoCE, for a payload of `length` bytes."""
    return HEAD.pack(
        MAGIC, kind, 0, nonce, token, mapped(source), mapped(target),
        1, qpn, qkey, 0, length, 0, 64, 0xFFFF, 0, 0, 0, 0,
    )  # fmt: skip


def answer_token(frame: bytes) -> int | None:
    """The token of a device's answer to a probe."""
    body = frame[14:]
    if len(body) < HEAD.size:
        return None
    fields = HEAD.unpack_from(body)
    return fields[4] if fields[0] == MAGIC and fields[1] == PONG else None


def _payload(dice: random.Random, longest: int) -> bytes:
    length = min(dice.choice((*_LENGTHS, dice.randrange(longest + 1))), longest)
    if dice.random() < 0.3:
        attribute = dice.randrange(0x10, 0x1B)
        mad = _CM + bytes(12) + struct.pack(">HHI", attribute, 0, 0)
        return (mad + dice.randbytes(_MAD_LEN))[:_MAD_LEN][:longest]
    return dice.randbytes(length)


def _random_head(dice: random.Random, length: int, tokens: Sequence[int]) -> bytes:
    said = dice.choice((length, length, length, length + 1, length - 1, MOST, MOST + 1, 1 << 31, 0xFFFFFFFF))
    gids = (bytes(16), mapped("10.9.0.1"), mapped("10.9.0.2"), mapped("10.0.0.1"), dice.randbytes(16))
    number = dice.choice((0, 1, 1, 1, 2, 0x11, 0x12, dice.randrange(1 << 24), 0xFFFFFF))
    lids = (0, 0, 0, 0, 1, 2, 0xBFFF, 0xC000, 0xC123, 0xFFFF)
    return HEAD.pack(
        MAGIC if dice.random() < 0.95 else dice.getrandbits(32),
        dice.choice((PING, PONG, DATAGRAM, DATAGRAM, DATAGRAM, 0, 4, 0xFFFF)),
        dice.choice((0, 1, 2, 4, 8, 0xFFFF)),
        dice.choice((0, dice.getrandbits(64))),
        dice.choice((0, dice.getrandbits(64), *tokens)),
        dice.choice(gids),
        dice.choice(gids),
        dice.choice((0, 1, dice.randrange(1 << 24))),
        number,
        dice.choice((GSI_QKEY, GSI_QKEY, 0, 0x0B1B, dice.getrandbits(32))),
        dice.getrandbits(32),
        said & 0xFFFFFFFF,
        dice.getrandbits(8),
        dice.getrandbits(8),
        0xFFFF,
        dice.choice(lids),
        dice.choice(lids),
        dice.choice((0, 10, 0xFFFF)),
        dice.getrandbits(16),
    )


def any_frame(
    dice: random.Random, targets: Sequence[bytes], own: bytes, longest: int, tokens: Sequence[int]
) -> bytes:
    """A random frame to one of the hardware addresses; at most `longest` bytes behind the tags."""
    payload = _payload(dice, longest - HEAD.size)
    body = _random_head(dice, len(payload), tokens) + payload
    if dice.random() < 0.1:
        body = body[: dice.randrange(len(body) + 1)]
    tag = b""
    for _ in range(dice.choice((0, 0, 0, 0, 0, 1, 1, 2))):
        tag += struct.pack(">HH", dice.choice(_TAGS), dice.choice((0, 1, 7, 4095)))
    source = own if dice.random() < 0.9 else dice.randbytes(6)
    return dice.choice(targets) + source + tag + struct.pack(">H", TYPE) + body
