# SPDX-License-Identifier: MIT
"""Attacks with verbs and the connection manager, outside of SDP."""

from __future__ import annotations

import errno
import socket

from sdptests.peer.cases.lending import PATTERN, SRC, THRESHOLD
from sdptests.peer.peer import Peer, Status, namespace
from sdptests.peer.register import case
from sdptests.peer.scene import ADDRESSES, Scene, Victim
from sdptests.peer.waiting import Reader, Writer
from sdptests.peer.wire import HelloAck, Mid
from sdptests.twohosts.failure import check


@case("transport: RDMA Write without a right to it")
def write(scene: Scene) -> None:
    """The queue pair allows remote writes, but no key is valid."""
    for count, (rkey, address) in enumerate(((0, 0), (1, 0), (0x1234, 0x1000), (2**32 - 1, 0)), 1):
        victim = scene.establish()
        status = victim.peer.completion(victim.peer.write(rkey, address, b"attack"))
        check(status == Status.REM_ACCESS_ERR, f"rkey {rkey:#x}: {status.name}")
        scene.is_reset(victim)
        victim.stream.close()
        scene.moved(link_failures=count)


@case("transport: RDMA Read without a right to it")
def read(scene: Scene) -> None:
    """As for Writes."""
    for count, (rkey, address) in enumerate(((0, 0), (1, 0), (0x1234, 0x1000), (2**32 - 1, 0)), 1):
        victim = scene.establish()
        status = victim.peer.completion(victim.peer.read(rkey, address, 4096))
        check(status == Status.REM_ACCESS_ERR, f"rkey {rkey:#x}: {status.name}")
        scene.is_reset(victim)
        victim.stream.close()
        scene.moved(link_failures=count)


@case("transport: keys of all low numbers")
def keys(scene: Scene) -> None:
    """The key for the module's own memory must not work for a peer."""
    for rkey in range(0, 0x4000, 0x400):
        with scene.greet().peer as peer:
            status = peer.completion(peer.read(rkey, 0, 1))
            check(status == Status.REM_ACCESS_ERR, f"rkey {rkey:#x}: {status.name}")
    scene.unharmed()


@case("transport: more outstanding RDMA Reads than a device can have")
def depths(scene: Scene) -> None:
    """The value in a REQ is a maximum."""
    for offer in (0, 1, 16, 128, 129, 255):
        victim = scene.establish(responder_resources=offer, initiator_depth=offer)
        scene.works(victim)
        scene.parts(victim)


@case("transport: more outstanding RDMA Reads than a device can have, in a REP")
def depths_of_reply(scene: Scene) -> None:
    """As before, for the active side."""
    for offer in (0, 255):
        victim = scene.answer(responder_resources=offer, initiator_depth=offer)
        scene.works(victim)
        scene.parts(victim)


@case("transport: no more RDMA Reads than both sides have room for")
def agreed_depths(scene: Scene) -> None:
    """The module respects the limits of both directions in the REP."""
    for begins, answers in ((1, 2), (3, 0), (0, 1), (255, 255)):
        peer = scene.request(
            scene.hello(), initiator_depth=begins, responder_resources=answers
        )
        found = tuple(int(word) for word in peer.expect("reads").words)
        wanted = min(answers, 4), min(begins, 4)
        check(found == wanted, f"{found} is the answer to {begins} and {answers}")
        peer.close()


def _reads_nothing(scene: Scene, victim: Victim) -> None:
    """The module does not read advertised bytes, but requests them as Data."""
    reader = Reader(victim.stream, 50000, socket.MSG_WAITALL)
    key, address = victim.peer.memory(PATTERN[:50000])
    victim.talk.put(Mid.SRC_AVAIL, SRC.pack(50000, key, address) + PATTERN[:1])
    victim.talk.expect(Mid.SEND_SM)
    victim.talk.write(PATTERN[1:50000])
    reader.returns(50000)
    check(reader.data == PATTERN[:50000], "the bytes")
    scene.moved(violations=0, link_failures=0)


@case("transport: a peer that answers no RDMA Reads")
def answers_none(scene: Scene) -> None:
    """Its advertisements are declined."""
    with scene.knob("zcopy_thresh", THRESHOLD):
        victim = scene.establish(hello=scene.hello(max_adverts=4), responder_resources=0)
        _reads_nothing(scene, victim)


