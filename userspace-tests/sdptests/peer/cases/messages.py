# SPDX-License-Identifier: MIT
"""Malformed messages: each ends its connection."""

from __future__ import annotations

from collections.abc import Callable

from sdptests.peer.conversation import Conversation
from sdptests.peer.peer import Status
from sdptests.peer.register import case
from sdptests.peer.scene import Scene
from sdptests.peer.wire import EXTENSIONS, Flags, Mid
from sdptests.twohosts.failure import check

Send = Callable[[Conversation], object]

WRONG: dict[str, Send] = {
    # Shorter than a base header.
    "no bytes at all": lambda talk: talk.peer.send(b""),
    "one byte": lambda talk: talk.peer.send(b"\xff"),
    "fifteen bytes": lambda talk: talk.peer.send(talk.message()[:15]),
    # Len.
    "Len 0": lambda talk: talk.send(Mid.DATA, b"abc", length=0),
    "Len one too small": lambda talk: talk.send(Mid.DATA, b"abc", length=18),
    "Len one too large": lambda talk: talk.send(Mid.DATA, b"abc", length=20),
    "Len 2^32-1": lambda talk: talk.send(Mid.DATA, b"abc", length=2**32 - 1),
    "Len 2^16 too large": lambda talk: talk.send(Mid.DATA, b"abc", length=19 + 2**16),
    # Numbers.
    "MSeq 0": lambda talk: talk.send(Mid.DATA, b"abc", mseq=0),
    "MSeq skips one": lambda talk: talk.send(Mid.DATA, b"abc", mseq=talk.mseq + 2),
    "MSeq of the far future": lambda talk: talk.send(Mid.DATA, b"abc", mseq=2**31),
    "MSeq 2^32-1": lambda talk: talk.send(Mid.DATA, b"abc", mseq=2**32 - 1),
    "MSeqAck of one never sent": lambda talk: talk.send(Mid.DATA, b"abc", mseq_ack=1),
    # From half of all numbers on it counts as an old one, which is ignored.
    "MSeqAck of the far future": lambda talk: talk.send(Mid.DATA, b"abc", mseq_ack=2**31 - 2),
    # Flags.
    "OOB_PRES on Data without payload": lambda talk: talk.send(flags=Flags.OOB_PRES),
    **{
        f"OOB_PRES on {mid.name}": lambda talk, mid=mid: talk.send(
            mid, extension(mid), flags=Flags.OOB_PRES
        )
        for mid in (Mid.DIS_CONN, Mid.CH_RCV_BUF, Mid.MODE_CHANGE, Mid.SEND_SM, Mid.SUSP_COMM)
    },
    "OOB_PRES on SrcAvail": lambda talk: talk.send(
        Mid.SRC_AVAIL, advert(100) + b"inline", flags=Flags.OOB_PRES
    ),
    # Extended headers.
    **{
        f"{mid.name} without its extended header": lambda talk, mid=mid: talk.send(mid)
        for mid in EXTENSIONS
    },
    **{
        f"{mid.name} with a cut extended header": lambda talk, mid=mid: talk.send(
            mid, extension(mid)[1:]
        )
        for mid in EXTENSIONS
    },
    # Payload in messages that carry none.
    **{
        f"payload on {mid.name}": lambda talk, mid=mid: talk.send(mid, extension(mid) + b"x")
        for mid in Mid
        if mid not in (Mid.DATA, Mid.SRC_AVAIL, Mid.SINK_AVAIL)
    },
    "SrcAvail without inline bytes": lambda talk: talk.send(Mid.SRC_AVAIL, advert(100)),
    "SrcAvail with all bytes inline": lambda talk: talk.send(Mid.SRC_AVAIL, advert(6) + b"inline"),
    "SrcAvail with more than all": lambda talk: talk.send(Mid.SRC_AVAIL, advert(5) + b"inline"),
    "SrcAvail of nothing": lambda talk: talk.send(Mid.SRC_AVAIL, advert(0) + b"x"),
    # Unknown modes, and invalid changes of mode.
    **{
        f"ModeChange {byte:#04x}": lambda talk, byte=byte: talk.send(
            Mid.MODE_CHANGE, bytes([byte, 0, 0, 0])
        )
        for byte in (0x10, 0x20, 0x30, 0x70, 0x80, 0x90, 0xA0, 0xB0, 0xF0, 0x01, 0x0F)
    },
}


