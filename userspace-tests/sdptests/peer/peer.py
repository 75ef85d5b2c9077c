# SPDX-License-Identifier: MIT
"""A raw peer: the script's side of /dev/sdp_peer.

One Peer is one open file and at most one connection. Commands return when the kernel has
accepted them. Their results are events, which are read by kind:

    peer = Peer()
    peer.set("receive-size", 4096)
    peer.connect("10.0.0.1", "10.0.0.2", 5000, hello)    # in the caller's namespace
    reply = peer.expect("rep").data
    peer.rtu()
    peer.send(message)
    answer = peer.expect("message").data

Commands: set connect sidr listen reply reject rtu dreq drep post send write read memory look
vanish kernel-socket looks-like-tcp.
Events: reads BEGUN ANSWERED, rep, rej REASON, req, sidr STATUS, established, unanswered WHAT, dreq, drep,
timewait-exit, message, sent NUMBER STATUS, receive-failed STATUS, queue-pair NUMBER TEXT,
fault, removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from sdptests.twohosts import hosts
from sdptests.twohosts.failure import Failure, check

DEVICE = "/dev/sdp_peer"
# The length of a line: a message of 128 KiB in hexadecimal, and the word before it.
LONGEST = 2 * 128 * 1024 + 256
# The time limit of an event; only a hanging one reaches it.
PATIENCE = hosts.PATIENCE / 5


class Status(IntEnum):
    """The status of a request: enum ib_wc_status."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    GENERAL_ERR = 21


class Rejected(IntEnum):
    """Reasons of a REJ."""

    TIMEOUT = 4
    INVALID_SERVICE_ID = 8
    STALE_CONNECTION = 10
    CONSUMER_DEFINED = 28


@dataclass(frozen=True)
class Event:
    """One event."""

    kind: str
    words: tuple[str, ...]

    def short(self) -> str:
        """Its beginning, for reports; for a message that is the base header."""
        return " ".join((self.kind, *self.words))[:48]

    @property
    def data(self) -> bytes:
        """The bytes of a req, rep, message or of memory."""
        return bytes.fromhex(self.words[0]) if self.words else b""

    @property
    def number(self) -> int:
        """The last number of the line: a reason or a status."""
        return int(self.words[-1])


class Peer:
    """A raw peer; see the module's docstring."""

    def __init__(self, **settings: int) -> None:
        self._fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._waiting: deque[Event] = deque()
        self.posted_sends = 0
        for name, value in settings.items():
            self.set(name.replace("_", "-"), value)

    def close(self) -> None:
        """Ends the connection, and tells the other side."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def command(self, *words: object) -> None:
        """Writes a command; each method below is one command."""
        os.write(self._fd, " ".join(str(word) for word in words).encode())

    def set(self, name: str, value: int) -> None:
        """Sets a parameter of the transport, before it is used."""
        self.command("set", name, value)

    def connect(self, src: str, dst: str, port: int, private_data: bytes) -> None:
        """Send a REQ from the namespace that the caller is in."""
        self.command("connect", src, dst, port, private_data.hex() or "-")

    def sidr(self, src: str, dst: str, port: int, private_data: bytes) -> None:
        """Sends a SIDR REQ, which asks for a datagram service."""
        self.command("sidr", src, dst, port, private_data.hex() or "-")

    def listen(self, address: str, port: int) -> None:
        """Waits for one REQ on the device with this address."""
        self.command("listen", address, port)

    def reply(self, private_data: bytes) -> None:
        """Answer the REQ by a REP."""
        self.command("reply", private_data.hex() or "-")

    def reject(self, reason: int = Rejected.CONSUMER_DEFINED) -> None:
        """Answer the REQ, or the REP, by a REJ."""
        self.command("reject", reason)

    def turn_away(self, reason: int) -> None:
        """Answer the REQ by a REJ, and wait for another one."""
        self.command("turn-away", reason)

    def rtu(self) -> None:
        """Answer the REP."""
        self.command("rtu")

    def dreq(self) -> None:
        """Requests the end of the connection."""
        self.command("dreq")

    def drep(self) -> None:
        """Answer a DREQ."""
        self.command("drep")

    def post(self, count: int) -> None:
        """Posts so many more receive buffers."""
        self.command("post", count)

    def send(self, message: bytes) -> int:
        """Posts one SEND; returns the number of its completion."""
        self.command("send", message.hex() or "-")
        return self._posted()

    def write(self, rkey: int = 0, address: int = 0, data: bytes = b"") -> int:
        """Posts an RDMA Write, of length 0 without data."""
        self.command("write", rkey, address, data.hex() or "-")
        return self._posted()

    def read(self, rkey: int, address: int, length: int) -> int:
        """Post an RDMA Read."""
        self.command("read", rkey, address, length)
        return self._posted()

    def memory(self, data: bytes) -> tuple[int, int]:
        """Memory that the other side can read and write: returns its key and address."""
        self.command("memory", data.hex())
        key, address = self.expect("memory").words
        return int(key), int(address)

    def look(self, address: int, length: int) -> bytes:
        """The present contents of that memory."""
        self.command("look", address, length)
        return self.expect("bytes").data

    def vanish(self) -> None:
        """Destroys the queue pair without a message."""
        self.command("vanish")

    def kernel_socket(self, family: int, protocol: int) -> None:
        """Makes a stream socket like kernel users, and closes it."""
        self.command("kernel-socket", family, protocol)

    def looks_like_tcp(self, fd: int) -> bool:
        """Whether kernel users would treat this descriptor as a TCP socket."""
        try:
            self.command("looks-like-tcp", fd)
        except OSError as error:
            if error.errno != errno.EPROTOTYPE:
                raise
            return False
        return True

    def _posted(self) -> int:
        self.posted_sends += 1
        return self.posted_sends

    def _read(self, timeout: float) -> bool:
        """Reads one event, if there is one in time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(max(0, timeout) * 1000):
            return False
        kind, *words = os.read(self._fd, LONGEST).decode().split()
        self._waiting.append(Event(kind, tuple(words)))
        return True

    def events(self) -> list[Event]:
        """All unread events; they stay unread."""
        while self._read(0):
            pass
        return list(self._waiting)

    def take(self, *kinds: str) -> Event | None:
        """The oldest event of these kinds, if there is one."""
        for event in self.events():
            if event.kind in kinds:
                self._waiting.remove(event)
                return event
        return None

    def expect(self, *kinds: str, timeout: float = PATIENCE) -> Event:
        """The oldest event of these kinds; waits for it."""
        deadline = time.monotonic() + timeout
        while True:
            if event := self.take(*kinds):
                return event
            if not self._read(deadline - time.monotonic()) and time.monotonic() >= deadline:
                others = [event.short() for event in self._waiting]
                raise Failure(f"no {' or '.join(kinds)} in {timeout:.0f} s, but {others}")

    def completion(self, number: int, timeout: float = PATIENCE) -> Status:
        """The status of the request with that number; all before it have ended as well."""
        while True:
            event = self.expect("sent", timeout=timeout)
            if int(event.words[0]) == number:
                return Status(event.number)


def refuses(number: int, command: Callable[..., object], *arguments: object) -> None:
    """The command must fail with this errno."""
    try:
        command(*arguments)
    except OSError as error:
        check(error.errno == number, f"{command.__name__}{arguments}: {error}")
    else:
        raise Failure(f"{command.__name__}{arguments} was taken")


_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def namespace(name: str) -> Iterator[None]:
    """Enters a network namespace; new sockets, peers and files of /proc/net belong to it."""
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(there)
        yield
    finally:
        _enter(before)
        os.close(there)
        os.close(before)


def _enter(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
