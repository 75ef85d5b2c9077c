# SPDX-License-Identifier: MIT
"""Many concurrent connections; each byte is determined by its place in the stream.

One loop drives both ends of all connections, so it never blocks: an event that
does not come in time is a failure.
"""

from __future__ import annotations

import contextlib
import errno
import random
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import limits
from sdptests.scenarios.network import PEER
from sdptests.twohosts.failure import Failure, check

CHUNK = 65536
SO_SNDBUFFORCE = 32
# Prime, so that no two chunks are equal.
_PERIOD = 262147
_BYTES = random.Random(27).randbytes(_PERIOD)
_PATTERN = memoryview(_BYTES + _BYTES[:CHUNK])


def content(seed: int, place: int, count: int) -> memoryview:
    """At most CHUNK bytes of a stream."""
    start = (seed * 7919 + place) % _PERIOD
    return _PATTERN[start : start + min(count, CHUNK)]


class End:
    """One end of a connection: the sent and received bytes, and how it ended."""

    def __init__(self, stream: Stream, seed: int, peer_seed: int) -> None:
        self.stream = stream
        self.seed = seed
        self.peer_seed = peer_seed
        # The amount to send, and whether the direction is closed afterwards.
        self.total = 0
        self.closes = False
        self.sent = 0
        self.received = 0
        self.shut = False
        # 0 for the end of the stream, otherwise the first error.
        self.end: int | None = None

    @property
    def fd(self) -> int:
        """The descriptor."""
        return self.stream.sock.fileno()

    @property
    def over(self) -> bool:
        """No more events are expected."""
        return self.end is not None and (self.end != 0 or self.shut or not self.closes)

    def events(self) -> int:
        """The poll events to wait for."""
        wanted = 0 if self.end is not None else select.POLLIN
        if not self.shut and not self.end and (self.sent < self.total or self.closes):
            wanted |= select.POLLOUT
        return wanted

    def send(self) -> None:
        """Sends a chunk, or closes the direction after the last one."""
        if self.sent == self.total:
            return self.shutdown()
        data = content(self.seed, self.sent, self.total - self.sent)
        try:
            self.sent += self.stream.sock.send(data)
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed(error)

    def shutdown(self) -> None:
        """Closes the direction."""
        self.shut = True
        try:
            self.stream.sock.shutdown(1)
        except OSError as error:
            self._failed(error)

    def receive(self) -> None:
        """Reads a chunk and compares it."""
        try:
            data = self.stream.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            return self._failed(error)
        if not data:
            self.end = 0
            return
        expected = content(self.peer_seed, self.received, len(data))
        if data != expected:
            wrong = next(
                i for i, pair in enumerate(zip(data, expected, strict=True)) if pair[0] != pair[1]
            )
            raise Failure(f"byte {self.received + wrong} of stream {self.peer_seed} is wrong")
        self.received += len(data)

    def _failed(self, error: OSError) -> None:
        if self.end in (None, 0):
            self.end = error.errno or 0

    def close(self) -> None:
        """close(2)"""
        self.stream.close()


class Pair:
    """A connection with both ends in this process."""

    def __init__(self, client: Stream, server: Stream, seed: int) -> None:
        self.client = End(client, seed, seed + 1)
        self.server = End(server, seed + 1, seed)

    @property
    def ends(self) -> tuple[End, End]:
        """Client and server."""
        return self.client, self.server

    def on(self, host: str) -> End:
        """The end on a host: the client is on a."""
        return self.client if host == "a" else self.server

    def exchange(self, total: int) -> None:
        """Queues so many more bytes in each direction."""
        for end in self.ends:
            end.total = end.sent + total

    def close(self) -> None:
        """close(2) of both ends."""
        for end in self.ends:
            end.close()


def ends_of(pairs: Iterable[Pair]) -> list[End]:
    """All ends."""
    return [end for pair in pairs for end in pair.ends]


ENDLESS = 1 << 50


