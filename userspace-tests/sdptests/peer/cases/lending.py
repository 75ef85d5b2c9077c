# SPDX-License-Identifier: MIT
"""Advertised memory: attacks with keys, lengths and silence.

The other side is a program that waits in send() or recv() while its pages are advertised.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sdptests.peer.conversation import PAYLOAD
from sdptests.peer.peer import Status
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.waiting import Reader, Waiting, Writer
from sdptests.peer.wire import Mid
from sdptests.twohosts.failure import Failure, check

THRESHOLD = 4096
SRC = struct.Struct(">IIQ")
SINK = struct.Struct(">IIQI")
# A ModeChange by a source: to Pipelined mode.
PIPELINED = bytes([0x20, 0, 0, 0])
PATTERN = bytes(range(251)) * 400
ROOM = 64 << 10
# The errors that a program gets after its connection was aborted.
ENDS = (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE)


@dataclass(frozen=True)
class Lent:
    """Advertised memory of the module's program."""

    length: int
    key: int
    address: int


@contextlib.contextmanager
def lending(scene: Scene) -> Iterator[Victim]:
    """A connection with zero copy in both directions."""
    with scene.knob("zcopy_thresh", THRESHOLD), scene.knob("zcopy_cache", 1):
        yield scene.establish(hello=scene.hello(max_adverts=4))


def lent_to_read(victim: Victim) -> tuple[Lent, int]:
    """The module's program advertises bytes; returns how many came inline."""
    message = victim.talk.receive()
    while message.mid == Mid.MODE_CHANGE:
        # Several advertisements may be outstanding.
        message = victim.talk.receive()
    check(message.mid == Mid.SRC_AVAIL, f"MID {message.mid:#x} instead of SRC_AVAIL")
    return Lent(*SRC.unpack_from(message.rest)), len(message.payload)


def lent_to_write(victim: Victim) -> Lent:
    """The module's program advertises room."""
    length, key, address, _discards = SINK.unpack_from(victim.talk.expect(Mid.SINK_AVAIL).rest)
    return Lent(length, key, address)


def pipelined(victim: Victim) -> None:
    """Switches our direction to the mode in which the other side may advertise room."""
    victim.talk.put(Mid.MODE_CHANGE, PIPELINED)


def early_reader(victim: Victim) -> tuple[Reader, Lent]:
    """A waiting reader, and the room that it has advertised."""
    pipelined(victim)
    # The reader must come after the change of the mode; it waits for these bytes first.
    victim.talk.put(Mid.DATA, b"go")
    check(victim.stream.receive(2) == b"go", "the first bytes")
    reader = Reader(victim.stream, ROOM)
    return reader, lent_to_write(victim)


def short_of_time(victim: Victim, seconds: int = 1) -> None:
    """Limits the wait of the module's readers."""
    limit = struct.pack("ll", seconds, 0)
    victim.stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def refused(victim: Victim, number: int) -> None:
    """An RDMA operation was refused by the other side's device."""
    status = victim.peer.completion(number)
    check(status == Status.REM_ACCESS_ERR, f"the operation has ended with {status.name}")


def complete(victim: Victim, mid: int, length: int) -> None:
    """RdmaRdCompl or RdmaWrCompl."""
    victim.talk.put(mid, length.to_bytes(4, "big"))


# The peer advertises bytes.


@case("lending: bytes are read from the peer's memory")
def read(scene: Scene) -> None:
    """The successful case, for comparison."""
    with lending(scene) as victim:
        reader = Reader(victim.stream, 50000, socket.MSG_WAITALL)
        key, address = victim.peer.memory(PATTERN[:50000])
        victim.talk.put(Mid.SRC_AVAIL, SRC.pack(50000, key, address) + PATTERN[:1])
        told = victim.talk.expect(Mid.RDMA_RD_COMPL)
        check(int.from_bytes(told.rest, "big") == 49999, "all of it is reported")
        reader.returns(50000)
        check(reader.data == PATTERN[:50000], "the bytes")


