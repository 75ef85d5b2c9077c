# SPDX-License-Identifier: MIT
"""Memory that the module's program has lent by SDP_BORROW, and a peer that reads late or never.

When the program may write to its memory again, the peer must get the bytes of the call, however it
gets them.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
import threading
import time

from sdptests.peer.cases.lending import (
    ENDS,
    PATTERN,
    THRESHOLD,
    Lent,
    complete,
    lending,
    lent_to_read,
    refused,
)
from sdptests.peer.peer import PATIENCE, Status
from sdptests.peer.register import case
from sdptests.peer.scene import Scene, Victim
from sdptests.peer.stream import Stream
from sdptests.peer.wire import Mid
from sdptests.twohosts import uapi
from sdptests.twohosts.failure import Failure, check

PAGE = 4096
WHOLE = len(PATTERN) // PAGE * PAGE
SETUP = struct.Struct("=QiIIIII")
REPORT = struct.Struct("=QQII")
RANGE = struct.Struct("=QII")
# close() gives the peer a second, and then asks; without an answer the connection ends.
CLOSE = 20


_libc = ctypes.CDLL(None, use_errno=True)


def _wait(sock: socket.socket, option: int, number: int) -> None:
    """setsockopt() that lets other threads of this program run, as Python's own does not."""
    value = struct.pack("=II", number, 0xFFFFFFFF)
    if _libc.setsockopt(sock.fileno(), socket.SOL_TCP, option, value, len(value)):
        raise OSError(ctypes.get_errno(), "setsockopt")


class Memory:
    """Private pages with a known address."""

    def __init__(self, length: int) -> None:
        self.pages = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))


