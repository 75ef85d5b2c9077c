# SPDX-License-Identifier: MIT
"""Forged captures of short connections, byte by byte, with a fault on request.

They test the judge: a correct connection must pass every rule, and each fault must be found
by the rule that it breaks.
"""

from __future__ import annotations

import hashlib
import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sdptests.wire.capture import ROCE_PORT, ip_bytes
from sdptests.wire.connections import DATA
from sdptests.wire.rules import HELLO, HELLO_ACK, SERVICE_ID_BASE, VERSION, Transfer

DISCONN = 0x02
RECEIVE_SIZE = 32784
BUFS = 16
# Queue pairs of either side, their first packet numbers, and the connection's two names.
ACTIVE_QP, PASSIVE_QP = 0x11, 0x12
ACTIVE_PSN, PASSIVE_PSN = 0x100, 0x200
ACTIVE_ID, PASSIVE_ID = 0xAAAA0001, 0xBBBB0001
TRANSACTION = 0x1122334455667788
REQ, REP, RTU = 0x0010, 0x0013, 0x0014
UD_SEND_ONLY, RC_SEND_FIRST, RC_SEND_LAST, RC_SEND_ONLY = 0x64, 0, 2, 4
GENERAL_SERVICES_QP = 1
MTU = 4096


def bsdh(mid: int, length: int, mseq: int, mseqack: int, bufs: int = BUFS) -> bytes:
    """A header."""
    return struct.pack(">BBHIII", mid, 0, bufs, length, mseq, mseqack)


@dataclass(frozen=True)
class Forgery:
    """The contents of the connection; a fault is a change of one of these."""

    client: tuple[str, int] = ("10.0.0.1", 40000)
    server: tuple[str, int] = ("10.0.0.2", 5000)
    version: int = VERSION
    local_port: int = 40000
    hello_ack_reserved: int = 0
    service_id_base: int = SERVICE_ID_BASE
    # The empty one is a credit update.
    payloads: tuple[bytes, ...] = field(
        default=(b"x" * 10, bytes(range(256)) * 20, b"", b"the end"), repr=False
    )
    # Added to a field of the client's n-th message, by the field's name.
    wrong: dict[str, tuple[int, int]] = field(default_factory=dict)
    # The number and size of buffers that the server announces.
    granted: int = BUFS
    receive_size: int = RECEIVE_SIZE
    # Bytes that replace the Hello, the HelloAck, and the client's messages.
    hello: bytes = field(default=b"", repr=False)
    hello_ack: bytes = field(default=b"", repr=False)
    messages: tuple[bytes, ...] = field(default=(), repr=False)

    def transfer(self) -> Transfer:
        """The report of the programs about it."""
        stream = b"".join(self.payloads)
        return Transfer(self.client, self.server, hashlib.sha256(stream).hexdigest(), len(stream))

    def packets(self) -> list[bytes]:
        """The connection from its REQ to the last DREP."""
        a, b = self.client[0], self.server[0]
        packets = [
            self._mad(a, b, REQ, self._request()),
            self._mad(b, a, REP, self._reply()),
            self._mad(a, b, RTU, struct.pack(">II", ACTIVE_ID, PASSIVE_ID)),
        ]
        psn = ACTIVE_PSN
        for message in self._messages():
            parts = [message[at : at + MTU] for at in range(0, len(message), MTU)]
            for number, part in enumerate(parts):
                opcode = RC_SEND_ONLY if len(parts) == 1 else (RC_SEND_FIRST, RC_SEND_LAST)[number]
                packets.append(self._packet(a, b, bth(opcode, PASSIVE_QP, psn, part)))
                psn += 1
        # The server acknowledges everything and sends its DisConn.
        last = bsdh(DISCONN, 16, 1, len(self.payloads) + 1)
        packets.append(self._packet(b, a, bth(RC_SEND_ONLY, ACTIVE_QP, PASSIVE_PSN, last)))
        return packets

    def _messages(self) -> list[bytes]:
        if self.messages:
            return list(self.messages)
        messages = []
        for number, payload in enumerate((*self.payloads, None), start=1):
            fields = {
                "mid": DISCONN if payload is None else DATA,
                "mseq": number,
                "mseqack": 0,
                "len": 16 + len(payload or b""),
            }
            for name, (message, error) in self.wrong.items():
                fields[name] += error if message == number else 0
            header = bsdh(fields["mid"], fields["len"], fields["mseq"], fields["mseqack"])
            messages.append(header + (payload or b""))
        return messages

    def _request(self) -> bytes:
        client, server = self.client, self.server
        version = 6 if ":" in client[0] else 4
        hello = bsdh(HELLO, 92, 0, 0) + struct.pack(
            ">BBBBIIHH16s16s",
            *(self.version, version << 4, 0, 1, RECEIVE_SIZE, RECEIVE_SIZE, self.local_port, 0),
            *(ip_bytes(client[0]), ip_bytes(server[0])),
        )
        request = bytearray(232)
        struct.pack_into(">I4xQ", request, 0, ACTIVE_ID, self.service_id_base + server[1])
        struct.pack_into(">I", request, 32, ACTIVE_QP << 8 | 4)
        struct.pack_into(">I", request, 44, ACTIVE_PSN << 8)
        request[56:72] = _gid(client[0])
        request[72:88] = _gid(server[0])
        request[140:] = self.hello or hello.ljust(92, b"\0")
        return bytes(request)

    def _reply(self) -> bytes:
        ack = bsdh(HELLO_ACK, 196, 0, 0, self.granted) + struct.pack(
            ">BBBBI", self.version, 0, 0, 1, self.receive_size
        )
        reply = bytearray(232)
        struct.pack_into(">II", reply, 0, PASSIVE_ID, ACTIVE_ID)
        struct.pack_into(">I", reply, 12, PASSIVE_QP << 8)
        struct.pack_into(">I", reply, 20, PASSIVE_PSN << 8)
        reply[36:] = self.hello_ack or ack.ljust(196, b"\0")
        reply[-1] = self.hello_ack_reserved or reply[-1]
        return bytes(reply)

    def _mad(self, source: str, target: str, attribute: int, content: bytes) -> bytes:
        header = struct.pack(">BBBBHHQHHI", 1, 0x07, 2, 0x03, 0, 0, TRANSACTION, attribute, 0, 0)
        datagram = struct.pack(">II", 0x80010000, GENERAL_SERVICES_QP)
        carried = datagram + header + content.ljust(232, b"\0")
        return self._packet(source, target, bth(UD_SEND_ONLY, GENERAL_SERVICES_QP, 0, carried))

    def _packet(self, source: str, target: str, content: bytes) -> bytes:
        datagram = struct.pack(">HHHH", 49152, ROCE_PORT, 8 + len(content), 0) + content
        a, b = ipaddress.ip_address(source).packed, ipaddress.ip_address(target).packed
        if len(a) == 4:
            size = 20 + len(datagram)
            network = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 17, 0, a, b)
            kind = 0x0800
        else:
            network = struct.pack(">IHBB16s16s", 6 << 28, len(datagram), 17, 64, a, b)
            kind = 0x86DD
        return (
            bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2])
            + struct.pack(">H", kind)
            + network
            + datagram
        )