@case("lending: SrcAvail with a key that is none")
def read_wrong_key(scene: Scene) -> None:
    """The device refuses the Read, which ends the connection."""
    with lending(scene) as victim:
        reader = Reader(victim.stream, 50000, socket.MSG_WAITALL)
        key, address = victim.peer.memory(PATTERN[:50000])
        # `send`, not `put`: the refusal may come before the completion of the message.
        victim.talk.await_credits(PAYLOAD)
        victim.talk.send(
            Mid.SRC_AVAIL, SRC.pack(50000, key ^ 0x55AA00, address) + PATTERN[:1]
        )
        count, number = reader.end()
        check(count <= 1 and (count == 1 or number in ENDS), f"{count} bytes, errno {number}")
        if count == 1:
            scene.is_dead(victim)
        scene.moved(link_failures=1, violations=0)


@case("lending: the peer vanishes while it is read")
def read_of_the_vanished(scene: Scene) -> None:
    """The transport gives up after its retries."""
    for _ in range(20):
        with lending(scene) as victim:
            offers = scene.stats()["adverts_received"]
            reader = Reader(victim.stream, 50000, socket.MSG_WAITALL)
            key, address = victim.peer.memory(PATTERN[:50000])
            victim.talk.send(Mid.SRC_AVAIL, SRC.pack(50000, key, address) + PATTERN[:1])
            victim.peer.vanish()
            if scene.comes(lambda before=offers: scene.stats()["adverts_received"] > before, 2):
                reader.end()
                scene.moved(violations=0)
                return
            # The message was not sent yet and is lost with the queue pair, so only this ends the
            # call.
            victim.stream.sock.shutdown(socket.SHUT_RDWR)
            reader.end()
    raise Failure("no offer has ever left before its peer")


@case("lending: offers and cancels in a storm")
def cancel_storm(scene: Scene) -> None:
    """Each recalled advertisement is answered once; no program reads."""
    with lending(scene) as victim:
        key, address = victim.peer.memory(PATTERN[:9000])
        for _ in range(5):
            # Each inline byte occupies a buffer.
            for turn in range(20):
                advert = SRC.pack(9000, key, address)
                victim.talk.put(Mid.SRC_AVAIL, advert + bytes([turn]))
                victim.talk.put(Mid.SRC_AVAIL_CANCEL)
                victim.talk.expect(Mid.SEND_SM)
            check(victim.stream.receive(20) == bytes(range(20)), "the inline bytes")
        scene.works(victim)


@case("lending: more offers than were allowed")
def too_many_offers(scene: Scene) -> None:
    """The module's MaxAdverts is 4. On a slow machine the first are declined before the last come;
    then more are sent."""
    with lending(scene) as victim:
        pipelined(victim)
        key, address = victim.peer.memory(PATTERN[:9000])
        before = scene.stats()["violations"]
        for _ in range(10):
            for _ in range(4 + 3):
                victim.talk.send(Mid.SRC_AVAIL, SRC.pack(9000, key, address))
            if scene.comes(lambda: scene.stats()["violations"] > before, 2):
                break
        scene.is_violation(victim)


# The module's program advertises bytes.


@case("lending: bytes are read by the peer, and never again")
def lend(scene: Scene) -> None:
    """The key of released memory is invalid."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent, inline = lent_to_read(victim)
        check(lent.length == len(PATTERN), f"{lent.length} bytes are offered")
        number = victim.peer.read(lent.key, lent.address + inline, 1000)
        check(victim.peer.completion(number) == Status.SUCCESS, "what is lent can be read")
        complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        writer.returns(len(PATTERN))
        refused(victim, victim.peer.read(lent.key, lent.address, 1000))


def _tells_nothing(offers: list[Lent]) -> None:
    """No address is one of the kernel's, and none reveals the next one."""
    for lent in offers:
        check(lent.address < 1 << 63, f"{lent.address:#x} is an address of the kernel")
    pages = [lent.address >> 12 for lent in offers]
    check(len(set(pages)) == len(pages), f"addresses come again: {offers}")
    near = [abs(one - other) for one, other in zip(pages, pages[1:], strict=False)]
    check(min(near) > 256, f"one address is near the next: {offers}")
    places = {lent.address % 4096 for lent in offers}
    check(len(places) == 1, f"one buffer lies in different places of its pages: {offers}")


