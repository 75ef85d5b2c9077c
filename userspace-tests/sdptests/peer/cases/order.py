# SPDX-License-Identifier: MIT
"""Well-formed messages at the wrong time."""

from __future__ import annotations

from sdptests.peer.cases.messages import advert, extension
from sdptests.peer.register import case
from sdptests.peer.scene import Scene
from sdptests.peer.wire import Hello, HelloAck, Mid
from sdptests.twohosts.failure import check

# Completions and answers without a request, and messages that MaxAdverts 1 excludes.
UNSOLICITED = (
    *(Mid.SEND_SM, Mid.RDMA_WR_COMPL, Mid.RDMA_RD_COMPL, Mid.SINK_AVAIL_CANCEL),
    *(Mid.SINK_CANCEL_ACK, Mid.CH_RCV_BUF_ACK, Mid.SUSP_COMM_ACK, Mid.SINK_AVAIL),
)


def _add(mid: Mid) -> None:
    @case(f"order: {mid.name} unsolicited")
    def run(scene: Scene) -> None:
        victim = scene.establish()
        victim.talk.send(mid, extension(mid))
        scene.is_violation(victim)


for _mid in UNSOLICITED:
    _add(_mid)


@case("order: SinkAvail with payload")
def sink_avail(scene: Scene) -> None:
    """It is legal only in a mode that the module did not offer."""
    victim = scene.establish()
    victim.talk.send(Mid.SINK_AVAIL, extension(Mid.SINK_AVAIL) + b"payload")
    scene.is_violation(victim)


@case("order: a second Hello")
def hello_again(scene: Scene) -> None:
    """As a message."""
    victim = scene.establish()
    victim.talk.send(Mid.HELLO, scene.hello().pack()[16:])
    scene.is_violation(victim)


@case("order: a HelloAck from the side that sent the Hello")
def hello_ack(scene: Scene) -> None:
    """As a message."""
    victim = scene.establish()
    victim.talk.send(Mid.HELLO_ACK, HelloAck().pack()[16:])
    scene.is_violation(victim)


@case("order: a whole Hello, numbers and all")
def hello_raw(scene: Scene) -> None:
    """The same bytes as in the REQ."""
    hello = scene.hello()
    victim = scene.establish(hello=hello)
    victim.peer.send(hello.pack())
    scene.is_violation(victim)


@case("order: HelloAck and Hello toward the side that connects")
def to_active(scene: Scene) -> None:
    """As before, with the module as the active side."""
    src, dst = scene.hello().dst, scene.hello().src
    for count, (mid, raw) in enumerate(
        ((Mid.HELLO_ACK, HelloAck().pack()), (Mid.HELLO, Hello(src, dst).pack())), 1
    ):
        victim = scene.answer()
        victim.talk.send(mid, raw[16:])
        scene.is_reset(victim)
        victim.stream.close()
        victim.peer.close()
        scene.moved(violations=count)


def _after_disconn(name: str, mid: Mid, rest: bytes) -> None:
    @case(f"order: {name} after DisConn")
    def run(scene: Scene) -> None:
        victim = scene.establish()
        victim.talk.put(Mid.DATA, b"before")
        victim.talk.put(Mid.DIS_CONN)
        check(victim.stream.receive(6) == b"before", "the bytes before it")
        victim.talk.send(mid, rest)
        victim.peer.expect("dreq")
        victim.peer.drep()
        scene.moved(violations=1, resets_sent=1)


_after_disconn("Data", Mid.DATA, b"late")
_after_disconn("DisConn", Mid.DIS_CONN, b"")
_after_disconn("SrcAvail", Mid.SRC_AVAIL, advert(100) + b"late")
_after_disconn("SrcAvailCancel", Mid.SRC_AVAIL_CANCEL, b"")


@case("order: credit updates after DisConn are legal")
def update_after_disconn(scene: Scene) -> None:
    """The other direction may still be in use."""
    victim = scene.establish(hello=scene.hello(bufs=3))
    victim.talk.put(Mid.DIS_CONN)
    scene.ends_with(victim, 0)
    data = bytes(range(256)) * 400
    victim.stream.send(data)
    check(victim.talk.read(len(data)) == data, "the bytes from the module")
    victim.stream.close()
    victim.talk.expect(Mid.DIS_CONN)
    victim.peer.dreq()
    victim.peer.expect("drep")


@case("order: AbortConn without DisConn")
def abort_alone(scene: Scene) -> None:
    """Only a side that has sent DisConn may send it."""
    victim = scene.establish()
    victim.talk.send(Mid.ABORT_CONN)
    scene.is_violation(victim)


@case("order: AbortConn without DisConn, in the middle of a transfer")
def abort_in_transfer(scene: Scene) -> None:
    """With bytes in flight in both directions."""
    victim = scene.establish()
    victim.stream.fill()
    victim.talk.put(Mid.DATA, b"unread")
    victim.talk.send(Mid.ABORT_CONN, mseq_ack=0)
    scene.is_violation(victim, b"unread")


def _repeated(name: str, first: tuple[Mid, bytes], answer: Mid, message: tuple[Mid, bytes]) -> None:
    @case(f"order: {name}")
    def run(scene: Scene) -> None:
        # One credit, which the first answer uses up; none is left for the second.
        victim = scene.establish(hello=scene.hello(bufs=1), posted=16)
        victim.talk.posted = 1
        victim.talk.generous = False
        victim.talk.put(*first)
        victim.talk.expect(answer)
        victim.talk.put(*first)
        victim.talk.send(*message)
        victim.peer.expect("dreq")
        victim.peer.drep()
        scene.moved(violations=1, resets_sent=1)


_src_avail = (Mid.SRC_AVAIL, advert(100) + b"inline")
_ch_rcv_buf = (Mid.CH_RCV_BUF, extension(Mid.CH_RCV_BUF))
_repeated("another ChRcvBuf before the answer", _ch_rcv_buf, Mid.CH_RCV_BUF_ACK, _ch_rcv_buf)
for _name, _message in (
    ("a second SrcAvail before the answer", _src_avail),
    ("Data while a SrcAvail is outstanding", (Mid.DATA, b"x")),
    ("DisConn while a SrcAvail is outstanding", (Mid.DIS_CONN, b"")),
    ("ModeChange while a SrcAvail is outstanding", (Mid.MODE_CHANGE, bytes(4))),
):
    _repeated(_name, _src_avail, Mid.SEND_SM, _message)


def _in_buffered(name: str, mid: Mid, rest: bytes) -> None:
    @case(f"order: {name} in Buffered mode")
    def run(scene: Scene) -> None:
        victim = scene.establish()
        victim.talk.put(Mid.MODE_CHANGE, bytes(4))
        victim.talk.send(mid, rest)
        scene.is_violation(victim)


_in_buffered("SrcAvail", *_src_avail)
_in_buffered("SrcAvailCancel", Mid.SRC_AVAIL_CANCEL, b"")
_in_buffered("ModeChange to Buffered", Mid.MODE_CHANGE, bytes(4))
_in_buffered("ModeChange to Pipelined", Mid.MODE_CHANGE, bytes([0x20, 0, 0, 0]))


@case("order: a cancel of nothing is nothing")
def cancel_of_nothing(scene: Scene) -> None:
    """It may have crossed the end of the cancelled advertisement."""
    victim = scene.establish()
    for _ in range(5):
        victim.talk.put(Mid.SRC_AVAIL_CANCEL)
    scene.works(victim)
    scene.parts(victim)
