# SPDX-License-Identifier: MIT
"""Random bytes from a seed, valid often enough to reach later states.

SDP_SEED chooses the seed and SDP_ROUNDS the number of connections; SOAK=1 means many.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket

from sdptests.peer.conversation import Conversation
from sdptests.peer.peer import Rejected
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.wire import EXTENSIONS, HELLO_LENGTH, Hello, Mid
from sdptests.twohosts.failure import Failure, check

SEED = int(os.environ.get("SDP_SEED", "27"))
ROUNDS = int(os.environ.get("SDP_ROUNDS", "2000" if os.environ.get("SOAK") == "1" else "40"))

# Values at limits.
EDGES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 36, 37, 255, 256, 8192, 32784, 65535, 65536)
EDGES_32 = (*EDGES, 2**24, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)


def _number(dice: random.Random, right: int, edges: tuple[int, ...], limit: int) -> int:
    """Mostly valid, sometimes nearly valid, sometimes any."""
    match dice.choices(("right", "near", "edge", "any"), (24, 2, 2, 1))[0]:
        case "right":
            return right
        case "near":
            return (right + dice.choice((-2, -1, 1, 2))) % limit
        case "edge":
            return dice.choice(edges) % limit
        case _:
            return dice.randrange(limit)


def _message(dice: random.Random, talk: Conversation) -> bytes:
    """The next message, possibly modified."""
    mid = dice.choice((Mid.DATA, Mid.DATA, *Mid, dice.randrange(256)))
    size = EXTENSIONS.get(Mid(mid), 0) if mid in set(Mid) else 0
    rest = dice.randbytes(_number(dice, size, EDGES, 4096) % 4096)
    if mid in (Mid.DATA, Mid.SRC_AVAIL) or dice.random() < 0.1:
        rest += dice.randbytes(dice.choice((0, 1, 6, 100, 4000)))
    if mid == Mid.SRC_AVAIL and dice.random() < 0.8:
        rest = (
            (len(rest) + dice.choice((-17, -16, -15, 0, 500))).to_bytes(4, "big", signed=False)
            + rest[4:]
            if len(rest) > 17
            else rest
        )
    if mid == Mid.MODE_CHANGE and dice.random() < 0.8:
        rest = bytes([dice.choice((0x00, 0x90, 0x20, 0x10, 0x80, 0xA0)), 0, 0, 0])
    raw = talk.message(
        mid,
        rest,
        mseq=_number(dice, talk.mseq + 1, EDGES_32, 2**32),
        mseq_ack=_number(dice, talk.received, EDGES_32, 2**32),
        bufs=_number(dice, talk.posted, EDGES, 2**16),
        flags=_number(dice, dice.choice((0, 0, 0, 0, 1, 2, 3, 4)), EDGES, 2**8),
        length=_number(dice, 16 + len(rest), EDGES_32, 2**32),
    )
    if dice.random() < 0.02:
        raw = raw[: dice.randrange(len(raw) + 1)]
    if dice.random() < 0.02:
        spot = dice.randrange(max(1, len(raw)))
        raw = raw[:spot] + bytes([dice.randrange(256)]) + raw[spot + 1 :]
    return raw


def _program(dice: random.Random, victim: Victim) -> None:
    """Calls of the module's program meanwhile."""
    with contextlib.suppress(OSError):
        match dice.randrange(6):
            case 0:
                victim.stream.sock.send(dice.randbytes(dice.choice((1, 100, 20000))))
            case 1 | 2:
                victim.stream.sock.recv(dice.choice((1, 100, 65536)))
            case 3:
                if dice.random() < 0.2:
                    victim.stream.sock.shutdown(dice.choice((socket.SHUT_RD, socket.SHUT_WR)))
            case 4:
                victim.stream.sock.send(b"!", socket.MSG_OOB)
            case _:
                pass


def _attack(dice: random.Random, victim: Victim) -> None:
    talk, peer = victim.talk, victim.peer
    for _ in range(dice.randrange(1, 25)):
        # Numbers and credits, as far as they can be counted.
        with contextlib.suppress(Failure, ValueError):
            talk.take_in_all()
        try:
            peer.send(_message(dice, talk))
        except OSError:
            # The queue pair has ended.
            break
        if dice.random() < 0.05:
            peer.write()
        _program(dice, victim)
        if peer.take("dreq"):
            peer.drep()
            break
    match dice.randrange(5):
        case 0:
            peer.vanish()
        case 1:
            with contextlib.suppress(OSError):
                peer.dreq()
        case 2:
            victim.stream.close()
        case _:
            pass
    first, second = dice.sample((peer.close, victim.stream.close), 2)
    first()
    second()


@case("fuzz: random messages, both sides")
def messages(scene: Scene) -> None:
    """Only that connection is affected."""
    with scene.knob("close_timeout_ms", 1000):
        for number in range(ROUNDS):
            dice = random.Random(SEED * 2**20 + number)
            try:
                passive = dice.random() < 0.7
                victim = scene.establish() if passive else scene.answer()
                _attack(dice, victim)
                scene.unharmed()
            except (Failure, OSError) as error:
                raise Failure(f"SDP_SEED={SEED} round {number}: {error}") from error


@case("fuzz: random Hellos")
def hellos(scene: Scene) -> None:
    """Each gets an answer, positive or negative."""
    for number in range(ROUNDS):
        dice = random.Random(SEED * 2**20 + number)
        raw = bytearray(scene.hello().pack())
        for _ in range(dice.choice((0, 1, 1, 2, 4, 92))):
            raw[dice.randrange(HELLO_LENGTH)] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22))
        with scene.request(bytes(raw), posted=4, receive_size=4096) as peer:
            answer = peer.expect("rep", "rej")
            if answer.kind == "rej":
                check(answer.number == Rejected.CONSUMER_DEFINED, f"the reason is {answer.number}")
            else:
                # The Hello must be a possible one.
                hello = Hello.parse(bytes(raw))
                good = scene.hello()
                check((hello.src, hello.dst) == (good.src, good.dst), f"{hello} was accepted")
    scene.unharmed()
