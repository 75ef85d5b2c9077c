# SPDX-License-Identifier: MIT
"""A mixed load that decides for itself about zero copy: sizes, programs and peers that change.

Each pair of processes makes one connection after another, and checks each byte. Between the laps all
connections are closed, and nothing may be left of them. The choices are in the report.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import select
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass

from sdptests.peer.peer import namespace
from sdptests.scenarios import leftovers, limits
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import long_scenario
from sdptests.twohosts import counters, native, uapi
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.report import say

# An hour, or a minute for one who only wants to see that it works.
SECONDS = 3600 if limits.SOAK else 60
LAPS = 12 if limits.SOAK else 3
PAIRS = 6
KIB, MIB = 1 << 10, 1 << 20
MIXES = (
    (MIB,),
    (256 * KIB,),
    (64 * KIB,),
    (16 * KIB,),
    (100, 64 * KIB),
    (8 * KIB, 32 * KIB, 128 * KIB),
    (1, 100_000, MIB + 5, 4 * MIB),
    (300 * KIB + 7,),
)
THRESHOLDS = (None, None, None, None, 0, 4096, 256 * KIB)
LONGEST = 4 * MIB + KIB
# Prime, so that messages begin at all offsets of pages.
_PERIOD = 1_048_583
# Memory that connections may leave in caches and in KASAN's quarantine.
MEMORY_KIB = 40 << 10

_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def _memory(size: int) -> tuple[memoryview, int]:
    """Private memory, and its address."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = memoryview(mapping)
    return view, ctypes.addressof(ctypes.c_char.from_buffer(view))


def _pattern() -> tuple[memoryview, int]:
    """The bytes of all streams."""
    view, address = _memory(_PERIOD + LONGEST)
    some = random.Random(28).randbytes(_PERIOD)
    for at in range(0, len(view), _PERIOD):
        part = view[at : at + _PERIOD]
        part[:] = some[: len(part)]
    return view, address