class Loan:
    """The bytes of PATTERN, lent on a socket of the module."""

    def __init__(self, stream: Stream) -> None:
        self.sock = stream.sock
        self._counter = Memory(PAGE)
        setup = SETUP.pack(self._counter.address, -1, 0, PAGE, 0, 0, 0)
        self.sock.setsockopt(socket.SOL_TCP, uapi.SDP_BORROW, setup)
        self._memory = Memory(len(PATTERN) // PAGE * PAGE + PAGE)
        self._memory.pages[: len(PATTERN)] = PATTERN
        report = Memory(PAGE)
        header = REPORT.pack(0, report.address + 64, 16, 0)
        report.pages[: len(header)] = header
        where = struct.pack("=Q", report.address)
        view = memoryview(self._memory.pages)[: len(PATTERN)]
        sent = self.sock.sendmsg([view], [(socket.SOL_TCP, uapi.SDP_BORROW, where)])
        view.release()
        check(sent == len(PATTERN), f"{sent} bytes were sent")
        counter, _ranges, _room, count = REPORT.unpack_from(report.pages[: REPORT.size])
        check((counter, count) == (self._counter.address, 1), f"{count} ranges")
        start, length, number = RANGE.unpack_from(report.pages[64 : 64 + RANGE.size])
        check((start, length) == (self._memory.address, WHOLE), f"{length} bytes are lent")
        check(number == 1, f"the first has number {number}")

    def ended(self) -> bool:
        """Whether the memory is the program's own again."""
        return int.from_bytes(self._counter.pages[:4], "little") == 1

    def comes_back(self) -> None:
        """Waits until it is."""
        check(Scene.comes(self.ended, PATIENCE), "the memory stays lent")

    def cancel(self) -> None:
        """Asks for it, and waits until it is."""
        _wait(self.sock, uapi.SDP_BORROW_CANCEL, 1)
        check(self.ended(), "what was taken back is counted")

    def overwrite(self) -> None:
        """Writes to the memory."""
        self._memory.pages[: len(PATTERN)] = bytes(len(PATTERN))


class Background:
    """A step of the module's program that waits for the peer."""

    def __init__(self, *steps: object) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=steps, daemon=True)
        self._thread.start()

    def _run(self, *steps: object) -> None:
        try:
            for step in steps:
                step()
        except BaseException as error:  # noqa: BLE001
            self._error = error

    def end(self, timeout: float = PATIENCE) -> None:
        """It has succeeded."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise Failure(f"it has not ended in {timeout:.0f} s")
        if self._error is not None:
            raise self._error


def _offered(victim: Victim) -> tuple[Loan, Lent, int]:
    """A loan and its SrcAvail, with the number of inline bytes."""
    loan = Loan(victim.stream)
    lent, inline = lent_to_read(victim)
    check(lent.length == WHOLE, f"{lent.length} bytes are offered")
    return loan, lent, inline


def _rest_comes(victim: Victim, have: int) -> None:
    """The bytes that were not read come as they were at the call."""
    rest = victim.talk.read(len(PATTERN) - have)
    check(rest == PATTERN[have:], "the bytes are those of the call")


@case("borrowing: memory that is read is the program's own again")
def read(scene: Scene) -> None:
    """The bytes behind the last whole page are copied."""
    with lending(scene) as victim:
        loan, lent, inline = _offered(victim)
        check(not loan.ended(), "it is not counted before it is read")
        number = victim.peer.read(lent.key, lent.address + inline, 1000)
        check(victim.peer.completion(number) == Status.SUCCESS, "what is lent can be read")
        check(not loan.ended(), "nor before the peer says so")
        complete(victim, Mid.RDMA_RD_COMPL, lent.length - inline)
        loan.comes_back()
        loan.overwrite()
        _rest_comes(victim, WHOLE)
        refused(victim, victim.peer.read(lent.key, lent.address, 1000))


@case("borrowing: memory that is taken back comes as it was")
def taken_back(scene: Scene) -> None:
    """The peer answers the cancel, and reads no more."""
    with lending(scene) as victim:
        loan, lent, inline = _offered(victim)
        cancelled = Background(loan.cancel, loan.overwrite)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        check(not loan.ended(), "the peer may still read")
        victim.talk.put(Mid.SEND_SM)
        cancelled.end()
        _rest_comes(victim, inline)
        refused(victim, victim.peer.read(lent.key, lent.address, 1000))


@case("borrowing: memory that is taken back in part")
def taken_back_in_part(scene: Scene) -> None:
    """The peer has read some of it before it answers."""
    with lending(scene) as victim:
        loan, _lent, inline = _offered(victim)
        cancelled = Background(loan.cancel, loan.overwrite)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        complete(victim, Mid.RDMA_RD_COMPL, 12345)
        victim.talk.put(Mid.SEND_SM)
        cancelled.end()
        _rest_comes(victim, inline + 12345)


@case("borrowing: memory that waits for room at the peer is copied")
def without_credits(scene: Scene) -> None:
    """The peer has declined the offer and grants no buffers."""
    small = scene.hello(max_adverts=4, bufs=4, rcv_size=4096, desired_rcv_size=4096)
    with scene.knob("zcopy_thresh", THRESHOLD):
        victim = scene.establish(hello=small)
        loan, _lent, inline = _offered(victim)
        victim.talk.generous = False
        victim.talk.put(Mid.SEND_SM)
        # As much as the credits allow.
        time.sleep(0.5)
        check(not loan.ended(), "it waits for room")
        Background(loan.cancel, loan.overwrite).end()
        # Messages that have used up buffers are replaced from here on.
        victim.talk.generous = True
        _rest_comes(victim, inline)


@case("borrowing: a cancel that is never answered")
def unanswered(scene: Scene) -> None:
    """The connection ends, and with it the loan."""
    with lending(scene) as victim:
        loan, lent, _inline = _offered(victim)
        cancelled = Background(loan.cancel)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        cancelled.end()
        found, _data = victim.stream.end()
        check(found in (*ENDS, 0), f"errno {found}")
        number = victim.peer.read(lent.key, lent.address, 1000)
        check(victim.peer.completion(number) != Status.SUCCESS, "nothing can be read any more")
        scene.moved(resets_sent=1, violations=0)


@case("borrowing: close() has the memory back")
def closed(scene: Scene) -> None:
    """A second for the peer, and then a cancel."""
    with lending(scene) as victim:
        loan, _lent, inline = _offered(victim)
        began = time.monotonic()
        done = Background(victim.stream.close, loan.overwrite)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        check(time.monotonic() - began > 0.5, "the peer has time to read")
        victim.talk.put(Mid.SEND_SM)
        done.end(CLOSE)
        _rest_comes(victim, inline)


@case("borrowing: close() ends beside a silent peer")
def closed_in_silence(scene: Scene) -> None:
    """The connection ends first."""
    with lending(scene) as victim:
        loan, _lent, _inline = _offered(victim)
        done = Background(victim.stream.close)
        victim.talk.expect(Mid.SRC_AVAIL_CANCEL)
        done.end(CLOSE)
        check(loan.ended(), "nothing is lent any more")


@case("borrowing: the peer vanishes")
def vanished(scene: Scene) -> None:
    """Nothing stays lent: the cancel needs no answer from a connection that has ended."""
    with lending(scene) as victim:
        loan, _lent, _inline = _offered(victim)
        victim.peer.vanish()
        Background(loan.cancel).end()
        check(loan.ended(), "nothing is lent any more")
