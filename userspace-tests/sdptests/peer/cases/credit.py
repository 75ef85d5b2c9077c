# SPDX-License-Identifier: MIT
"""Credits, and peers that waste, withhold or forge them."""

from __future__ import annotations

import contextlib
import errno
import socket

from sdptests.peer.conversation import PAYLOAD
from sdptests.peer.peer import PATIENCE, Peer, Status
from sdptests.peer.register import case
from sdptests.peer.scene import Scene
from sdptests.peer.stream import Listener
from sdptests.peer.wire import Mid
from sdptests.twohosts.failure import Failure, check


@case("credit: a flood of credit updates within the credits")
def flood(scene: Scene) -> None:
    """Messages without content; the module must not answer each of them."""
    victim = scene.establish()
    talk = victim.talk
    before = talk.received
    for _ in range(300):
        talk.update()
    answers = talk.received - before
    check(answers <= 180, f"{answers} messages in answer to 300")
    scene.works(victim)
    scene.parts(victim)


@case("credit: more messages than credits")
def without_credit(scene: Scene) -> None:
    """Until the receive queue is empty, or the module has counted them."""
    victim = scene.establish()
    assert victim.ack is not None
    count = victim.ack.bufs + 60
    numbers = [victim.talk.send() for _ in range(count)]
    victim.peer.expect("dreq")
    victim.peer.drep()
    status = victim.peer.completion(numbers[-1])
    check(
        status
        in (
            Status.SUCCESS,
            Status.WR_FLUSH_ERR,
            Status.RETRY_EXC_ERR,
            Status.RNR_RETRY_EXC_ERR,
            Status.REM_OP_ERR,
        ),
        f"ended with {status.name}",
    )
    scene.is_dead(victim)
    scene.moved(violations=1, resets_sent=1)


@case("credit: more messages than credits, without patience")
def without_credit_rnr(scene: Scene) -> None:
    """The sender's own queue pair fails at the first empty receive queue, if the module has not ended it before.

    Where the program reads as fast as the messages come, neither happens: then the peer falls silent.
    """
    victim = scene.establish(rnr_retry=0)
    victim.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    victim.stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    last = [victim.talk.send(Mid.DATA, b"x" * 2000) for _ in range(100)][-1]
    victim.peer.completion(last)
    victim.peer.vanish()
    # Where the module finds no violation, the queue pair that has gone does not acknowledge.
    scene.is_dead(victim, errno.ETIMEDOUT)


@case("credit: payload with the last two credits")
def payload_without_credit(scene: Scene) -> None:
    """The last credits are for control messages."""
    victim = scene.establish(hello=scene.hello(bufs=0))
    # Without credits of its own the module cannot grant more than it did.
    check(victim.talk.credits == 3, f"{victim.talk.credits} credits at the start")
    victim.talk.send(Mid.DATA, b"good")
    victim.talk.send(Mid.DATA, b"one too few")
    scene.is_violation(victim, b"good")


@case("credit: control with the last credit, and without any")
def control_without_credit(scene: Scene) -> None:
    """The last credit is for grants, which no side can check; after it there is none."""
    victim = scene.establish(hello=scene.hello(bufs=0))
    victim.talk.send(Mid.DATA, b"good")
    for _ in range(3):
        victim.talk.send(Mid.SRC_AVAIL_CANCEL)
    scene.is_violation(victim, b"good")


@case("credit: a peer that never grants any")
def never(scene: Scene) -> None:
    """The module's bytes wait, but its program can still end."""
    victim = scene.establish(hello=scene.hello(bufs=0))
    victim.talk.generous = False
    victim.stream.fill()
    victim.talk.put(Mid.DATA, b"x")
    check(victim.stream.receive(1) == b"x", "the other direction")
    check(victim.peer.take("message") is None, "a message came without credits")
    with scene.knob("close_timeout_ms", 1000):
        victim.stream.close()
        victim.peer.expect("dreq")
        victim.peer.drep()