@dataclass(frozen=True)
class Plan:
    """A connection: both ends make the same one from its seed."""

    sizes: tuple[int, ...]
    threshold: int | None
    seconds: float
    # The receiver is an event loop.
    events: bool
    # It waits for whole messages.
    whole: bool
    # It pauses after a message, now and then.
    pauses: float
    version: int

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed."""
        dice = random.Random(seed)
        return cls(
            dice.choice(MIXES),
            dice.choice(THRESHOLDS),
            dice.uniform(1, 12),
            dice.random() < 0.25,
            dice.random() < 0.5,
            dice.choice((0, 0, 0, 0.01, 0.1)),
            dice.choice((4, 6)),
        )

    def __str__(self) -> str:
        sizes = "+".join(map(str, self.sizes))
        threshold = "default" if self.threshold is None else f"threshold {self.threshold}"
        reader = "an event loop" if self.events else "a reader"
        return f"{sizes}, {threshold}, {reader}{' that pauses' if self.pauses else ''}"


def _set(sock: socket.socket, threshold: int | None) -> None:
    if threshold is not None:
        sock.setsockopt(socket.SOL_TCP, uapi.SDP_ZCOPY_THRESH, threshold)


def _some(sock: socket.socket, into: memoryview, plan: Plan) -> int:
    """The next bytes; 0 at the end."""
    if not plan.events:
        return sock.recv_into(into, len(into), socket.MSG_WAITALL if plan.whole else 0)
    while True:
        try:
            return sock.recv_into(into)
        except BlockingIOError:
            select.select([sock], [], [])


def _receive(sock: socket.socket, plan: Plan, seed: int, pattern: int) -> None:
    """Receives and compares until the end of the stream."""
    dice = random.Random(seed)
    sock.setblocking(not plan.events)
    room, address = _memory(LONGEST)
    place = 0
    while True:
        size = dice.choice(plan.sizes)
        filled = 0
        while filled < size:
            got = _some(sock, room[filled:size], plan)
            if not got:
                check(filled == 0, f"the stream ends {filled} bytes after the begin of a message")
                return
            if _libc.memcmp(address + filled, pattern + place, got):
                raise Failure(f"other bytes than those sent: {plan}")
            filled += got
            place = (place + got) % _PERIOD
        if plan.pauses and dice.random() < 0.05:
            time.sleep(plan.pauses)


def _send(sock: socket.socket, plan: Plan, seed: int, pattern: memoryview, until: float) -> int:
    """Sends whole messages for a time; returns the number of bytes."""
    dice = random.Random(seed)
    place = total = 0
    while time.monotonic() < until:
        size = dice.choice(plan.sizes)
        # The receiver rolls once more for each message.
        if plan.pauses:
            dice.random()
        sock.sendall(pattern[place : place + size])
        place = (place + size) % _PERIOD
        total += size
    return total


def _connect(plan: Plan) -> tuple[socket.socket, socket.socket]:
    host = B.address(plan.version)
    with namespace("b"), native.listen("sdp", host) as listener:
        _set(listener, plan.threshold)
        with namespace("a"):
            sock = native.make("sdp", A.address(plan.version))
        _set(sock, plan.threshold)
        native.connect(sock, host, native.own_name(listener)[1])
        return sock, native.accept(listener)


def _in_child(work: object, *arguments: object) -> int:
    """Starts a process for a function; its failure is its exit status."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        work(*arguments)  # type: ignore[operator]
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _episode(pair: int, seed: int, until: float, pattern: tuple[memoryview, int]) -> None:
    """One connection."""
    plan = Plan.of(seed)
    sock, other = _connect(plan)
    child = _in_child(lambda: (sock.close(), _receive(other, plan, seed, pattern[1])))
    other.close()
    begin = time.monotonic()
    try:
        with sock:
            total = _send(sock, plan, seed, pattern[0], min(until, begin + plan.seconds))
    finally:
        _, status = os.waitpid(child, 0)
        check(status == 0, f"the receiver ended with {status}: {plan}")
    rate = total / MIB / (time.monotonic() - begin)
    say(f"# {pair}: {plan}: {rate:.1f} MiB/s", to=sys.stderr)


def _pair(pair: int, lap: int, until: float, pattern: tuple[memoryview, int]) -> None:
    """One connection after the other."""
    seeds = random.Random(pair * 1000 + lap)
    while time.monotonic() < until:
        # A hang is killed, which fails the test.
        signal.alarm(int(limits.seconds(60)))
        _episode(pair, seeds.getrandbits(32), until, pattern)


def _lap(lap: int, pattern: tuple[memoryview, int]) -> None:
    until = time.monotonic() + SECONDS / LAPS
    children = [_in_child(_pair, pair, lap, until, pattern) for pair in range(PAIRS)]
    failed = [pair for pair, child in enumerate(children) if os.waitpid(child, 0)[1]]
    check(not failed, f"lap {lap}: pairs {failed} failed")


@long_scenario
def mixed_load() -> str:
    """No byte is wrong, and nothing is left after any lap."""
    pattern = _pattern()
    # The first lap fills permanent caches.
    _lap(0, pattern)
    leftovers.await_empty_tables()
    before, memory = leftovers.rdma(), leftovers.memory()
    begun = leftovers.stats("a")
    for lap in range(1, LAPS):
        _lap(lap, pattern)
        leftovers.await_empty_tables()
        leftovers.await_resources(before)
        grown = leftovers.memory() - memory
        check(grown <= MEMORY_KIB, f"lap {lap}: {grown} KiB more in use")
        say(f"# lap {lap}: {grown} KiB more", to=sys.stderr)
    changes = counters.difference(begun, leftovers.stats("a"))
    sent, lent = counters.sent_bytes(changes), changes.get("zcopy_bytes_sent", 0)
    check(0 < lent < sent, f"{lent} of {sent} bytes were lent")
    return f"{sent / MIB:.0f} MiB, {100 * lent / sent:.0f} % of them lent"
