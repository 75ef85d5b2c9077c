# SPDX-License-Identifier: MIT
"""Connections between the hosts, with bytes in both directions concurrently."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator

from sdptests.consumers import smc
from sdptests.consumers.fabric import A, B
from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.twohosts.failure import Failure, check

# Not a multiple of any size in use.
_MOST = 150_001
# The errors of a connection after a lower layer has gone.
GONE = {
    errno.ECONNRESET,
    errno.EPIPE,
    errno.ECONNABORTED,
    errno.ETIMEDOUT,
    errno.ENETDOWN,
    errno.ENOLINK,
    errno.EIO,
    errno.ENOTCONN,
}


class Pair:
    """A connection with both ends in this process, the client on a."""

    def __init__(self, listener: socket.socket, *, by_protocol: bool = False) -> None:
        with namespace(A.host):
            self.client = smc.make(A.address, by_protocol=by_protocol)
        self.client.settimeout(limits.seconds(15))
        self.client.connect(listener.getsockname())
        self.server, _ = listener.accept()
        self.server.settimeout(limits.seconds(15))

    def close(self) -> None:
        """Closes both ends."""
        self.client.close()
        self.server.close()


@contextlib.contextmanager
def listener(*, by_protocol: bool = False) -> Iterator[socket.socket]:
    """One on b."""
    with namespace(B.host):
        sock = smc.make(B.address, by_protocol=by_protocol)
    with sock:
        sock.settimeout(limits.seconds(15))
        sock.bind((B.address, 0))
        sock.listen(64)
        yield sock


def connect(count: int, *, by_protocol: bool = False) -> list[Pair]:
    """So many connections."""
    with listener(by_protocol=by_protocol) as sock:
        return [Pair(sock, by_protocol=by_protocol) for _ in range(count)]


class Way:
    """A known stream of bytes from one end to the other."""

    def __init__(self, source: socket.socket, sink: socket.socket, length: int, seed: int) -> None:
        self.received = 0
        self.length = length
        self.errors: list[BaseException] = []
        self._seed = seed
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send, source)),
            threading.Thread(target=self._guard, args=(self._receive, sink)),
        ]

    def start(self) -> None:
        """Starts the stream."""
        for thread in self._threads:
            thread.start()

    def _guard(self, work: object, sock: socket.socket) -> None:
        try:
            assert callable(work)
            work(sock)
        except BaseException as error:
            self.errors.append(error)

    def _send(self, sock: socket.socket) -> None:
        own = random.Random(self._seed)
        block = own.randbytes(_MOST)
        digest, left = hashlib.sha256(), self.length
        while left:
            start = own.randrange(_MOST - 1)
            piece = memoryview(block)[start : start + min(left, own.randint(1, _MOST))]
            sock.sendall(piece)
            digest.update(piece)
            left -= len(piece)
        self._sent_digest = digest.digest()

    def _receive(self, sock: socket.socket) -> None:
        own = random.Random(self._seed + 1)
        digest = hashlib.sha256()
        while self.received < self.length:
            data = sock.recv(min(own.randint(1, _MOST), self.length - self.received))
            if not data:
                raise Failure(f"the end after {self.received} of {self.length} bytes")
            digest.update(data)
            self.received += len(data)
        self._received_digest = digest.digest()

    def alive(self) -> bool:
        """Whether it is still running."""
        return any(thread.is_alive() for thread in self._threads)

    def compare(self) -> None:
        """The received bytes are the sent ones."""
        if self.errors:
            raise Failure(f"after {self.received} of {self.length} bytes: {self.errors}")
        check(self._sent_digest == self._received_digest, "what came is not what was sent")


def flow(pairs: list[Pair], length: int) -> list[Way]:
    """Starts sending so many bytes in each direction of each connection."""
    ways = []
    for number, pair in enumerate(pairs):
        ways.append(Way(pair.client, pair.server, length, 2 * number))
        ways.append(Way(pair.server, pair.client, length, 2 * number + 1))
    for way in ways:
        way.start()
    return ways


def exchange(pairs: list[Pair], length: int, limit: float) -> str:
    """Sends so many bytes in each direction of each connection, and compares; returns the rate."""
    begin = time.monotonic()
    ways = flow(pairs, length)
    limits.until("the transfers", limit, lambda: not any(way.alive() for way in ways))
    for way in ways:
        way.compare()
    took = time.monotonic() - begin
    return f"{len(ways) * length / took / 1e6:.1f} MB/s in {took:.1f} s"


def ping_pong(pair: Pair, count: int, most: int) -> None:
    """Small messages, one at a time, in alternating directions."""
    for number in range(count):
        message = os.urandom(1 + number % most)
        for source, sink in ((pair.client, pair.server), (pair.server, pair.client)):
            source.sendall(message)
            got = b""
            while len(got) < len(message):
                more = sink.recv(len(message) - len(got))
                check(more, f"the end in message {number}")
                got += more
            check(got == message, f"message {number} is not what was sent")


def carries() -> bool:
    """Whether a new connection carries bytes both ways. Otherwise it was reset."""
    try:
        with contextlib.closing(connect(1)[0]) as pair:
            ping_pong(pair, 1, 1)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    return True


def _first_contact() -> None:
    """Makes a link group, with a connection that it outlives.

    SMC itself may need several attempts, on any device:

    - The client accepts the message that confirms the link (CONFIRM LINK) only after
      smc_connect_rdma() has sent its confirmation by TCP and then started the flow of that message.
      On a fast link the message comes between the two, and the client drops it.
    - A client that loses its device does not tell the server, and the server's link fails with the next
      connections.
    """
    for _ in range(10):
        before = smc.counts(B.host)
        if not carries():
            continue
        reasons = {code for code, _ in smc.counts(B.host).since(before).reasons}
        if not reasons:
            return
        check(reasons <= {smc.NOT_CONFIRMED, smc.NOT_REGISTERED}, f"reasons: {reasons}")
    raise Failure("no link group in ten attempts")


@contextlib.contextmanager
def only_rdma(least: int = 1) -> Iterator[None]:
    """The body uses SMC-R only, neither TCP nor SMC-D, for so many bytes or more."""
    _first_contact()
    before = {end.host: smc.counts(end.host) for end in (A, B)}
    yield
    done = {end.host: smc.counts(end.host).since(before[end.host]) for end in (A, B)}
    for what, bad in (
        ("connections fell back to TCP", any(one.reasons for one in done.values())),
        ("bytes went by SMC-D", any(one.smcd_bytes for one in done.values())),
        ("too little went by SMC-R", least > min(min(d.sent, d.received) for d in done.values())),
    ):
        check(not bad, f"{what}: {done}")
    found = smc.links()
    check(
        set(found) == {A.device, B.device},
        f"links are on {found}, not on {A.device} and {B.device} alone",
    )
