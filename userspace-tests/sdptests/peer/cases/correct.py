# SPDX-License-Identifier: MIT
"""A peer that obeys the rules: tests the tool, and the module's wire format."""

from __future__ import annotations

from sdptests.peer.peer import Status
from sdptests.peer.register import case
from sdptests.peer.scene import ADDRESSES, Scene, Victim
from sdptests.peer.wire import OFED_RCV_SIZE, VERSION, Flags, Hello, HelloAck, Mid
from sdptests.twohosts.failure import check


def _check_ack(ack: HelloAck) -> None:
    check(ack.version == VERSION, f"version {ack.version:#x}")
    check(ack.mid == Mid.HELLO_ACK and ack.length == 196, f"MID {ack.mid}, Len {ack.length}")
    check((ack.flags, ack.mseq, ack.mseq_ack) == (0, 0, 0), "flags or numbers are not zero")
    check((ack.kind, ack.reserved) == (0, 0), "reserved fields are not zero")
    check(ack.max_adverts >= 1, "MaxAdverts is zero")
    check(1024 < ack.rcv_size < 65536, f"ActRcvSz {ack.rcv_size}")
    check(ack.bufs >= 3, f"{ack.bufs} credits: no payload can ever be sent")


def _check_hello(hello: Hello, own_port: int) -> None:
    check(hello.version == VERSION, f"version {hello.version:#x}")
    check(hello.mid == Mid.HELLO and hello.length == 92, f"MID {hello.mid}, Len {hello.length}")
    check((hello.flags, hello.mseq, hello.mseq_ack) == (0, 0, 0), "flags or numbers are not zero")
    check((hello.capabilities, hello.reserved, hello.ext_max_adverts) == (0, 0, 0), "not zero")
    check(hello.max_adverts >= 1, "MaxAdverts is zero")
    check(1024 < hello.rcv_size < 65536, f"LocalRcvSz {hello.rcv_size}")
    check(hello.bufs >= 3, f"{hello.bufs} credits: no payload can ever be sent")
    check(hello.local_port == own_port, f"LocalPort {hello.local_port}, getsockname {own_port}")


def _converse(scene: Scene, victim: Victim) -> None:
    """Data in both directions, more than any window holds."""
    talk, stream = victim.talk, victim.stream
    up = bytes(range(256)) * 700
    talk.write(b"first")
    check(stream.receive(5) == b"first", "the first message")
    # So much the module takes before its program reads, into small buffers as well.
    step = min(40000, 16 * talk.room)
    for start in range(0, len(up), step):
        part = up[start : start + step]
        talk.write(part)
        check(stream.receive(len(part)) == part, f"bytes {start} and on, to the module")
    # More than the module may have in flight, so our credit updates are needed.
    stream.send(up[:60000])
    check(talk.read(60000) == up[:60000], "bytes from the module")
    scene.works(victim)


#= test: HELLO-7, HELLO-10, HELLO-12
@case("correct: a passive connection from Hello to DREQ")
def passive(scene: Scene) -> None:
    """The module listens."""
    victim = scene.establish()
    assert victim.ack is not None
    _check_ack(victim.ack)
    own, peer = victim.stream.names()
    check(own == (ADDRESSES[4][1], scene.listener.port), f"getsockname {own}")
    check(peer[0] == ADDRESSES[4][0] and peer[1] >= 40000, f"getpeername {peer}")
    _converse(scene, victim)
    scene.parts(victim)
    scene.moved(passive_opens=1, violations=0, resets_sent=0, resets_received=0)


@case("correct: a passive connection over IPv6")
def passive_ipv6(scene: Scene) -> None:
    """The module listens."""
    victim = scene.establish(6)
    own, peer = victim.stream.names()
    check(own == (ADDRESSES[6][1], scene.listener6.port), f"getsockname {own}")
    check(peer[0] == ADDRESSES[6][0], f"getpeername {peer}")
    _converse(scene, victim)
    scene.parts(victim)


@case("correct: an active connection from Hello to DREQ")
def active(scene: Scene) -> None:
    """The module connects."""
    connecting, peer, hello = scene.await_request()
    peer.reply(HelloAck().pack())
    stream = connecting.stream()
    peer.expect("established")
    _check_hello(hello, stream.names()[0][1])
    peer.close()
    victim = scene.answer()
    _converse(scene, victim)
    # This time the module closes first, so it must send the DREQ.
    victim.stream.close()
    victim.talk.expect(Mid.DIS_CONN)
    victim.talk.put(Mid.DIS_CONN)
    victim.peer.expect("dreq")
    victim.peer.drep()
    scene.moved(violations=0, resets_sent=0)


@case("correct: grants of three credits are enough")
def tiny_grants(scene: Scene) -> None:
    """The minimum for sending payload."""
    victim = scene.establish(hello=scene.hello(bufs=3))
    _converse(scene, victim)
    scene.parts(victim)


@case("correct: an OFED-like peer")
def ofed(scene: Scene) -> None:
    """MaxAdverts 1, buffers of eight pages, five buffers, no RNR retries."""
    hello = scene.hello(bufs=5, max_adverts=1, rcv_size=OFED_RCV_SIZE)
    victim = scene.establish(hello=hello, remote_rnr_retry=0)
    _converse(scene, victim)
    scene.parts(victim)


@case("correct: the eight pages of an OFED-like peer's buffers are filled")
def full_pages(scene: Scene) -> None:
    """Writes of powers of two use as few messages as possible."""
    hello = scene.hello(bufs=5, max_adverts=1, rcv_size=OFED_RCV_SIZE)
    victim = scene.establish(hello=hello)
    victim.stream.send(b"x" * 65536)
    lengths = [len(victim.talk.expect(Mid.DATA).payload) for _ in range(2)]
    check(lengths == [32768, 32768], f"messages of {lengths} bytes")
    scene.works(victim)
    scene.parts(victim)


