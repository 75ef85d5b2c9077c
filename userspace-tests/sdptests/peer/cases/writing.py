# SPDX-License-Identifier: MIT
"""The peer advertises room, to which the module writes by RDMA, and attacks on that.

The other side is a program that waits in send(), or that writes later.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from sdptests.peer.cases.lending import (
    ENDS,
    PATTERN,
    PIPELINED,
    SINK,
    complete,
    lending,
    lent_to_read,
    pipelined,
)
from sdptests.peer.peer import PATIENCE
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.waiting import Writer
from sdptests.peer.wire import Flags, Mid
from sdptests.twohosts.failure import check

ROOM = 50000
BAD_KEY = 0x55AA00


def wants_room(victim: Victim) -> None:
    """Switches the module's direction to Pipelined mode: the peer asks, the module does it."""
    victim.talk.put(Mid.DATA, b"go", flags=Flags.REQ_PIPE)
    check(victim.stream.receive(2) == b"go", "the first bytes")
    change = victim.talk.expect(Mid.MODE_CHANGE)
    check(change.rest == PIPELINED, f"mode {change.rest.hex()}")


def offer(victim: Victim, length: int = ROOM, wrong: int = 0) -> int:
    """Advertises room for the module's bytes; returns its address."""
    key, address = victim.peer.memory(bytes(ROOM))
    victim.talk.put(Mid.SINK_AVAIL, SINK.pack(length, key ^ wrong, address, 0))
    return address


def is_over(victim: Victim) -> None:
    """This connection was aborted."""
    number, _data = victim.stream.end()
    check(number in ENDS, f"reading has ended with errno {number}")


def written(victim: Victim) -> int:
    """The number of bytes that the module reports as written."""
    return int.from_bytes(victim.talk.expect(Mid.RDMA_WR_COMPL).rest, "big")


def fills(victim: Victim, address: int) -> None:
    """The module's program writes, and all bytes go to that room."""
    writer = Writer(victim.stream, PATTERN[:ROOM])
    check(written(victim) == ROOM, "all of it is reported")
    check(victim.peer.look(address, ROOM) == PATTERN[:ROOM], "the bytes")
    writer.returns(ROOM)


@case("writing: bytes are written to the peer's room")
def write(scene: Scene) -> None:
    """The successful case, for comparison."""
    with lending(scene) as victim:
        wants_room(victim)
        address = offer(victim)
        fills(victim, address)
        scene.moved(sinks_received=1, written_bytes_sent=ROOM, violations=0)


@case("writing: room with a key that is none")
def wrong_key(scene: Scene) -> None:
    """The device refuses the Write, which ends the connection."""
    with lending(scene) as victim:
        wants_room(victim)
        offer(victim, wrong=BAD_KEY)
        Writer(victim.stream, PATTERN[:ROOM]).end()
        scene.is_dead(victim)
        scene.moved(link_failures=1, violations=0)


@case("writing: the peer vanishes while it is written to")
def vanish(scene: Scene) -> None:
    """The transport gives up after its retries."""
    with lending(scene) as victim:
        wants_room(victim)
        offer(victim)
        victim.peer.vanish()
        Writer(victim.stream, PATTERN[:ROOM]).end()
        is_over(victim)
        scene.moved(link_failures=1, violations=0)


@case("writing: room is offered and taken back in a storm")
def storm(scene: Scene) -> None:
    """Each recalled one is answered once; no program writes."""
    with lending(scene) as victim:
        wants_room(victim)
        for _ in range(60):
            offer(victim)
            victim.talk.put(Mid.SINK_AVAIL_CANCEL)
            victim.talk.expect(Mid.SINK_CANCEL_ACK)
        scene.moved(sinks_received=60, violations=0)
        scene.works(victim)


@case("writing: room is taken back while it is written to")
def taken_back(scene: Scene) -> None:
    """Written bytes are reported, or nothing was written; the rest comes on another path."""
    with lending(scene) as victim:
        wants_room(victim)
        address = offer(victim)
        writer = Writer(victim.stream, PATTERN[:ROOM])
        victim.talk.put(Mid.SINK_AVAIL_CANCEL)
        answer = victim.talk.receive()
        check(
            answer.mid in (Mid.RDMA_WR_COMPL, Mid.SINK_CANCEL_ACK),
            f"MID {answer.mid:#x} is no answer",
        )
        left = ROOM
        if answer.mid == Mid.RDMA_WR_COMPL:
            count = int.from_bytes(answer.rest, "big")
            check(victim.peer.look(address, ROOM)[:count] == PATTERN[:count], "the bytes")
            left -= count
        if left:
            # Then they are advertised for reading.
            lent, inline = lent_to_read(victim)
            check(lent.length == left, f"{lent.length} bytes are offered, not {left}")
            complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        writer.returns(ROOM)
        scene.moved(violations=0)