@case("credit: a peer that never grants enough for payload")
def two(scene: Scene) -> None:
    """Two credits are for control messages and one for grants."""
    for bufs in (1, 2):
        victim = scene.establish(hello=scene.hello(bufs=bufs), posted=8)
        victim.talk.generous = False
        victim.stream.send(b"never to be seen")
        victim.talk.put(Mid.DATA, b"x")
        check(victim.stream.receive(1) == b"x", "the other direction")
        for event in victim.peer.events():
            check(event.kind != "message" or len(event.data) == 16, "payload without credits")
        victim.peer.close()
        victim.stream.close()


@case("credit: a peer that never reads")
def never_reads(scene: Scene) -> None:
    """Its receive queue is empty although it has granted credits: RNR, without a limit."""
    victim = scene.establish(hello=scene.hello(bufs=1000), posted=4)
    victim.talk.generous = False
    victim.stream.fill()
    scene.bystanders_talk()
    with scene.knob("close_timeout_ms", 1000):
        victim.stream.close()
        victim.peer.expect("dreq")
        victim.peer.drep()


@case("credit: 65535 credits and as many buffers as there are")
def generous(scene: Scene) -> None:
    """More than the module's send queue can hold."""
    victim = scene.establish(hello=scene.hello(bufs=65535), posted=64, receives=256)
    data = bytes(range(256)) * 2000
    sent, read = 0, b""
    while len(read) < len(data):
        with contextlib.suppress(BlockingIOError):
            sent += victim.stream.sock.send(data[sent:])
        read += victim.talk.expect(Mid.DATA).payload
    check(read == data, "the bytes")
    scene.works(victim)
    scene.parts(victim)


@case("credit: a grant smaller than what is in flight")
def shrinking(scene: Scene) -> None:
    """Invalid values that leave no credit, until a better one comes."""
    victim = scene.establish()
    victim.talk.generous = False
    victim.stream.send(b"one")
    check(victim.talk.read(3) == b"one", "the first bytes")
    victim.talk.send(bufs=0, mseq_ack=0)
    victim.talk.generous = True
    victim.talk.put(Mid.DATA, b"x")
    check(victim.stream.receive(1) == b"x", "the byte")
    scene.works(victim)
    scene.parts(victim)


# The number of REQs that wait for room in a backlog: HELD_MAX of the module.
WAITING = 128
# The connection manager repeats the REQ for much longer than a case takes.
PATIENT = {"cm_timeout": 18, "cm_retries": 15}


@case("credit: a storm of REQs beyond the backlog")
def storm(scene: Scene) -> None:
    """The listener keeps its limit, and works after the flood, in which peers give up without a word."""
    listener = scene.listen(backlog=4)
    tables = scene.tables()
    # Long enough for a slow machine to answer the first: 2 s, twice.
    hasty = {"cm_timeout": 19, "cm_retries": 1, "remote_cm_timeout": 22}
    peers = [scene.request(scene.hello(), at=listener, **hasty) for _ in range(24)]
    kinds = [peer.expect("rep", "rej", "unanswered").kind for peer in peers]
    # One more than the backlog, as TCP counts.
    check(kinds.count("rep") == 5, f"{kinds.count('rep')} of 24 were answered")
    for peer in peers:
        peer.close()
    # Those that waited longest get the places of the first five, and nothing is heard of them.
    scene.settle(tables, timeout=90)
    victim = scene.establish(at=listener)
    scene.works(victim)
    scene.parts(victim)


def _wait_for_room(scene: Scene, listener: Listener) -> Peer:
    """A peer with a REQ that the listener keeps."""
    sockets = scene.tables()["b"] + 1
    peer = scene.request(scene.hello(), at=listener, **PATIENT)
    check(scene.comes(lambda: scene.tables()["b"] == sockets, PATIENCE), "the REQ is not kept")
    return peer