@case("correct: receive buffers of the least size and of the largest")
def receive_sizes(scene: Scene) -> None:
    """Messages never exceed the peer's buffers."""
    for size in (528, 1040, 65535, 2**32 - 1):
        victim = scene.establish(hello=scene.hello(rcv_size=size))
        victim.stream.send(b"x" * 3000)
        check(victim.talk.read(3000) == b"x" * 3000, f"with buffers of {size} bytes")
        scene.parts(victim)


@case("correct: who begins with large receive buffers is met with large ones")
def large_buffers(scene: Scene) -> None:
    """Final OFED and FreeBSD never ask for larger buffers than they first announced."""
    rooms = {}
    for size in (4096, OFED_RCV_SIZE):
        victim = scene.establish(hello=scene.hello(rcv_size=size))
        rooms[size] = victim.talk.room
        victim.talk.put(Mid.DATA, b"z" * rooms[size])
        check(victim.stream.receive(rooms[size]) == b"z" * rooms[size], "a full message")
        scene.works(victim)
        scene.parts(victim)
    check(rooms[4096] < rooms[OFED_RCV_SIZE], f"{rooms}")


#= test: KEEPALIVE-1
@case("correct: zero-length RDMA Writes are not seen")
def keepalive(scene: Scene) -> None:
    """OFED sends these as keepalives."""
    victim = scene.establish()
    for _ in range(3):
        status = victim.peer.completion(victim.peer.write())
        check(status == Status.SUCCESS, f"the write has ended with {status.name}")
    scene.works(victim)
    scene.parts(victim)


@case("correct: the sink's wish for Pipelined mode is no more than that")
def req_pipe(scene: Scene) -> None:
    """REQ_PIPE is a hint, which may be ignored."""
    victim = scene.establish()
    victim.talk.put(Mid.DATA, b"x", flags=Flags.REQ_PIPE)
    check(victim.stream.receive(1) == b"x", "the byte")
    scene.works(victim)
    scene.parts(victim)


@case("correct: ChRcvBuf lets the buffers grow, and shrink to their first size")
def ch_rcv_buf(scene: Scene) -> None:
    """The answer comes when the smaller buffers before it are used up."""
    victim = scene.establish(hello=scene.hello(rcv_size=1040))
    small = victim.talk.room
    for wanted in (0, 1, small):
        victim.talk.put(Mid.CH_RCV_BUF, wanted.to_bytes(4, "big"))
        check(_answered(victim) == small, f"asked for {wanted}")
    victim.talk.put(Mid.CH_RCV_BUF, (2**32 - 1).to_bytes(4, "big"))
    for byte in b"used up":
        victim.talk.put(Mid.DATA, bytes([byte]))
    large = _answered(victim)
    # The administrator chooses the limit.
    check(small <= large < 1 << 17, f"buffers of {small} have become {large}")
    check(victim.stream.receive(7) == b"used up", "the bytes")
    victim.talk.put(Mid.DATA, b"z" * large)
    check(victim.stream.receive(large) == b"z" * large, "a message of the new size")
    victim.talk.put(Mid.CH_RCV_BUF, small.to_bytes(4, "big"))
    check(_answered(victim) == small, "buffers shrink")
    scene.works(victim)
    scene.parts(victim)


def _answered(victim: Victim) -> int:
    return int.from_bytes(victim.talk.expect(Mid.CH_RCV_BUF_ACK).rest, "big")


@case("correct: SrcAvail gives its inline bytes and is declined")
def src_avail(scene: Scene) -> None:
    """Combined mode: SendSm, and then the rest as Data."""
    victim = scene.establish()
    victim.talk.put(Mid.SRC_AVAIL, _advert(100) + b"inline")
    victim.talk.expect(Mid.SEND_SM)
    check(victim.stream.receive(6) == b"inline", "the inline bytes")
    # A cancel that crosses the SendSm has nothing to cancel.
    victim.talk.put(Mid.SRC_AVAIL_CANCEL)
    victim.talk.put(Mid.DATA, b"y" * 94)
    check(victim.stream.receive(94) == b"y" * 94, "the rest")
    scene.works(victim)
    scene.parts(victim)


def _advert(length: int) -> bytes:
    """SrcAH: Len, R_Key, VA."""
    return length.to_bytes(4, "big") + bytes(4) + bytes(8)


@case("correct: Buffered mode has only Data")
def buffered(scene: Scene) -> None:
    """The one ModeChange that a peer may send."""
    victim = scene.establish()
    victim.talk.put(Mid.MODE_CHANGE, bytes([0x00, 0, 0, 0]))
    scene.works(victim)
    scene.parts(victim)


@case("correct: SuspComm ends the connection in good order")
def suspend(scene: Scene) -> None:
    """It is not supported, but the peer must not wait for ever."""
    victim = scene.establish()
    victim.talk.put(Mid.SUSP_COMM, bytes(8))
    victim.talk.expect(Mid.DIS_CONN)
    victim.talk.put(Mid.DIS_CONN)
    victim.peer.expect("dreq")
    victim.peer.drep()
    scene.ends_with(victim, 0)


@case("correct: an urgent byte")
def urgent(scene: Scene) -> None:
    """OOB_PEND before it, OOB_PRES with it."""
    victim = scene.establish()
    victim.talk.put(Mid.DATA, b"", flags=Flags.OOB_PEND)
    victim.talk.put(Mid.DATA, b"abc!", flags=Flags.OOB_PRES | Flags.OOB_PEND)
    check(victim.stream.receive(3) == b"abc", "the bytes before it")
    check(victim.stream.urgent() == b"!", "the urgent byte")
    scene.works(victim)
    scene.parts(victim)
