# SPDX-License-Identifier: MIT
"""Unusual ends of connections, in every state."""

from __future__ import annotations

import contextlib
import errno
import socket
import time

from sdptests.peer.conversation import CONTROL, PAYLOAD
from sdptests.peer.peer import PATIENCE, Peer, Status
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.wire import HelloAck, Mid
from sdptests.twohosts.failure import Failure, check

# The connection manager's shortest useful timeout, 16 ms, and few tries.
HASTY = {"remote_cm_timeout": 12, "cm_retries": 2}


@case("close: DREQ instead of the RTU")
def dreq_before_rtu(scene: Scene) -> None:
    """The CM does not send it as such; it sends a REJ."""
    victim = scene.greet()
    victim.peer.reject()
    scene.moved(established=0)


@case("close: REJ instead of the RTU, from a program that died")
def died_before_rtu(scene: Scene) -> None:
    """The embryo is removed without a message."""
    victim = scene.greet()
    victim.peer.close()
    scene.moved(established=0, passive_opens=0)


@case("close: no RTU, no data, nothing")
def no_rtu(scene: Scene) -> None:
    """The embryo is removed after the retries of the module's CM."""
    scene.greet(**HASTY)
    scene.settle()
    scene.moved(established=0, passive_opens=0)


@case("close: data and no RTU")
def data_without_rtu(scene: Scene) -> None:
    """The first message establishes the connection as well."""
    victim = scene.greet()
    victim.talk.put(Mid.DATA, b"established")
    scene.accept(victim)
    check(victim.stream.receive(11) == b"established", "the bytes")
    scene.works(victim)
    # Late and ignored by the module; but the peer's own CM needs it before it sends a DREQ.
    victim.peer.rtu()
    scene.parts(victim)


@case("close: violation and no RTU")
def violation_without_rtu(scene: Scene) -> None:
    """The first message is invalid."""
    victim = scene.greet()
    victim.talk.send(Mid.SEND_SM)
    scene.moved(violations=1)
    victim.peer.close()
    _accept_if_any(scene)


def _accept_if_any(scene: Scene) -> None:
    """accept() may or may not return a connection that has ended already."""
    while not scene.listener.is_idle():
        stream = scene.listener.accept()
        scene.keep(stream)
        found, data = stream.end()
        check(found in (0, errno.ECONNRESET) and not data, f"{errno.errorcode.get(found)}, {data}")
        stream.close()


@case("close: RTU and no data, then DREQ")
def dreq_at_once(scene: Scene) -> None:
    """A reset before the first byte."""
    victim = scene.establish()
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.ends_with(victim, errno.ECONNRESET)
    scene.moved(resets_received=1, violations=0)


#= test: CLOSE-7
@case("close: RTU, DREQ, and only then accept()")
def dreq_before_accept(scene: Scene) -> None:
    """Received bytes can be read, then the reset is seen."""
    victim = scene.greet()
    victim.peer.rtu()
    victim.talk.put(Mid.DATA, b"a last word")
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.accept(victim)
    scene.ends_with(victim, errno.ECONNRESET, b"a last word")
    scene.moved(resets_received=1)


@case("close: DREQ with data unread")
def dreq_unread(scene: Scene) -> None:
    """The bytes stay readable."""
    victim = scene.establish()
    victim.talk.put(Mid.DATA, b"unread")
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.ends_with(victim, errno.ECONNRESET, b"unread")


@case("close: DREQ while the module sends")
def dreq_while_sending(scene: Scene) -> None:
    """The writer gets the reset."""
    victim = scene.establish()
    victim.stream.fill()
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.ends_with(victim, errno.ECONNRESET)
    try:
        victim.stream.sock.send(b"x")
        check(False, "sending still works")
    except BrokenPipeError:
        pass


@case("close: DREQ after the peer's DisConn")
def dreq_after_disconn(scene: Scene) -> None:
    """The module has not closed: its unsent bytes are lost."""
    victim = scene.establish()
    victim.talk.put(Mid.DIS_CONN)
    scene.ends_with(victim, 0)
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.moved(resets_received=1)
    check(_error(victim) == errno.EPIPE, "a reset after the end of the stream is EPIPE")


def _error(victim: Victim) -> int:
    return victim.stream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


@case("close: DREQ after the module's DisConn")
def dreq_after_own_disconn(scene: Scene) -> None:
    """The module has shut down sending, but still reads."""
    victim = scene.establish()
    victim.stream.sock.shutdown(socket.SHUT_WR)
    victim.talk.expect(Mid.DIS_CONN)
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.ends_with(victim, errno.ECONNRESET)


#= test: CLOSE-6
@case("close: DREQ of the peer crosses the module's")
def crossing(scene: Scene) -> None:
    """Both have sent DisConn, and both disconnect."""
    victim = scene.establish()
    victim.stream.close()
    victim.talk.expect(Mid.DIS_CONN)
    victim.talk.send(Mid.DIS_CONN)
    try:
        victim.peer.dreq()
    except OSError as error:
        # The module's DREQ came first, and the CM has handled it.
        check(error.errno == errno.EINVAL, f"dreq: {error}")
        victim.peer.expect("dreq")
        victim.peer.drep()
    scene.moved(violations=0, resets_sent=0)