@case("credit: REQs that wait for room in the backlog")
def waiting(scene: Scene) -> None:
    """They are answered in their order when there is room, unless the peer has given up."""
    listener = scene.listen(backlog=0)
    first = scene.greet(at=listener)
    quitter, second, third = (_wait_for_room(scene, listener) for _ in range(3))
    quitter.close()
    scene.moved(hellos_dropped=1)
    first.peer.close()
    second.expect("rep")
    second.rtu()
    scene.keep(listener.accept())
    third.expect("rep")
    third.close()
    scene.moved(hellos_dropped=1)


@case("credit: a REQ that waits too long")
def waited_too_long(scene: Scene) -> None:
    """It is forgotten, and the next try of the peer is taken."""
    listener = scene.listen(backlog=0)
    # The module waits for its RTU for longer than the other waits for room.
    first = scene.greet(at=listener, remote_cm_timeout=22, cm_retries=15)
    second = _wait_for_room(scene, listener)
    scene.moved(hellos_dropped=1)
    first.peer.close()
    second.expect("rep")
    second.close()


@case("credit: more REQs than may wait for room")
def crowd(scene: Scene) -> None:
    """The listener keeps a limited number, and all go with it."""
    tables = scene.tables()
    listener = scene.listen(backlog=0)
    first = scene.greet(at=listener)
    peers = [scene.request(scene.hello(), at=listener, **PATIENT) for _ in range(WAITING + 8)]
    most = tables["b"] + 2 + WAITING
    check(scene.comes(lambda: scene.tables()["b"] == most, PATIENCE), f"{scene.tables()} sockets")
    scene.bystanders_talk()
    check(scene.tables()["b"] <= most, f"{scene.tables()} sockets")
    listener.close()
    for peer in peers:
        peer.expect("rej")
    first.peer.close()
    scene.settle(tables)


@case("credit: connections that nobody accepts")
def not_accepted(scene: Scene) -> None:
    """Established up to the backlog, with data; then the listener is closed."""
    listener = scene.listen(backlog=4)
    victims = [scene.greet(at=listener) for _ in range(4)]
    for victim in victims:
        victim.peer.rtu()
        victim.talk.put(Mid.DATA, b"for nobody")
    listener.close()
    for victim in victims:
        victim.peer.expect("dreq")
        victim.peer.drep()


@case("credit: a stream to a program that does not accept")
def streamed_before_accept(scene: Scene) -> None:
    """It gets room for a few small messages, whatever it asks for, until a program accepts."""
    listener = scene.listen(backlog=4)
    # The peer announces small buffers, because the module answers large ones with large ones.
    victim = scene.greet(hello=scene.hello(rcv_size=1040), at=listener)
    victim.peer.rtu()
    talk = victim.talk
    size = talk.room
    talk.put(Mid.CH_RCV_BUF, (32752).to_bytes(4, "big"))
    sent = b""
    # With the credits granted at the start and later; a closed window grants no more.
    for number in range(40):
        try:
            talk.await_credits(PAYLOAD, timeout=2)
        except Failure:
            break
        part = bytes([number]) * size
        check(talk.peer.completion(talk.send(Mid.DATA, part)) == Status.SUCCESS, "the message")
        sent += part
    # The buffers that a connection begins with, and no more.
    check(len(sent) <= 8 * size, f"{len(sent)} bytes were taken before accept()")
    talk.take_in_all()
    check(talk.inbox_is_empty(), "an answer to ChRcvBuf came before accept()")
    scene.accept(victim, at=listener)
    check(victim.stream.receive(len(sent)) == sent, "the bytes")
    for number in range(12):
        talk.await_credits(PAYLOAD)
        talk.put(Mid.DATA, bytes([number]) * size)
        check(len(victim.stream.receive(size)) == size, "further bytes")
        talk.take_in_all()
        if not talk.inbox_is_empty():
            break
    told = int.from_bytes(talk.expect(Mid.CH_RCV_BUF_ACK).rest, "big")
    check(told > size, f"buffers of {size} have become {told}")
    talk.room = told
    scene.works(victim)
    scene.parts(victim)
