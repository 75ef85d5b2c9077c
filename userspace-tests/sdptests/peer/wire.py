# SPDX-License-Identifier: MIT
"""SDP messages as bytes; every field may be wrong.

This file knows the format, but no rules: fields are packed as given. Only omitted lengths are
computed.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

BSDH = struct.Struct(">BBHIII")
HELLO = struct.Struct(">BBBBIIH2x16s16s2xH24x")
HELLO_ACK = struct.Struct(">BBBBI172x")
HELLO_LENGTH = 92
HELLO_ACK_LENGTH = 196
VERSION = 0x22
# OFED's value: eight pages and a header.
OFED_RCV_SIZE = 32784


class Mid(IntEnum):
    """Message ids."""

    HELLO = 0x00
    HELLO_ACK = 0x01
    DIS_CONN = 0x02
    ABORT_CONN = 0x03
    SEND_SM = 0x04
    RDMA_WR_COMPL = 0x05
    RDMA_RD_COMPL = 0x06
    MODE_CHANGE = 0x07
    SRC_AVAIL_CANCEL = 0x08
    SINK_AVAIL_CANCEL = 0x09
    SINK_CANCEL_ACK = 0x0A
    CH_RCV_BUF = 0x0B
    CH_RCV_BUF_ACK = 0x0C
    SUSP_COMM = 0x0D
    SUSP_COMM_ACK = 0x0E
    SINK_AVAIL = 0xFD
    SRC_AVAIL = 0xFE
    DATA = 0xFF


# Lengths of the extended headers.
EXTENSIONS = {
    Mid.RDMA_WR_COMPL: 4,
    Mid.RDMA_RD_COMPL: 4,
    Mid.MODE_CHANGE: 4,
    Mid.CH_RCV_BUF: 4,
    Mid.CH_RCV_BUF_ACK: 4,
    Mid.SUSP_COMM: 8,
    Mid.SINK_AVAIL: 20,
    Mid.SRC_AVAIL: 16,
}


class Flags(IntFlag):
    """Flags of a base header; the five higher bits are reserved."""

    OOB_PRES = 1
    OOB_PEND = 2
    REQ_PIPE = 4


@dataclass
class Header:
    """A base header."""

    mid: int
    mseq: int
    mseq_ack: int
    bufs: int = 0
    flags: int = 0
    # None: the length of the message.
    length: int | None = None

    def pack(self, rest: bytes = b"") -> bytes:
        """The whole message."""
        length = BSDH.size + len(rest) if self.length is None else self.length
        fields = self.mid, self.flags, self.bufs, length
        return BSDH.pack(*fields, self.mseq % 2**32, self.mseq_ack % 2**32) + rest


@dataclass(frozen=True)
class Message:
    """A received message."""

    mid: int
    flags: int
    bufs: int
    length: int
    mseq: int
    mseq_ack: int
    # Everything after the base header.
    rest: bytes

    @classmethod
    def parse(cls, raw: bytes) -> Message:
        """Parses a message; its length is not checked."""
        if len(raw) < BSDH.size:
            raise ValueError(f"{len(raw)} bytes are no message: {raw.hex()}")
        mid, flags, bufs, length, mseq, mseq_ack = BSDH.unpack_from(raw)
        return cls(mid, flags, bufs, length, mseq, mseq_ack, raw[BSDH.size :])

    @property
    def payload(self) -> bytes:
        """The stream bytes that it carries."""
        return self.rest[EXTENSIONS.get(Mid(self.mid), 0) :]


def ip_bytes(address: str) -> bytes:
    """An IPv4 address is twelve zeros and the address."""
    packed = ipaddress.ip_address(address).packed
    return packed.rjust(16, b"\0")


@dataclass
class Hello:
    """The private data of a REQ; valid unless fields are given."""

    src: str
    dst: str
    bufs: int = 16
    local_port: int = 40000
    mid: int = Mid.HELLO
    flags: int = 0
    length: int = HELLO_LENGTH
    mseq: int = 0
    mseq_ack: int = 0
    version: int = VERSION
    # None: the version of the addresses.
    ipv: int | None = None
    capabilities: int = 0
    reserved: int = 0
    max_adverts: int = 1
    desired_rcv_size: int = OFED_RCV_SIZE
    rcv_size: int = OFED_RCV_SIZE
    ext_max_adverts: int = 0

    def pack(self) -> bytes:
        """92 bytes."""
        ipv = ipaddress.ip_address(self.src).version if self.ipv is None else self.ipv
        header = Header(self.mid, self.mseq, self.mseq_ack, self.bufs, self.flags, self.length)
        return header.pack(
            HELLO.pack(
                self.version,
                ipv << 4 | self.capabilities,
                self.reserved,
                self.max_adverts,
                self.desired_rcv_size,
                self.rcv_size,
                self.local_port,
                ip_bytes(self.src),
                ip_bytes(self.dst),
                self.ext_max_adverts,
            )
        )

    @classmethod
    def parse(cls, raw: bytes) -> Hello:
        """Parses private data as a Hello."""
        mid, flags, bufs, length, mseq, mseq_ack = BSDH.unpack_from(raw)
        version, kind, reserved, adverts, desired, rcv_size, port, src, dst, more = (
            HELLO.unpack_from(raw, BSDH.size)
        )
        src, dst = (
            str(
                ipaddress.IPv4Address(address[12:])
                if kind >> 4 == 4
                else ipaddress.IPv6Address(address)
            )
            for address in (src, dst)
        )
        return cls(
            src,
            dst,
            bufs,
            port,
            mid,
            flags,
            length,
            mseq,
            mseq_ack,
            version,
            kind >> 4,
            kind & 15,
            reserved,
            adverts,
            desired,
            rcv_size,
            more,
        )


@dataclass
class HelloAck:
    """The private data of a REP; valid unless fields are given."""

    bufs: int = 16
    mid: int = Mid.HELLO_ACK
    flags: int = 0
    length: int = HELLO_ACK_LENGTH
    mseq: int = 0
    mseq_ack: int = 0
    version: int = VERSION
    kind: int = 0
    reserved: int = 0
    max_adverts: int = 1
    rcv_size: int = OFED_RCV_SIZE

    def pack(self) -> bytes:
        """196 bytes."""
        header = Header(self.mid, self.mseq, self.mseq_ack, self.bufs, self.flags, self.length)
        return header.pack(
            HELLO_ACK.pack(self.version, self.kind, self.reserved, self.max_adverts, self.rcv_size)
        )

    @classmethod
    def parse(cls, raw: bytes) -> HelloAck:
        """Parses private data as a HelloAck."""
        mid, flags, bufs, length, mseq, mseq_ack = BSDH.unpack_from(raw)
        version, kind, reserved, adverts, rcv_size = HELLO_ACK.unpack_from(raw, BSDH.size)
        return cls(
            bufs, mid, flags, length, mseq, mseq_ack, version, kind, reserved, adverts, rcv_size
        )