def run(ends: Sequence[End], until: Callable[[], object], limit: float, what: str) -> float:
    """Sends and receives on all of these until a condition holds; returns the seconds it took."""
    begin = time.monotonic()
    poll = select.poll()
    by_fd = {end.fd: end for end in ends}
    registered: dict[int, int] = {}
    while not until():
        if time.monotonic() - begin > limit:
            raise Failure(f"{what}: not within {limit:.0f} s; {describe(ends)}")
        for fd, end in by_fd.items():
            wanted = end.events() if end.fd >= 0 else 0
            if wanted != registered.get(fd, 0):
                poll.register(fd, wanted) if wanted else poll.unregister(fd)
                registered[fd] = wanted
        for fd, events in poll.poll(20):
            end = by_fd[fd]
            # The next call of either kind reports an error.
            if end.end is None and events & (select.POLLIN | select.POLLERR | select.POLLHUP):
                end.receive()
            if events & select.POLLOUT and not end.shut and end.events() & select.POLLOUT:
                end.send()
    return time.monotonic() - begin


def check_some(pairs: Sequence[Pair], what: str) -> None:
    """Each tenth connection carries 1,000 bytes each way."""
    for pair in pairs[:: len(pairs) // 10]:
        pair.exchange(1000)
        run(
            pair.ends,
            lambda p=pair: all(end.received == 1000 for end in p.ends),
            limits.seconds(20),
            what,
        )


def finish(pairs: Sequence[Pair], limit: float) -> None:
    """Sends everything, closes both directions, and checks that all bytes arrived."""
    ends = ends_of(pairs)
    for end in ends:
        end.closes = True
    run(ends, lambda: all(end.over for end in ends), limit, "the end of the streams")
    for pair in pairs:
        for end, peer in (pair.ends, pair.ends[::-1]):
            check(end.end == 0, f"stream {end.seed} ended with {name(end.end)}")
            check(end.received == peer.sent, f"{end.received} of {peer.sent} bytes arrived")


def describe(ends: Sequence[End]) -> str:
    """The state of all ends that are not finished."""
    left = [end for end in ends if not end.over]
    shown = "; ".join(
        f"stream {end.seed}: sent {end.sent} received {end.received} end {name(end.end)}"
        for end in left[:6]
    )
    return f"{len(left)} of {len(ends)} not over: {shown}"


def name(number: int | None) -> str:
    """An errno by its name."""
    if number is None:
        return "none"
    return errno.errorcode.get(number, str(number)) if number else "end of stream"


def connect(
    count: int,
    *,
    to: str = "b",
    version: int = 4,
    listener: Listener | None = None,
    configure: Callable[[Stream], None] | None = None,
) -> list[Pair]:
    """So many connections between a and b, with both ends; the client is on the other host."""
    own = listener is None
    with namespace(to):
        listener = listener or Listener(PEER[PEER[to].host].address(version))
    with namespace(PEER[to].host):
        connecting = [Connecting(listener.address, listener.port) for _ in range(count)]
    limit = limits.seconds(20) + count * limits.seconds(0.2)
    clients = {}
    for one in connecting:
        stream = one.stream(limit)
        clients[stream.names()[0]] = stream
    pairs = []
    for number in range(count):
        server = listener.accept(limit)
        client = clients.pop(server.names()[1])
        if to == "a":
            client, server = server, client
        for stream in (client, server):
            if configure:
                configure(stream)
        pairs.append(Pair(client, server, 2 * number + 1))
    if own:
        listener.close()
    return pairs


def works(version: int = 4, size: int = 100_000, to: str = "b") -> None:
    """A new connection transfers data in both directions and ends normally."""
    pairs = connect(1, version=version, to=to)
    pairs[0].exchange(size)
    finish(pairs, limits.seconds(30))
    pairs[0].close()


def fill(sock: socket.socket) -> None:
    """Writes more than the peer accepts without reading; the socket is non-blocking afterwards."""
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(CHUNK))
