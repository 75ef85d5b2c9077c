# SPDX-License-Identifier: MIT
"""The module connects to a raw peer, which sends a wrong answer or none."""

from __future__ import annotations

import errno

from sdptests.peer.conversation import Conversation
from sdptests.peer.peer import Peer, Rejected
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.wire import Hello, HelloAck, Mid
from sdptests.twohosts.failure import check

MALFORMED: dict[str, dict[str, int]] = {
    "version 0x11": {"version": 0x11},
    "version 0x32": {"version": 0x32},
    "MaxAdverts 0": {"max_adverts": 0},
    "ActRcvSz 0": {"rcv_size": 0},
    "ActRcvSz 15": {"rcv_size": 15},
    "ActRcvSz 16": {"rcv_size": 16},
    "ActRcvSz 37, a byte to a message": {"rcv_size": 37},
    "ActRcvSz 527": {"rcv_size": 527},
    "Len 0": {"length": 0},
    "Len 195": {"length": 195},
    "Len 92": {"length": 92},
    "the MID of Hello": {"mid": Mid.HELLO},
    "the MID of Data": {"mid": Mid.DATA},
    "MSeq 1": {"mseq": 1},
    "MSeqAck 1": {"mseq_ack": 1},
    "a reserved flag": {"flags": 0x10},
}


#= test: HELLO-11
def _add(name: str, wrong: dict[str, int]) -> None:
    @case(f"hello-ack: {name}")
    def run(scene: Scene) -> None:
        connecting, peer, _hello = scene.await_request()
        peer.reply(HelloAck(**wrong).pack())
        number = connecting.outcome()
        check(number == errno.ECONNREFUSED, f"connect: {errno.errorcode.get(number, number)}")
        answer = peer.expect("rej", "established")
        check(answer.kind == "rej", "the HelloAck was accepted")
        check(answer.number == Rejected.CONSUMER_DEFINED, f"the reason is {answer.number}")
        connecting.close()
        scene.moved(violations=1, failed_opens=1, active_opens=0)


for _name, _wrong in MALFORMED.items():
    _add(_name, _wrong)


@case("hello-ack: the peer rejects")
def rejected(scene: Scene) -> None:
    """Every reason counts as a refusal."""
    reasons = (Rejected.CONSUMER_DEFINED, Rejected.INVALID_SERVICE_ID, 3, 65535)
    for reason in reasons:
        connecting, peer, _hello = scene.await_request()
        peer.reject(reason)
        number = connecting.outcome()
        check(number == errno.ECONNREFUSED, f"{reason}: {errno.errorcode.get(number, number)}")
        connecting.close()
        peer.close()
    scene.moved(failed_opens=len(reasons), violations=0)


def _queue_pair(peer: Peer) -> int:
    return peer.expect("from").number


@case("hello-ack: the peer knows the queue pair from before")
def stale(scene: Scene) -> None:
    """Its CM knows a connection with a queue pair of that number: another pair is tried."""
    connecting, peer, hello = scene.await_request()
    numbers = [_queue_pair(peer)]
    for _ in range(2):
        peer.turn_away(Rejected.STALE_CONNECTION)
        again = Hello.parse(peer.expect("req").data)
        check((again.src, again.dst) == (hello.src, hello.dst), f"the Hello is from {again.src}")
        check(again.local_port == hello.local_port, "the Hello is from another port")
        numbers.append(_queue_pair(peer))
    check(len(set(numbers)) == len(numbers), f"the queue pairs are {numbers}")
    ack = HelloAck()
    peer.reply(ack.pack())
    stream = connecting.stream()
    peer.expect("established")
    talk = Conversation(peer, ack.bufs, hello.bufs, hello.rcv_size, ack.rcv_size)
    victim = Victim(peer, talk, ack, stream)
    scene.works(victim)
    scene.parts(victim)
    scene.moved(stale_retries=2, active_opens=1, failed_opens=0)


@case("hello-ack: the peer knows all queue pairs from before")
def always_stale(scene: Scene) -> None:
    """It finally counts as a refusal, without a limit by the program."""
    connecting, peer, _hello = scene.await_request()
    for _ in range(6):
        peer.turn_away(Rejected.STALE_CONNECTION)
        peer.expect("req")
    peer.reject(Rejected.STALE_CONNECTION)
    number = connecting.outcome()
    check(number == errno.ECONNREFUSED, f"connect: {errno.errorcode.get(number, number)}")
    scene.moved(stale_retries=6, active_opens=0, failed_opens=1)


@case("hello-ack: the program gives up while another queue pair is tried")
def stale_given_up(scene: Scene) -> None:
    """close() between the REJ and the next Hello, or close to it."""
    for _ in range(8):
        connecting, peer, _hello = scene.await_request()
        peer.turn_away(Rejected.STALE_CONNECTION)
        connecting.close()
        peer.close()


@case("hello-ack: the peer's program dies before it answers")
def dies(scene: Scene) -> None:
    """Its CM rejects for it."""
    connecting, peer, _hello = scene.await_request()
    peer.close()
    number = connecting.outcome()
    check(number == errno.ECONNREFUSED, f"connect: {errno.errorcode.get(number, number)}")


@case("hello-ack: the program gives up before the peer answers")
def given_up(scene: Scene) -> None:
    """close() during connect(); the late answer finds no socket."""
    connecting, peer, _hello = scene.await_request()
    connecting.close()
    peer.expect("rej")


@case("hello-ack: no credits are granted, then some are")
def no_credits(scene: Scene) -> None:
    """The first message waits for credits."""
    victim = scene.answer(HelloAck(bufs=0))
    victim.stream.send(b"patience")
    victim.talk.grant(8)
    victim.talk.update()
    check(victim.talk.read(8) == b"patience", "the bytes")
    scene.works(victim)
    scene.parts(victim)


@case("hello-ack: messages before the RTU")
def early(scene: Scene) -> None:
    """The passive side may send as soon as it has replied."""
    connecting, peer, hello = scene.await_request()
    ack = HelloAck()
    peer.reply(ack.pack())
    talk = Conversation(peer, ack.bufs, hello.bufs, hello.rcv_size, ack.rcv_size)
    talk.put(Mid.DATA, b"early")
    victim = Victim(peer, talk, ack, connecting.stream())
    check(victim.stream.receive(5) == b"early", "the bytes")
    scene.works(victim)
    scene.parts(victim)