@case("close: the peer never answers the module's DREQ")
def no_drep(scene: Scene) -> None:
    """The module does not wait for the DREP."""
    victim = scene.establish(**HASTY)
    victim.talk.send(Mid.SEND_SM)
    victim.peer.expect("dreq")
    scene.ends_with(victim, errno.ECONNRESET)
    victim.stream.close()
    scene.unharmed()


@case("close: AbortConn after DisConn")
def abort(scene: Scene) -> None:
    """The legal use of AbortConn."""
    victim = scene.establish()
    victim.talk.put(Mid.DIS_CONN)
    scene.ends_with(victim, 0)
    # Its acknowledgement may be lost with the module's queue pair.
    victim.talk.send(Mid.ABORT_CONN)
    victim.peer.expect("dreq")
    victim.peer.drep()
    scene.moved(violations=0, resets_received=1)
    check(_error(victim) == errno.EPIPE, "a reset after the end of the stream is EPIPE")


@case("close: data to a program that has closed")
def data_after_close(scene: Scene) -> None:
    """Like a RST in TCP: AbortConn, because the module has sent its DisConn, and DREQ."""
    victim = scene.establish()
    victim.stream.close()
    victim.talk.expect(Mid.DIS_CONN)
    victim.talk.send(Mid.DATA, b"too late")
    victim.talk.expect(Mid.ABORT_CONN)
    victim.peer.expect("dreq")
    victim.peer.drep()
    scene.moved(violations=0, resets_sent=1)


@case("close: a program that leaves bytes unread")
def unread_at_close(scene: Scene) -> None:
    """A DREQ without DisConn: the program must not see a normal end."""
    victim = scene.establish()
    victim.talk.put(Mid.DATA, b"unread")
    victim.stream.await_bytes()
    victim.stream.close()
    victim.peer.expect("dreq")
    victim.talk.take_in_all()
    check(victim.talk.inbox_is_empty(), "a message came with it")
    victim.peer.drep()


@case("close: the program closes and the peer stays silent")
def silent(scene: Scene) -> None:
    """The module's close timer, shortened by a knob, limits the wait."""
    with scene.knob("close_timeout_ms", 1000):
        victim = scene.establish()
        victim.stream.close()
        victim.talk.expect(Mid.DIS_CONN)
        victim.peer.expect("dreq")
        victim.peer.drep()
    scene.moved(violations=0, resets_sent=1)


@case("close: the program closes and the peer has questions, and nothing else")
def talkative(scene: Scene) -> None:
    """Requests that need an answer do not extend the wait."""
    with scene.knob("close_timeout_ms", 2000):
        victim = scene.establish()
        victim.stream.close()
        victim.talk.expect(Mid.DIS_CONN)
        begin = time.monotonic()
        while not victim.peer.take("dreq"):
            check(time.monotonic() - begin < 20, "the connection is kept by answers")
            size = victim.talk.room
            with contextlib.suppress(Failure):
                victim.talk.await_credits(CONTROL, timeout=1)
                victim.talk.send(Mid.CH_RCV_BUF, size.to_bytes(4, "big"))
                victim.talk.expect(Mid.CH_RCV_BUF_ACK, timeout=1)
            time.sleep(0.2)
        victim.peer.drep()
    scene.moved(violations=0, resets_sent=1)


@case("close: the peer takes no AbortConn of a connection that has come to its limit")
def abort_at_the_limit(scene: Scene) -> None:
    """Ten periods are the limit of a closed connection. AbortConn, which the transport may hold back
    for ever, has one more."""
    with scene.knob("close_timeout_ms", 1000):
        victim = scene.establish(hello=scene.hello(bufs=1000), posted=1)
        victim.talk.generous = False
        victim.stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count = 11
        for number in range(count):
            victim.stream.send(bytes([number]))
        victim.stream.close()
        for number in range(count):
            check(victim.talk.expect(Mid.DATA).payload == bytes([number]), "the bytes")
            # Each message is progress.
            time.sleep(0.9 if number < count - 1 else 0)
            victim.talk.grant(1)
        victim.talk.expect(Mid.DIS_CONN)
        victim.peer.expect("dreq")
        victim.peer.drep()
    scene.moved(violations=0, resets_sent=1)


@case("close: more programs have closed than connections may outlive them")
def too_many_orphans(scene: Scene) -> None:
    """The newest one is reset; the others still end normally."""
    with scene.knob("max_orphans", 2):
        victims = [scene.establish() for _ in range(3)]
        for victim in victims:
            victim.stream.close()
        victims[2].peer.expect("dreq")
        victims[2].peer.drep()
        scene.moved(orphans=2, orphans_reset=1, resets_sent=1)
        for victim in victims[:2]:
            victim.talk.expect(Mid.DIS_CONN)
            victim.talk.put(Mid.DIS_CONN)
            victim.peer.expect("dreq")
            victim.peer.drep()
    scene.moved(orphans=0, orphans_reset=1, resets_sent=1)


