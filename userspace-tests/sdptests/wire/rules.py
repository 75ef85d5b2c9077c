# SPDX-License-Identifier: MIT
"""The rules for every connection on the wire. Each rule raises a Failure."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

from sdptests.twohosts.failure import check
from sdptests.wire.capture import ip_bytes
from sdptests.wire.connections import BSDH_LENGTH, DATA, Connection, Direction, Message
from sdptests.wire.frames import SEND_FIRST, SEND_LAST, SEND_MIDDLE, SEND_ONLY, Frame

SERVICE_ID_BASE = 0x10000
HELLO_LENGTH = 92
HELLO_ACK_LENGTH = 196
HELLO, HELLO_ACK, CH_RCV_BUF_ACK = 0x00, 0x01, 0x0C
# The smallest receive buffer with room for a byte, and the largest that old peers can count.
RECEIVE_SIZES = range(BSDH_LENGTH + 1, 1 << 16)
# Major and minor version.
VERSION = 0x22


@dataclass(frozen=True)
class Transfer:
    """The programs' knowledge of one connection: its addresses, and the sent bytes."""

    client: tuple[str, int]
    server: tuple[str, int]
    sha256: str
    total: int


def recognised(frames: list[Frame]) -> None:
    """tshark recognises every packet that begins a message, and every REQ and REP, as SDP."""
    kinds = {"REQ": 0, "REP": 0, "SEND": 0}
    for frame in frames:
        if frame.has("infiniband.cm.req.serviceid"):
            kind = "REQ"
        elif frame.has("infiniband.cm.rep.localqpn"):
            kind = "REP"
        elif frame.opcode in (SEND_FIRST, SEND_ONLY):
            kind = "SEND"
        else:
            continue
        kinds[kind] += 1
        check(
            frame.is_sdp and frame.has("infiniband_sdp.bsdh.mid"),
            f"frame {frame.text('frame.number')}, a {kind}, is not SDP but "
            f"{frame.text('frame.protocols')}",
        )
    for kind, count in kinds.items():
        check(count > 0, f"there is no {kind} in the capture")


def well_formed(frames: list[Frame]) -> None:
    """No packet is malformed, except two kinds about which tshark is wrong.

    The packets that continue a message have no header, but tshark parses their bytes as one.
    A credit update is a Data message without payload; tshark expects at least one byte
    of it.
    """
    check(frames, "there is no packet")
    for frame in frames:
        continues = frame.opcode in (SEND_MIDDLE, SEND_LAST)
        credit_update = (
            frame.opcode == SEND_ONLY
            and frame.has("infiniband_sdp.bsdh.mid")
            and frame.number("infiniband_sdp.bsdh.mid") == DATA
            and len(frame.carried()) == BSDH_LENGTH
        )
        check(
            continues or credit_update or not frame.is_malformed,
            f"frame {frame.text('frame.number')} is malformed: {frame.text('_ws.expert.message')}",
        )


def _hh(frame: Frame, name: str) -> int:
    return frame.number(f"infiniband_sdp.hh.{name}")


def hello(connection: Connection, transfer: Transfer) -> None:
    """The Hello matches the programs' addresses."""
    frame = connection.request
    check(
        frame.number("infiniband.cm.req.serviceid") == SERVICE_ID_BASE + transfer.server[1],
        f"service id {frame.text('infiniband.cm.req.serviceid')} for port {transfer.server[1]}",
    )
    expected = {
        "infiniband_sdp.bsdh.mid": HELLO,
        "infiniband_sdp.bsdh.flags": 0,
        "infiniband_sdp.bsdh.len": HELLO_LENGTH,
        "infiniband_sdp.bsdh.mseq": 0,
        "infiniband_sdp.bsdh.mseqack": 0,
        "infiniband_sdp.hh.majv": VERSION >> 4,
        "infiniband_sdp.hh.minv": VERSION & 0xF,
        "infiniband_sdp.hh.ipv": 6 if ":" in transfer.server[0] else 4,
        "infiniband_sdp.hh.localport": transfer.client[1],
    }
    for name, value in expected.items():
        check(frame.number(name) == value, f"{name} is {frame.text(name)}, not {value}")
    for name, (address, _port) in (("src_ip", transfer.client), ("dst_ip", transfer.server)):
        found = ipaddress.IPv6Address(frame.text(f"infiniband_sdp.hh.{name}")).packed
        check(found == ip_bytes(address), f"{name} is {found.hex()}, not {address}")
    check(_hh(frame, "maxadverts") > 0, "MaxAdverts is 0")
    check(_hh(frame, "localrcvsz") in RECEIVE_SIZES, f"LocalRcvSz is {_hh(frame, 'localrcvsz')}")
    check(_hh(frame, "desremrcvsz") in RECEIVE_SIZES, f"DesRemRcvSz is {_hh(frame, 'desremrcvsz')}")
    check(frame.number("infiniband_sdp.bsdh.bufs") >= 3, "fewer buffers than a payload needs")