@case("lending: offered bytes do not tell where they lie")
def lend_in_disguise(scene: Scene) -> None:
    """The same buffer, many times."""
    with lending(scene) as victim:
        offers = []
        for _ in range(4):
            writer = Writer(victim.stream, PATTERN)
            lent, inline = lent_to_read(victim)
            number = victim.peer.read(lent.key, lent.address + inline, lent.length - inline)
            check(victim.peer.completion(number) == Status.SUCCESS, "what is lent can be read")
            complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
            writer.returns(len(PATTERN))
            offers.append(lent)
        _tells_nothing(offers)


@case("lending: offered room does not tell where it lies")
def room_in_disguise(scene: Scene) -> None:
    """The same buffer, many times."""
    with lending(scene) as victim:
        pipelined(victim)
        victim.talk.put(Mid.DATA, b"go")
        check(victim.stream.receive(2) == b"go", "the first bytes")
        offers, room = [], bytearray(ROOM)
        for _ in range(4):
            reader = Waiting(victim.stream, lambda: victim.stream.sock.recv_into(room))
            lent = lent_to_write(victim)
            number = victim.peer.write(lent.key, lent.address, PATTERN[:5000])
            check(victim.peer.completion(number) == Status.SUCCESS, "room can be written")
            complete(victim, Mid.RDMA_WR_COMPL, 5000)
            reader.returns(5000)
            check(room[:5000] == PATTERN[:5000], "the bytes")
            offers.append(lent)
        _tells_nothing(offers)


def _lent_again(scene: Scene, victim: Victim) -> Lent:
    """Memory that the peer has read as often as it takes until the translation cache has it."""
    hits = scene.stats()["cache_hits"]
    for _ in range(5):
        writer = Writer(victim.stream, PATTERN)
        lent, inline = lent_to_read(victim)
        number = victim.peer.read(lent.key, lent.address + inline, 1000)
        check(victim.peer.completion(number) == Status.SUCCESS, "what is lent can be read")
        complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        writer.returns(len(PATTERN))
        if scene.stats()["cache_hits"] > hits:
            return lent
    raise Failure("the cache has nothing")


@case("lending: memory in the cache is not read or written by an old key")
def cached_is_no_gift(scene: Scene) -> None:
    """Pages stay pinned, and no key is valid."""
    with lending(scene) as victim:
        lent = _lent_again(scene, victim)
        refused(victim, victim.peer.read(lent.key, lent.address, 1000))
    with lending(scene) as victim:
        lent = _lent_again(scene, victim)
        refused(victim, victim.peer.write(lent.key, lent.address, b"graffiti"))


@case("lending: room in the cache is not written by an old key")
def cached_room_is_no_gift(scene: Scene) -> None:
    """The room of one reader, used again and again."""
    with lending(scene) as victim:
        pipelined(victim)
        victim.talk.put(Mid.DATA, b"go")
        check(victim.stream.receive(2) == b"go", "the first bytes")
        hits, room = scene.stats()["cache_hits"], bytearray(ROOM)
        for _ in range(5):
            reader = Waiting(victim.stream, lambda: victim.stream.sock.recv_into(room))
            lent = lent_to_write(victim)
            number = victim.peer.write(lent.key, lent.address, PATTERN[:5000])
            check(victim.peer.completion(number) == Status.SUCCESS, "room can be written")
            complete(victim, Mid.RDMA_WR_COMPL, 5000)
            reader.returns(5000)
        check(scene.stats()["cache_hits"] > hits, "the cache has nothing")
        refused(victim, victim.peer.write(lent.key, lent.address, b"graffiti"))
        check(room[:5000] == PATTERN[:5000], "the bytes")