def _refused(name: str, send: Callable[[Victim, int, int], object]) -> None:
    @case(f"writing: {name}")
    def run(scene: Scene) -> None:
        with lending(scene) as victim:
            wants_room(victim)
            send(victim, *victim.peer.memory(bytes(ROOM)))
            scene.is_violation(victim)


def _many(victim: Victim, key: int, address: int) -> None:
    for _ in range(5):
        victim.talk.send(Mid.SINK_AVAIL, SINK.pack(ROOM, key, address, 0))


def _one(length: int, where: int | None = None) -> Callable[[Victim, int, int], object]:
    return lambda victim, key, address: victim.talk.send(
        Mid.SINK_AVAIL, SINK.pack(length, key, address if where is None else where, 0)
    )


_refused("more room than was allowed", _many)
_refused("no room", _one(0))
_refused("less room than for a message", _one(100))
_refused("room beyond the end of all addresses", _one(ROOM, 2**64 - 100))


@case("writing: room that the peer offers and DisConn after it")
def room_and_end(scene: Scene) -> None:
    """The peer's direction has ended, but ours continues."""
    with lending(scene) as victim:
        wants_room(victim)
        address = offer(victim)
        victim.talk.put(Mid.DIS_CONN)
        scene.ends_with(victim, 0)
        fills(victim, address)


@case("writing: the peer asks for the end while it owes an answer")
def request_of_the_end(scene: Scene) -> None:
    """A DREQ instead of the message for which a writer waits."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent_to_read(victim)
        victim.peer.dreq()
        victim.peer.expect("drep")
        _count, number = writer.end()
        check(number in ENDS, f"errno {number}")


# Bytes that are read in parts.


@case("lending: RdmaRdCompl in parts that are all of it")
def parts(scene: Scene) -> None:
    """Only their sum matters."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent, inline = lent_to_read(victim)
        left = lent.length - inline
        for part in (1, 5000, left - 5001):
            complete(victim, Mid.RDMA_RD_COMPL, part)
        writer.returns(len(PATTERN))
        scene.moved(answers_stale=0, violations=0)


# Programs that are killed while their memory is advertised, and a peer that does not answer.


def _killed(victim: Victim, call: Callable[[], object], offered: Callable[[], object]) -> None:
    """A process that makes the call and is killed once its memory is advertised."""
    victim.stream.sock.setblocking(True)
    child = os.fork()
    if child == 0:
        call()
        os._exit(0)
    try:
        offered()
    finally:
        os.kill(child, signal.SIGKILL)
        gone = Scene.comes(lambda: os.waitpid(child, os.WNOHANG)[0] == child, PATIENCE)
        check(gone, "the killed process is still there")
        victim.stream.sock.setblocking(False)


@case("lending: a writer is killed, and the peer says nothing")
def killed_writer(scene: Scene) -> None:
    """After the peer's time limit the process has ended, and so has the connection."""
    with lending(scene) as victim:
        _killed(victim, lambda: victim.stream.sock.send(PATTERN), lambda: lent_to_read(victim))
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        is_over(victim)
        scene.moved(resets_sent=1, violations=0, cancels_by_kill=1)


@case("lending: a reader is killed, and the peer says nothing")
def killed_reader(scene: Scene) -> None:
    """As before, with advertised room."""
    with lending(scene) as victim:
        pipelined(victim)
        victim.talk.put(Mid.DATA, b"go")
        check(victim.stream.receive(2) == b"go", "the first bytes")
        _killed(
            victim,
            lambda: victim.stream.sock.recv(ROOM),
            lambda: victim.talk.expect(Mid.SINK_AVAIL),
        )
        victim.talk.expect(Mid.SINK_AVAIL_CANCEL)
        is_over(victim)
        scene.moved(resets_sent=1, violations=0, cancels_by_kill=1)