@case("close: both DisConn, and the peer owes the DREQ for ever")
def no_dreq(scene: Scene) -> None:
    """The module finally sends it itself."""
    with scene.knob("close_timeout_ms", 1000):
        victim = scene.establish()
        victim.talk.put(Mid.DIS_CONN)
        scene.ends_with(victim, 0)
        victim.stream.close()
        victim.talk.expect(Mid.DIS_CONN)
        victim.peer.expect("dreq")
        victim.peer.drep()
    scene.moved(violations=0)


@case("close: DisConn of both sides at once")
def simultaneous(scene: Scene) -> None:
    """The messages cross, and both sides may disconnect."""
    victim = scene.establish()
    victim.talk.put(Mid.DIS_CONN)
    victim.stream.close()
    victim.talk.expect(Mid.DIS_CONN)
    victim.peer.dreq()
    victim.peer.expect("drep")
    scene.moved(violations=0, resets_sent=0, resets_received=0)


@case("close: the queue pair vanishes while nothing is under way")
def vanish_idle(scene: Scene) -> None:
    """The module cannot know, until it sends something."""
    victim = scene.establish()
    victim.peer.vanish()
    scene.bystanders_talk()
    check(victim.stream.is_idle(), "the module knows already")
    victim.stream.send(b"anybody there?")
    scene.ends_with(victim, errno.ETIMEDOUT)
    scene.moved(link_failures=1)


@case("close: the queue pair vanishes during a transfer")
def vanish(scene: Scene) -> None:
    """The transport's retries run out."""
    victim = scene.establish()
    victim.stream.fill()
    victim.peer.vanish()
    scene.ends_with(victim, errno.ETIMEDOUT)
    scene.moved(link_failures=1)


@case("close: the queue pair vanishes during a transfer, toward the active side")
def vanish_active(scene: Scene) -> None:
    """As before, with the module's own number of retries."""
    victim = scene.answer()
    victim.stream.fill()
    victim.peer.vanish()
    scene.ends_with(victim, errno.ETIMEDOUT)
    scene.moved(link_failures=1)


#= test: KEEPALIVE-3
@case("close: the queue pair vanishes when the module may not send")
def vanish_stalled(scene: Scene) -> None:
    """Without a credit nothing is in flight that could fail, so the module must probe."""
    victim = scene.establish()
    victim.talk.generous = False
    victim.stream.fill()
    while victim.talk.limit - victim.talk.received >= PAYLOAD:
        victim.talk.take_in()
        victim.stream.fill()
    # It has probed, and got an answer; so nothing else was in flight.
    before = scene.before["keepalive_probes"]
    probed = scene.comes(lambda: scene.stats()["keepalive_probes"] > before, PATIENCE)
    check(probed, "the module does not probe")
    victim.peer.vanish()
    scene.ends_with(victim, errno.ETIMEDOUT)
    scene.moved(link_failures=1)


@case("close: the peer's program dies during a transfer")
def dies(scene: Scene) -> None:
    """Its kernel sends the DREQ."""
    victim = scene.establish()
    victim.stream.fill()
    victim.peer.close()
    scene.ends_with(victim, errno.ECONNRESET)


@case("close: many REQs, all given up at once")
def abandoned(scene: Scene) -> None:
    """Programs are killed between REQ and REP, or just after it."""
    peers: list[Peer] = [scene.request(scene.hello()) for _ in range(20)]
    for peer in peers[::2]:
        peer.close()
    for peer in peers[1::2]:
        peer.expect("rep")
        peer.close()
    scene.moved(passive_opens=0, established=0)


def falls_silent(peer: Peer) -> None:
    """Zero-length Writes until one fails.

    DREQ and DREP go out before the module's queue pair is in error, so the first may succeed.
    """
    deadline = time.monotonic() + PATIENCE
    while peer.completion(peer.write()) == Status.SUCCESS:
        check(time.monotonic() < deadline, "the queue pair still answers")


@case("close: zero-length Writes into a closed connection")
def write_after_close(scene: Scene) -> None:
    """A keepalive that crosses the end."""
    victim = scene.establish()
    victim.stream.sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0])
    )
    victim.stream.close()
    victim.peer.expect("dreq")
    falls_silent(victim.peer)
    victim.peer.drep()


@case("close: a HelloAck, RTU and DREQ from a peer that then speaks again")
def speaks_after_dreq(scene: Scene) -> None:
    """They find a queue pair in error."""
    victim = scene.answer(HelloAck())
    victim.peer.dreq()
    victim.peer.expect("drep")
    victim.peer.completion(victim.talk.send(Mid.DATA, b"x"))
    falls_silent(victim.peer)
    found, read = victim.stream.end()
    check(found == errno.ECONNRESET, f"ended with {errno.errorcode.get(found, found)}")
    # The answer leaves before the queue pair fails, so that the byte may still arrive.
    check(read in (b"", b"x"), f"{read!r} was read")