@case("lending: memory that is offered to be read cannot be written")
def lend_is_no_gift(scene: Scene) -> None:
    """The memory may be a program's text."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent, _inline = lent_to_read(victim)
        refused(victim, victim.peer.write(lent.key, lent.address, b"graffiti"))
        writer.end()


@case("lending: nobody reads beyond what is offered")
def lend_ends(scene: Scene) -> None:
    """No byte can be read."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent, _inline = lent_to_read(victim)
        refused(victim, victim.peer.read(lent.key, lent.address + lent.length - 9, 10))
        writer.end()


def _wrong_report(name: str, *lengths: Callable[[int], int]) -> None:
    @case(f"lending: RdmaRdCompl {name}")
    def run(scene: Scene) -> None:
        with lending(scene) as victim:
            writer = Writer(victim.stream, PATTERN)
            lent, inline = lent_to_read(victim)
            for length in lengths:
                report = length(lent.length - inline).to_bytes(4, "big")
                victim.talk.send(Mid.RDMA_RD_COMPL, report)
            victim.peer.expect("dreq")
            victim.peer.drep()
            writer.end()
            scene.moved(violations=1, resets_sent=1)


_wrong_report("of nothing", lambda _left: 0)
_wrong_report("of one byte more", lambda left: left + 1)
_wrong_report("of 2^32-1 bytes", lambda _left: 2**32 - 1)
_wrong_report("in parts that overlap", lambda left: left - 10, lambda _left: 11)


@case("lending: RdmaRdCompl twice for the same bytes")
def reported_twice(scene: Scene) -> None:
    """The second is about an ended advertisement, and is ignored."""
    with lending(scene) as victim:
        writer = Writer(victim.stream, PATTERN)
        lent, inline = lent_to_read(victim)
        complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        writer.returns(len(PATTERN))
        scene.moved(answers_stale=1, violations=0)


@case("lending: an offer that is never answered")
def silence(scene: Scene) -> None:
    """It is recalled after a second. Without an answer the call waits, as TCP's does for a peer that does not
    read, and TCP_USER_TIMEOUT limits the wait.
    """
    with lending(scene) as victim:
        victim.stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
        begun = time.monotonic()
        writer = Writer(victim.stream, PATTERN)
        lent_to_read(victim)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        _count, number = writer.end()
        check(number in (*ENDS, 0), f"errno {number}")
        took = time.monotonic() - begun
        check(took >= 9, f"the connection ended after {took:.1f} s")
        scene.moved(resets_sent=0, violations=0)


# The module's program advertises room.


@case("lending: bytes are written by the peer, and never again")
def write(scene: Scene) -> None:
    """The key of released room is invalid."""
    with lending(scene) as victim:
        reader, room = early_reader(victim)
        check(room.length == ROOM, f"room for {room.length} bytes")
        number = victim.peer.write(room.key, room.address, PATTERN[:5000])
        check(victim.peer.completion(number) == Status.SUCCESS, "room can be written")
        complete(victim, Mid.RDMA_WR_COMPL, 5000)
        reader.returns(5000)
        check(reader.data[:5000] == PATTERN[:5000], "the bytes")
        refused(victim, victim.peer.write(room.key, room.address, b"graffiti"))
        check(reader.data[:8] == PATTERN[:8], "the reader's memory is as it was")


@case("lending: room is not for reading")
def write_only(scene: Scene) -> None:
    """The old contents are not readable."""
    with lending(scene) as victim:
        reader, room = early_reader(victim)
        refused(victim, victim.peer.read(room.key, room.address, 100))
        reader.fails(*ENDS)


@case("lending: nobody writes beyond the room")
def write_beyond(scene: Scene) -> None:
    """No byte can be read."""
    with lending(scene) as victim:
        reader, room = early_reader(victim)
        refused(victim, victim.peer.write(room.key, room.address + room.length - 5, b"graffiti"))
        reader.fails(*ENDS)