def hello_ack(connection: Connection) -> None:
    """The HelloAck answers it."""
    frame = connection.reply
    expected = {
        "infiniband_sdp.bsdh.mid": HELLO_ACK,
        "infiniband_sdp.bsdh.flags": 0,
        "infiniband_sdp.bsdh.len": HELLO_ACK_LENGTH,
        "infiniband_sdp.bsdh.mseq": 0,
        "infiniband_sdp.bsdh.mseqack": 0,
    }
    for name, value in expected.items():
        check(frame.number(name) == value, f"{name} is {frame.text(name)}, not {value}")
    check(frame.has("infiniband_sdp.hah"), "tshark sees no HelloAck header")
    check(frame.number("infiniband_sdp.bsdh.bufs") >= 3, "fewer buffers than a payload needs")
    private = frame.rep_private_data()
    check(len(private) == HELLO_ACK_LENGTH, f"{len(private)} bytes of private data")
    header = private[BSDH_LENGTH:]
    check(header[0] == VERSION, f"version {header[0]:#x}")
    check(header[3] > 0, "MaxAdverts is 0")
    size = int.from_bytes(header[4:8], "big")
    check(size in RECEIVE_SIZES, f"ActRcvSz is {size}")
    check(not any(header[8:]), "reserved bytes are not zero")


def _receive_sizes(connection: Connection) -> tuple[int, int]:
    """The receive buffers' size of the active side, and of the passive one."""
    header = connection.reply.rep_private_data()[BSDH_LENGTH:]
    return _hh(connection.request, "localrcvsz"), int.from_bytes(header[4:8], "big")


def _other(connection: Connection, direction: Direction) -> Direction:
    return connection.passive if direction is connection.active else connection.active


def _in_order(connection: Connection) -> list[tuple[int, Direction, Message]]:
    """The messages of both directions with their frames' numbers, in the capture's order."""
    return sorted(
        (
            (message.head.number("frame.number"), direction, message)
            for direction in (connection.active, connection.passive)
            for message in direction.messages
        ),
        key=lambda item: item[0],
    )


def lengths(connection: Connection) -> None:
    """Len is the number of bytes present, and the receiver's buffers have room for them.

    The buffers grow when their owner announces it by ChRcvBufAck; that size excludes the header.
    """
    active_size, passive_size = _receive_sizes(connection)
    room = {connection.active.source: passive_size, connection.passive.source: active_size}
    for number, direction, message in _in_order(connection):
        length = len(message.content)
        check(
            message.bsdh("len") == length,
            f"frame {number}: Len is {message.bsdh('len')} of {length} bytes",
        )
        allowed = room[direction.source]
        check(length <= allowed, f"frame {number}: {length} bytes for buffers of {allowed}")
        if message.bsdh("mid") == CH_RCV_BUF_ACK:
            size = BSDH_LENGTH + int.from_bytes(message.content[BSDH_LENGTH:], "big")
            other = _other(connection, direction).source
            room[other] = max(room[other], size)


def sequence(connection: Connection) -> None:
    """MSeq grows by one with each message; MSeqAck never decreases, and never exceeds sent ones."""
    for direction in (connection.active, connection.passive):
        check(direction.messages, f"{direction.source} sends nothing")
        for expected, message in enumerate(direction.messages, start=1):
            check(
                message.bsdh("mseq") == expected,
                f"frame {message.head.text('frame.number')}: MSeq is {message.bsdh('mseq')}, "
                f"not {expected}",
            )
        acks = [message.bsdh("mseqack") for message in direction.messages]
        check(acks == sorted(acks), f"{direction.source}: MSeqAck goes back")
        check(
            acks[-1] <= len(_other(connection, direction).messages),
            f"{direction.source}: MSeqAck {acks[-1]} is for more than was sent",
        )


def credits(connection: Connection) -> None:
    """No side sends without a buffer at the other side, nor payload with the last two."""
    # The highest number that each side may have sent, from the Hello on.
    granted = {
        connection.active.source: connection.reply.number("infiniband_sdp.bsdh.bufs"),
        connection.passive.source: connection.request.number("infiniband_sdp.bsdh.bufs"),
    }
    for number, direction, message in _in_order(connection):
        left = granted[direction.source] - message.bsdh("mseq") + 1
        payload = message.bsdh("mid") == DATA and len(message.content) > BSDH_LENGTH
        check(left >= 1, f"frame {number}: sent without a credit")
        check(left >= 3 or not payload, f"frame {number}: payload sent with {left} credits")
        other = _other(connection, direction).source
        granted[other] = max(granted[other], message.bsdh("mseqack") + message.bsdh("bufs"))


def payload(connection: Connection, transfer: Transfer) -> None:
    """The stream on the wire is the programs' stream."""
    stream = connection.active.stream()
    check(len(stream) == transfer.total, f"{len(stream)} of {transfer.total} bytes")
    check(
        hashlib.sha256(stream).hexdigest() == transfer.sha256,
        "the bytes on the wire are not those of the programs",
    )
    check(connection.passive.stream() == b"", "bytes in the other direction")