def extension(mid: int) -> bytes:
    """An extended header of the right length."""
    return bytes(EXTENSIONS.get(Mid(mid), 0))


def advert(length: int) -> bytes:
    """SrcAH: Len, R_Key, VA."""
    return length.to_bytes(4, "big") + bytes(12)


def _add(name: str, send: Send) -> None:
    @case(f"message: {name}")
    def run(scene: Scene) -> None:
        victim = scene.establish()
        send(victim.talk)
        scene.is_violation(victim)


for _name, _send in WRONG.items():
    _add(_name, _send)


@case("message: the same MSeq twice")
def repeated(scene: Scene) -> None:
    """The first of the two is valid."""
    victim = scene.establish()
    victim.talk.put(Mid.DATA, b"once")
    victim.talk.send(Mid.DATA, b"twice", mseq=1)
    scene.is_violation(victim, b"once")


@case("message: MSeqAck goes backwards")
def ack_backwards(scene: Scene) -> None:
    """An old acknowledgement is ignored, also one from before the first message."""
    victim = scene.establish()
    victim.stream.send(b"to acknowledge")
    check(victim.talk.read(14) == b"to acknowledge", "the bytes")
    victim.talk.put(Mid.DATA, b"good")
    for ack in (0, 2**32 - 1):
        victim.talk.put(Mid.DATA, b"old", mseq_ack=ack)
    check(victim.stream.receive(10) == b"goodoldold", "the bytes")
    scene.works(victim)
    scene.parts(victim)


@case("message: every reserved flag")
def reserved_flags(scene: Scene) -> None:
    """They are ignored."""
    victim = scene.establish()
    for bit in range(3, 8):
        victim.talk.put(Mid.DATA, b"x", flags=1 << bit)
    check(victim.stream.receive(5) == b"xxxxx", "the bytes")
    scene.works(victim)
    scene.parts(victim)


@case("message: every MID that means nothing")
def unknown_mids(scene: Scene) -> None:
    """238 kinds, which are ignored, including the bytes after their headers."""
    known = set(Mid)
    victim = scene.establish()
    for mid in range(256):
        if mid not in known:
            victim.talk.put(mid, b"unknown" if mid % 2 else b"")
    scene.works(victim)
    scene.parts(victim)


def _oversize(scene: Scene, length: int) -> None:
    victim = scene.establish()
    assert victim.ack is not None
    number = victim.talk.send(Mid.DATA, bytes(victim.ack.rcv_size - 16 + length))
    status = victim.peer.completion(number)
    # The status of the sender's request depends on when the module's queue pair ends.
    refusals = (Status.REM_INV_REQ_ERR, Status.REM_OP_ERR, Status.RETRY_EXC_ERR)
    check(status in refusals, f"the message has ended with {status.name}")
    scene.is_reset(victim)
    scene.moved(violations=0, link_failures=1)


@case("message: one byte longer than the receive buffers")
def one_too_long(scene: Scene) -> None:
    """The queue pairs detect it."""
    _oversize(scene, 1)


@case("message: much longer than the receive buffers")
def much_too_long(scene: Scene) -> None:
    """As before, with several packets."""
    _oversize(scene, 60000)


@case("message: exactly as long as the receive buffers")
def longest(scene: Scene) -> None:
    """The longest legal message."""
    victim = scene.establish()
    data = bytes(range(250)) * 200
    victim.talk.put(Mid.DATA, data[: victim.talk.room])
    check(victim.stream.receive(victim.talk.room) == data[: victim.talk.room], "the bytes")
    scene.works(victim)
    scene.parts(victim)