def _wrong_completion(name: str, length: int) -> None:
    @case(f"lending: RdmaWrCompl {name}")
    def run(scene: Scene) -> None:
        with lending(scene) as victim:
            reader, _room = early_reader(victim)
            victim.talk.send(Mid.RDMA_WR_COMPL, length.to_bytes(4, "big"))
            victim.peer.expect("dreq")
            victim.peer.drep()
            reader.fails(*ENDS)
            scene.moved(violations=1, resets_sent=1)


_wrong_completion("of nothing", 0)
_wrong_completion("of one byte more than there is room", ROOM + 1)
_wrong_completion("of 2^32-1 bytes", 2**32 - 1)


@case("lending: RdmaWrCompl without an offer")
def completion_of_nothing(scene: Scene) -> None:
    """There was no request."""
    with lending(scene) as victim:
        pipelined(victim)
        victim.talk.send(Mid.RDMA_WR_COMPL, (5000).to_bytes(4, "big"))
        scene.is_violation(victim)


@case("lending: RdmaWrCompl twice for one offer")
def completed_twice(scene: Scene) -> None:
    """The second finds no advertisement."""
    with lending(scene) as victim:
        reader, _room = early_reader(victim)
        victim.talk.send(Mid.RDMA_WR_COMPL, (5000).to_bytes(4, "big"))
        victim.talk.send(Mid.RDMA_WR_COMPL, (5000).to_bytes(4, "big"))
        reader.end()
        scene.moved(violations=1, resets_sent=1)


@case("lending: room that is taken back and never answered")
def cancel_unanswered(scene: Scene) -> None:
    """The reader's timeout has expired; the missing answer ends the connection, not the reader."""
    with lending(scene) as victim:
        short_of_time(victim)
        reader, room = early_reader(victim)
        victim.talk.expect(Mid.SINK_AVAIL_CANCEL)
        # It may be written to until the connection ends; no program reads it.
        victim.peer.write(room.key, room.address, b"late")
        reader.fails(errno.EAGAIN, *ENDS)
        scene.moved(resets_sent=1, violations=0)


@case("lending: room that is taken back and given back")
def cancel_answered(scene: Scene) -> None:
    """An answered cancel has no other effect."""
    with lending(scene) as victim:
        short_of_time(victim)
        reader, room = early_reader(victim)
        victim.talk.expect(Mid.SINK_AVAIL_CANCEL)
        victim.talk.put(Mid.SINK_CANCEL_ACK)
        reader.fails(errno.EAGAIN)
        victim.stream.sock.setblocking(False)
        victim.talk.put(Mid.DATA, b"on")
        check(victim.stream.receive(2) == b"on", "it goes on")
        refused(victim, victim.peer.write(room.key, room.address, b"graffiti"))


@case("lending: the peer vanishes with a program's room")
def vanish_with_room(scene: Scene) -> None:
    """Only the reader's own timeout ends the wait."""
    with lending(scene) as victim:
        short_of_time(victim)
        reader, _room = early_reader(victim)
        victim.peer.vanish()
        reader.fails(errno.EAGAIN, *ENDS)
        scene.moved(violations=0)


@case("lending: an offer of ours crosses one of the peer")
def crossing(scene: Scene) -> None:
    """A SrcAvail is ignored while room is advertised; the bytes are then written."""
    with lending(scene) as victim:
        reader, room = early_reader(victim)
        key, address = victim.peer.memory(PATTERN[:9000])
        victim.talk.put(Mid.SRC_AVAIL, SRC.pack(9000, key, address))
        victim.peer.write(room.key, room.address, PATTERN[:9000])
        complete(victim, Mid.RDMA_WR_COMPL, 9000)
        reader.returns(9000)
        check(reader.data[:9000] == PATTERN[:9000], "the bytes")
