# SPDX-License-Identifier: MIT
"""Random answers to memory that programs have offered, from a seed: true, nearly true, late, twice, never.

Threads of the module's program write and read without copies meanwhile, with time limits and signals.
SDP_SEED, SDP_ROUNDS and SOAK=1 are as for `fuzz`.
"""

from __future__ import annotations

import contextlib
import errno
import random
import signal
import socket
import struct
import threading

from sdptests.peer.cases.fuzz import ROUNDS, SEED
from sdptests.peer.cases.lending import PATTERN, PIPELINED, SINK, SRC, Lent, lending
from sdptests.peer.peer import PATIENCE
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.wire import Mid
from sdptests.twohosts.failure import Failure, check

ROOM = 64 << 10
# They end a call, and the next one may succeed.
PASSING = (errno.EAGAIN, errno.EINTR, errno.ENOBUFS)


class _Program:
    """Two threads that use a socket until an error."""

    def __init__(self, dice: random.Random, victim: Victim) -> None:
        self._sock = victim.stream.sock
        self._sock.setblocking(True)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            limit = struct.pack("ll", 0, dice.choice((0, 0, 30_000)))
            self._sock.setsockopt(socket.SOL_SOCKET, option, limit)
        if dice.random() < 0.3:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, dice.choice((4096, 400_000)))
        self._over = False
        works = ((self._write, dice.getrandbits(32)), (self._read, dice.getrandbits(32)))
        # Each thread has dice of its own, so that a seed says what it does.
        self._threads = [
            threading.Thread(target=work, args=(random.Random(seed),), daemon=True)
            for work, seed in works
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, dice: random.Random) -> None:
        while not self._over:
            parts = [PATTERN[: dice.choice((100, 5000, 40_000, len(PATTERN)))]]
            if dice.random() < 0.5:
                # Its end is too short to be offered.
                parts.append(PATTERN[: dice.randrange(1, 4000)])
            try:
                self._sock.sendmsg(parts)
            except OSError as error:
                if error.errno not in PASSING:
                    return

    def _read(self, dice: random.Random) -> None:
        room = bytearray(ROOM)
        while not self._over:
            flags = dice.choice((0, socket.MSG_WAITALL, socket.MSG_WAITALL))
            try:
                if not self._sock.recv_into(room, dice.choice((100, 9000, ROOM)), flags):
                    return
            except OSError as error:
                if error.errno not in PASSING:
                    return

    def poke(self, dice: random.Random) -> None:
        """Interrupts a call."""
        thread = dice.choice(self._threads)
        if thread.ident and thread.is_alive():
            signal.pthread_kill(thread.ident, signal.SIGUSR1)

    def end(self) -> None:
        """Ends the calls. None may hang."""
        self._over = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
            check(not thread.is_alive(), "a call has not ended")