def bth(opcode: int, queue_pair: int, psn: int, content: bytes) -> bytes:
    """A base transport header, its contents, padding and an unchecked checksum."""
    padding = -len(content) % 4
    header = struct.pack(">BBHII", opcode, 0x40 | padding << 4, 0xFFFF, queue_pair, psn)
    return header + content + bytes(padding + 4)


def _gid(address: str) -> bytes:
    packed = ipaddress.ip_address(address).packed
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


def write(file: Path, forgeries: Iterable[Forgery]) -> None:
    """Writes one capture with all of these, one after the other."""
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1))
        packets = (packet for forgery in forgeries for packet in forgery.packets())
        for number, packet in enumerate(packets):
            out.write(struct.pack("<IIII", number, 0, len(packet), len(packet)) + packet)


def between(number: int, forgery: Forgery) -> Forgery:
    """The same connection, but between two other hosts."""
    if ":" in forgery.client[0]:
        addresses = f"fd00:{number:x}::1", f"fd00:{number:x}::2"
    else:
        addresses = f"10.1.{number}.1", f"10.1.{number}.2"
    return replace(
        forgery,
        client=(addresses[0], forgery.client[1]),
        server=(addresses[1], forgery.server[1]),
    )


GENUINE = Forgery()
GENUINE_IPV6 = Forgery(client=("fd00::1", 40000), server=("fd00::2", 5000))

# The name of the rule, and the fault that it has to find.
FAULTS: tuple[tuple[str, Forgery], ...] = (
    ("recognised", replace(GENUINE, service_id_base=0)),
    ("well_formed", replace(GENUINE, wrong={"mid": (4, HELLO - DATA)})),
    ("hello", replace(GENUINE, version=0x11)),
    ("hello", replace(GENUINE, local_port=40001)),
    ("hello_ack", replace(GENUINE, hello_ack_reserved=1)),
    ("lengths", replace(GENUINE, wrong={"len": (2, 1)})),
    ("lengths", replace(GENUINE, receive_size=4096)),
    ("sequence", replace(GENUINE, wrong={"mseq": (2, 1)})),
    ("sequence", replace(GENUINE, wrong={"mseqack": (5, 2)})),
    ("credits", replace(GENUINE, granted=5)),
    ("payload", replace(GENUINE, payloads=(b"x" * 10, b"other"))),
)
