# SPDX-License-Identifier: MIT
"""Generic netlink: the parts of it that control the kernel's SMC."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

_GENERIC = 16
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_NESTED = 0x8000
_LINE = "=IHHII"

Attributes = dict[int, bytes]


def attributes(data: bytes) -> Attributes:
    """The attributes of a message, or of a nested one, by number."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & ~_NESTED] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _packed(values: Attributes) -> bytes:
    out = b""
    for kind, value in values.items():
        out += struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)
    return out


class Family:
    """One family of generic netlink, in the namespace of the process."""

    def __init__(self, name: str) -> None:
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC)
        self._number = _GENERIC
        answer = self._ask(_GET_FAMILY, {_FAMILY_NAME: name.encode() + b"\0"}, 0, 1)
        self._number = int.from_bytes(next(answer)[_FAMILY_ID][:2], "little")

    def _ask(
        self, command: int, values: Attributes, flags: int, version: int
    ) -> Iterator[Attributes]:
        body = struct.pack("=BBH", command, version, 0) + _packed(values)
        head = struct.pack(_LINE, 16 + len(body), self._number, _REQUEST | flags, 1, 0)
        self._sock.send(head + body)
        while True:
            data = self._sock.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                message, data = data[16:length], data[(length + 3) & ~3 :]
                if kind in (_ERROR, _DONE):
                    number = -struct.unpack_from("=i", message)[0] if len(message) >= 4 else 0
                    if number:
                        raise OSError(number, os.strerror(number))
                    return
                yield attributes(message[4:])
            if not flags:
                return

    def tell(self, command: int, values: Attributes) -> None:
        """Sends a command; an OSError if the kernel refuses it."""
        list(self._ask(command, values, _ACK, 1))

    def dump(self, command: int) -> list[Attributes]:
        """Dumps all objects."""
        return list(self._ask(command, {}, _DUMP, 1))

    def close(self) -> None:
        """Closes the socket."""
        self._sock.close()