@case("transport: a peer that answers no RDMA Reads, toward the active side")
def reply_answers_none(scene: Scene) -> None:
    """As before."""
    with scene.knob("zcopy_thresh", THRESHOLD):
        _reads_nothing(scene, scene.answer(HelloAck(max_adverts=4), responder_resources=0))


@case("transport: a peer that begins no RDMA Reads")
def begins_none(scene: Scene) -> None:
    """It gets no advertisements."""
    with scene.knob("zcopy_thresh", THRESHOLD):
        victim = scene.establish(hello=scene.hello(max_adverts=4), initiator_depth=0)
        writer = Writer(victim.stream, PATTERN)
        check(victim.talk.read(len(PATTERN)) == PATTERN, "the bytes")
        writer.returns(len(PATTERN))
        scene.moved(adverts_sent=0, violations=0)


def _answered(peer: Peer) -> str:
    """Any answer is allowed, but there must be one."""
    return peer.expect("rep", "rej", "fault").kind


@case("transport: path MTUs that do not exist")
def mtus(scene: Scene) -> None:
    """They get an answer, and nothing is left."""
    for mtu in (6, 7, 15):
        with scene.request(scene.hello(), remote_mtu=mtu) as peer:
            check(_answered(peer) == "rej", f"MTU {mtu} was accepted")
    scene.moved(passive_opens=0)


@case("transport: a REQ for an unreliable connection")
def unreliable(scene: Scene) -> None:
    """SDP needs a reliable one."""
    with scene.request(scene.hello(), remote_qp_type=3) as peer:
        check(_answered(peer) == "rej", "it was accepted")
    scene.moved(passive_opens=0)


@case("transport: a request for a datagram service")
def sidr(scene: Scene) -> None:
    """SDP has none: the request is refused, and nothing is left."""
    src, dst = ADDRESSES[4]
    for _ in range(3):
        with scene.peer() as peer:
            with namespace("a"):
                peer.sidr(src, dst, scene.listener.port, scene.hello().pack())
            answer = peer.expect("sidr", "unanswered")
            check(answer.kind == "sidr" and answer.number != 0, f"the answer is {answer.short()}")


@case("transport: a peer that wants endless retries, and vanishes")
def endless_retries(scene: Scene) -> None:
    """The peer does not decide how long the module waits."""
    victim = scene.establish(remote_retry=7)
    victim.peer.vanish()
    victim.stream.send(b"anybody there?")
    found, _data = victim.stream.end()
    check(found == errno.ETIMEDOUT, f"ended with {errno.errorcode.get(found, found)}")


@case("transport: a peer that wants an hour for each acknowledgement, and vanishes")
def endless_acknowledgement(scene: Scene) -> None:
    """As before."""
    victim = scene.establish(remote_ack_timeout=31)
    victim.peer.vanish()
    victim.stream.send(b"anybody there?")
    found, _data = victim.stream.end()
    check(found == errno.ETIMEDOUT, f"ended with {errno.errorcode.get(found, found)}")


@case("transport: a peer that wants an hour for its RTU", long=True)
def endless_rtu(scene: Scene) -> None:
    """An embryo takes a place in the backlog, so its time must be limited."""
    victim = scene.greet(remote_cm_timeout=31, cm_retries=15)
    victim.peer.vanish()
    # TCP keeps a half-open connection for a minute.
    scene.settle(timeout=90)
    scene.moved(established=0, passive_opens=0)


@case("transport: a peer that wants an hour for its DREP")
def endless_drep(scene: Scene) -> None:
    """A closed socket waits for it no longer than its knob says."""
    with scene.knob("close_timeout_ms", 2000):
        victim = scene.establish(remote_cm_timeout=31, cm_retries=15)
        victim.talk.send(Mid.SEND_SM)
        victim.peer.expect("dreq")
        scene.ends_with(victim, errno.ECONNRESET)
        victim.stream.close()
        scene.unharmed()


@case("transport: a reply of a queue pair that is not there")
def no_queue_pair(scene: Scene) -> None:
    """Established by the CM, but without a queue pair."""
    victim = scene.answer()
    victim.peer.vanish()
    victim.stream.send(b"anybody there?")
    scene.ends_with(victim, errno.ETIMEDOUT)