class _Liar:
    """A peer that knows all that it was offered, and says anything about it."""

    def __init__(self, dice: random.Random, victim: Victim) -> None:
        self._dice = dice
        self._peer, self._talk = victim.peer, victim.talk
        self._key, self._address = self._peer.memory(PATTERN[:ROOM])
        self._to_read: list[Lent] = []
        self._to_write: list[Lent] = []
        self._talk.generous = dice.random() < 0.8

    def learn(self) -> None:
        """Takes in what has come."""
        self._talk.take_in_all()
        while not self._talk.inbox_is_empty():
            message = self._talk.receive()
            if message.mid == Mid.SRC_AVAIL:
                self._to_read.append(Lent(*SRC.unpack_from(message.rest)))
            elif message.mid == Mid.SINK_AVAIL:
                self._to_write.append(Lent(*SINK.unpack_from(message.rest)[:3]))

    def _one(self, offers: list[Lent]) -> Lent | None:
        """Mostly the newest."""
        if not offers:
            return None
        return offers[-1] if self._dice.random() < 0.8 else self._dice.choice(offers)

    def _length(self, offers: list[Lent]) -> bytes:
        whole = (self._one(offers) or Lent(0, 0, 0)).length
        part = self._dice.randrange(whole + 1)
        some = (whole, whole, part, part, 1, 0, whole + 1, 2**32 - 1)
        return self._dice.choice(some).to_bytes(4, "big")

    def _own(self) -> tuple[int, int, int]:
        """Length, key and address of memory, seldom of another connection."""
        length = self._dice.choice((1, 4096, 9000, ROOM))
        if self._dice.random() < 0.03:
            return length, self._key ^ 1, self._address
        return length, self._key, self._address

    def speak(self) -> None:
        """Sends a message about memory, or some bytes."""
        dice = self._dice
        match dice.randrange(14):
            case 0 | 1 | 2:
                self._talk.send(Mid.RDMA_RD_COMPL, self._length(self._to_read))
            case 3 | 4:
                self._talk.send(Mid.SEND_SM)
            case 5 | 6:
                self._talk.send(Mid.RDMA_WR_COMPL, self._length(self._to_write))
            case 7:
                inline = PATTERN[: dice.choice((0, 1, 1, 700))]
                self._talk.send(Mid.SRC_AVAIL, SRC.pack(*self._own()) + inline)
            case 8:
                length, key, address = self._own()
                self._talk.send(Mid.SINK_AVAIL, SINK.pack(length, key, address, dice.randrange(3)))
            case 9:
                self._talk.send(dice.choice((Mid.SRC_AVAIL_CANCEL, Mid.SINK_AVAIL_CANCEL)))
            case 10:
                self._talk.send(Mid.SINK_CANCEL_ACK)
            case 11:
                mode = PIPELINED if dice.random() < 0.8 else bytes([dice.choice((0x10, 0x90)), 0, 0, 0])
                self._talk.send(Mid.MODE_CHANGE, mode)
            case 12:
                self._talk.send(Mid.DATA, PATTERN[: dice.choice((0, 1, 1000, self._talk.room))])
            case _:
                self._talk.grant(dice.randrange(3))
                self._talk.send()

    def touch(self) -> None:
        """Reads or writes memory that was offered, or was offered once."""
        dice = self._dice
        if (lent := self._one(self._to_read)) and dice.random() < 0.7:
            at = dice.randrange(lent.length)
            self._peer.read(lent.key, lent.address + at, dice.choice((1, lent.length - at)))
        elif lent := self._one(self._to_write):
            self._peer.write(lent.key, lent.address, PATTERN[: dice.randrange(1, 9000)])


def _attack(dice: random.Random, victim: Victim) -> None:
    program = _Program(dice, victim)
    liar = _Liar(dice, victim)
    try:
        for _ in range(dice.randrange(1, 60)):
            # Numbers and credits, as far as they can be counted.
            with contextlib.suppress(Failure, ValueError):
                liar.learn()
            try:
                liar.touch() if dice.random() < 0.2 else liar.speak()
            except OSError:
                # The queue pair has ended.
                break
            if dice.random() < 0.2:
                program.poke(dice)
            if victim.peer.take("dreq"):
                victim.peer.drep()
                break
            if dice.random() < 0.5:
                threading.Event().wait(dice.choice((0.001, 0.01, 0.1)))
        match dice.randrange(4):
            case 0:
                victim.peer.vanish()
            case 1:
                with contextlib.suppress(OSError):
                    victim.peer.dreq()
            case _:
                pass
    finally:
        program.end()
    first, second = dice.sample((victim.peer.close, victim.stream.close), 2)
    first()
    second()


@case("fuzz: random answers to memory that is lent")
def answers(scene: Scene) -> None:
    """Only that connection is affected, and its calls end."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with scene.knob("close_timeout_ms", 1000):
            for number in range(ROUNDS):
                dice = random.Random(SEED * 2**20 + number)
                try:
                    with lending(scene) as victim:
                        _attack(dice, victim)
                    scene.unharmed()
                except (Failure, OSError) as error:
                    raise Failure(f"SDP_SEED={SEED} round {number}: {error}") from error
    finally:
        signal.signal(signal.SIGUSR1, before)
