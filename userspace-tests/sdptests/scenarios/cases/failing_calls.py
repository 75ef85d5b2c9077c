# SPDX-License-Identifier: MIT
"""System calls with a failing allocation: each allocation of each call, one at a time."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import random
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import faults, leftovers, limits, traffic, uncopied
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.sleeping import sleeps_in

NO_MEMORY = {errno.ENOMEM, errno.ENOBUFS}
NO_FILE = NO_MEMORY | {errno.ENFILE, errno.EMFILE}


def _one_of(allowed: set[int], call: str) -> Callable[[int, object], None]:
    def judge(number: int, _result: object) -> None:
        check(number in allowed | {0}, f"{call} ends with {traffic.name(number)}")

    return judge


@scenario
def socket_survives_each_failing_allocation() -> str:
    """socket(2)"""

    def judge(number: int, sock: object) -> None:
        _one_of(NO_FILE, "socket")(number, None)
        if isinstance(sock, socket.socket):
            sock.close()

    with namespace("a"):
        count = faults.each(lambda _: lambda: native.make("sdp", "10.0.0.1"), judge)
    return f"{count} allocations"


@scenario
def listen_survives_each_failing_allocation() -> str:
    """bind(2) and listen(2)"""

    def prepare(_number: int) -> Callable[[], object]:
        sock = native.make("sdp", B.address(4))
        held.append(sock)

        def call() -> None:
            native.bind(sock, B.address(4), 0)
            sock.listen(5)

        return call

    held: list[socket.socket] = []
    with namespace("b"):
        count = faults.each(prepare, _one_of(NO_MEMORY, "bind or listen"))
    for sock in held[:-1]:
        # A failed call can be repeated.
        with contextlib.suppress(OSError):
            native.bind(sock, B.address(4), 0)
        sock.listen(5)
        with namespace("a"):
            one = Connecting(*native.own_name(sock))
        one.stream(limits.seconds(20)).close()
        sock.close()
    return f"{count} allocations"


@scenario
def connect_survives_each_failing_allocation() -> str:
    """connect(2); allocations of workers for it are another scenario."""
    with namespace("b"):
        listener = Listener(B.address(4), backlog=512)
    held: list[socket.socket] = []
    allowed = NO_MEMORY | {errno.EINPROGRESS, errno.EAGAIN}

    def prepare(_number: int) -> Callable[[], object]:
        sock = native.make("sdp", B.address(4))
        sock.setblocking(False)
        held.append(sock)
        return lambda: native.connect(sock, B.address(4), listener.port)

    with namespace("a"):
        count = faults.each(prepare, _one_of(allowed, "connect"))
    for sock in held:
        with contextlib.suppress(BlockingIOError):
            try:
                native.connect(sock, B.address(4), listener.port)
            except OSError as error:
                check(
                    error.errno in (errno.EINPROGRESS, errno.EALREADY, errno.EISCONN),
                    f"the next connect ends with {traffic.name(error.errno)}",
                )
        check(listener.accept(limits.seconds(20)) is not None, "nobody came")
    return f"{count} allocations"


@scenario
def accept_survives_each_failing_allocation() -> str:
    """accept(2): a connection that was not returned stays or is reset, and is never lost."""
    with namespace("b"):
        listener = Listener(B.address(4), backlog=64)
    clients: list[Stream] = []
    taken: list[socket.socket] = []

    def connect() -> None:
        with namespace("a"):
            clients.append(Connecting(B.address(4), listener.port).stream(limits.seconds(20)))
        limits.until("a connection to accept", limits.seconds(20), lambda: not listener.is_idle())

    def judge(number: int, sock: object) -> None:
        _one_of(NO_FILE, "accept")(number, None)
        if isinstance(sock, socket.socket):
            taken.append(sock)
            connect()

    connect()
    # The module has everything ready; only socket, inode and file are allocated.
    count = faults.each(lambda _: lambda: native.accept(listener.sock), judge, anywhere=True)
    with contextlib.suppress(BlockingIOError):
        while True:
            taken.append(native.accept(listener.sock))
    reset = 0
    names = {native.peer_name(sock) for sock in taken}
    for client in clients:
        if client.names()[0] not in names:
            check(client.end(limits.seconds(10))[0] == errno.ECONNRESET, "a connection is lost")
            reset += 1
    for sock in taken:
        sock.close()
    return f"{count} allocations, {reset} connections reset"


def _conversation(
    what: str,
    act: Callable[[traffic.End, traffic.End], Callable[[], object]],
    *,
    least: int = 1,
    lossless: bool = False,
) -> str:
    pairs: list[traffic.Pair] = []
    lost = 0

    def prepare(_number: int) -> Callable[[], object]:
        nonlocal lost
        if not pairs or any(end.end for end in pairs[-1].ends):
            lost += bool(pairs)
            pairs.append(traffic.connect(1)[0])
        client, server = pairs[-1].ends
        return act(client, server)

    def judge(number: int, _result: object) -> None:
        _one_of(NO_MEMORY | {errno.ECONNRESET, errno.EPIPE, errno.EAGAIN}, what)(number, None)
        ends = pairs[-1].ends
        # Accepted bytes arrive, or, unless `lossless`, both sides learn that they do not.
        traffic.run(
            ends,
            lambda: ends[1].received == ends[0].sent or any(end.end for end in ends),
            limits.seconds(20),
            f"the bytes after {what}",
        )
        if lossless:
            check(not any(end.end for end in ends), f"{what} has lost a connection")

    count = faults.each(prepare, judge, least=least)
    for pair in pairs:
        if any(end.end for end in pair.ends):
            traffic.run(
                pair.ends,
                lambda p=pair: all(end.end is not None for end in p.ends),
                limits.seconds(20),
                "the other end",
            )
        pair.close()
    return f"{count} allocations, {lost} connections lost"


@scenario
def send_survives_each_failing_allocation() -> str:
    """send(2) of a chunk: accepted bytes arrive unchanged, and the connection goes on."""

    def act(client: traffic.End, _server: traffic.End) -> Callable[[], object]:
        def call() -> None:
            client.sent += client.stream.sock.send(traffic.content(client.seed, client.sent, 65536))
            client.total = client.sent

        client.total = client.sent
        return call

    return _conversation("send", act, lossless=True)


@scenario
def send_without_copies_survives_each_failing_allocation() -> str:
    """send(2) that waits for a reader: accepted bytes arrive, and the connection goes on."""
    faults.needed()
    pair = traffic.connect(1)[0]
    sock, server = pair.client.stream.sock, pair.server.stream
    sock.setblocking(True)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 20, 0))
    data = random.Random(27).randbytes(1 << 20)
    came: list[bytes] = []
    sent = 0

    def read(count: int) -> None:
        came.append(server.receive(count, limits.seconds(30)))

    def prepare(_number: int) -> Callable[[], object]:
        nonlocal sent
        sent = 0
        came.clear()
        # Less than all may be accepted; the rest is sent without failures.
        reader.append(threading.Thread(target=read, args=[len(data)]))
        reader[-1].start()

        def call() -> None:
            nonlocal sent
            sent = sock.send(data)

        return call

    def judge(number: int, _result: object) -> None:
        _one_of(NO_MEMORY, "send")(number, None)
        sock.sendall(data[sent:])
        reader[-1].join()
        check(came == [data], "the bytes")

    reader: list[threading.Thread] = []
    count = faults.each(prepare, judge)
    pair.close()
    return f"{count} allocations"


@scenario
def shutdown_survives_each_failing_allocation() -> str:
    """shutdown(2) with bytes that have not been sent: they arrive, and the end behind them."""
    pairs: list[traffic.Pair] = []

    def prepare(_number: int) -> Callable[[], object]:
        pairs.append(traffic.connect(1)[0])
        client = pairs[-1].client
        sock = client.stream.sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        client.sent = sock.send(traffic.content(client.seed, 0, 1000))
        return lambda: sock.shutdown(socket.SHUT_WR)

    def judge(number: int, _result: object) -> None:
        check(number == 0, f"shutdown ends with {traffic.name(number)}")
        client, server = pairs[-1].ends
        number, data = server.stream.end(limits.seconds(15))
        check(number == 0, f"the stream ends with {traffic.name(number)}")
        check(data == traffic.content(client.seed, 0, client.sent), "the bytes")
        pairs[-1].close()

    # The send may have provided what it needs.
    return f"{faults.each(prepare, judge, least=0)} allocations"


@scenario
def recv_survives_each_failing_allocation() -> str:
    """recv(2) of received bytes: it may need no memory at all."""

    def act(client: traffic.End, server: traffic.End) -> Callable[[], object]:
        client.total = client.sent + 20_000
        while client.sent < client.total:
            client.send()
        limits.until("bytes to read", limits.seconds(20), lambda: not server.stream.is_idle())
        return server.receive

    return _conversation("recv", act, least=0)


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.recv.restype = ctypes.c_ssize_t
LIBC.recv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ROOM = 1 << 20
# Less than one offer has, so that bytes come to pages that are gone by then.
STAYS = 1 << 18


class _EarlyReader:
    """A blocking reader. Its memory is offered to the peer, and most of the memory goes away then."""

    def __init__(self) -> None:
        self.pair = traffic.connect(1)[0]
        self.reader, self.writer = self.pair.server.stream.sock, self.pair.client.stream.sock
        for sock in (self.reader, self.writer):
            sock.setblocking(True)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 30, 0))
        self.data = random.Random(28).randbytes(ROOM)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.room = LIBC.mmap(None, ROOM, protection, kind, -1, 0)
        # A reader that comes early offers its memory after the first ones.
        for _ in range(2):
            self.during(lambda: self.writer.sendall(self.data))
            check(self.recv() == ROOM, "the first bytes")
            self.other.join()

    def during(self, act: Callable[[], object]) -> None:
        """While this thread sleeps in recv()."""
        task = Path(f"/proc/self/task/{threading.get_native_id()}")

        def wait_and_act() -> None:
            limits.until(
                "a reader that sleeps",
                limits.seconds(20),
                lambda: sleeps_in(task, "recvfrom"),
            )
            act()

        self.other = threading.Thread(target=wait_and_act)
        self.other.start()

    def recv(self) -> int:
        """Of the whole room."""
        count = LIBC.recv(self.reader.fileno(), self.room, ROOM, socket.MSG_WAITALL)
        if count < 0:
            raise OSError(ctypes.get_errno(), "recv")
        return count

    def lose_most(self) -> None:
        """Unmaps most of the room, and sends."""
        LIBC.munmap(self.room + STAYS, ROOM - STAYS)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            self.writer.sendall(self.data)
            self.writer.shutdown(socket.SHUT_WR)

    def rest(self, got: int) -> tuple[int, bytes]:
        """The end, and all bytes that came, with the `got` first ones."""
        self.other.join()
        front = ctypes.string_at(self.room, min(got, STAYS))
        self.reader.setblocking(False)
        number, behind = self.pair.server.stream.end(limits.seconds(30))
        LIBC.munmap(self.room, STAYS)
        self.pair.close()
        return number, front + behind


@scenario
def recv_into_memory_that_goes_away_survives_each_failing_allocation() -> str:
    """recv(2) of bytes that lose their memory: the next reader has them, or an error instead of them."""
    faults.needed()
    readers: list[_EarlyReader] = []
    offers = 0

    def prepare(_number: int) -> Callable[[], object]:
        readers.append(_EarlyReader())
        before = leftovers.stats("a")["sinks_received"]

        def lose() -> None:
            nonlocal offers
            # Without memory for an offer there is none.
            with contextlib.suppress(Failure):
                limits.until(
                    "an offer", 1, lambda: leftovers.stats("a")["sinks_received"] > before
                )
                offers += 1
            readers[-1].lose_most()

        readers[-1].during(lose)
        return readers[-1].recv

    def judge(number: int, result: object) -> None:
        _one_of(NO_MEMORY | {errno.EFAULT, errno.ECONNRESET}, "recv")(number, None)
        got = result if isinstance(result, int) else 0
        end, came = readers[-1].rest(got)
        data = readers[-1].data
        check(data.startswith(came), f"{len(came)} bytes that are not the first ones")
        told = errno.ECONNRESET in (number, end)
        check(end in (0, errno.ECONNRESET), f"the end is {traffic.name(end)}")
        check(told or came == data, f"{len(came)} bytes and no error")

    with uncopied.lending():
        count = faults.each(prepare, judge)
    check(offers > count // 2, f"{offers} offers")
    return f"{count} allocations, {offers} offers"


@scenario
def close_survives_each_failing_allocation() -> str:
    """close(2) always succeeds, and the peer learns of it."""
    pairs: list[traffic.Pair] = []

    def prepare(_number: int) -> Callable[[], object]:
        pairs.append(traffic.connect(1)[0])
        fd = pairs[-1].client.stream.sock.detach()
        return lambda: os.close(fd)

    def judge(number: int, _result: object) -> None:
        check(number == 0, f"close ends with {traffic.name(number)}")
        server = pairs[-1].server
        server.stream.end(limits.seconds(15))
        server.close()

    # The message's memory was reserved when the connection was made.
    return f"{faults.each(prepare, judge, least=0)} allocations"


@scenario
def abort_survives_each_failing_allocation() -> str:
    """close(2) with bytes that were not read: the peer is reset."""
    pairs: list[traffic.Pair] = []

    def prepare(_number: int) -> Callable[[], object]:
        pairs.append(traffic.connect(1)[0])
        client, server = pairs[-1].ends
        server.stream.send(bytes(1000))
        client.stream.await_bytes(limits.seconds(20))
        fd = client.stream.sock.detach()
        return lambda: os.close(fd)

    def judge(number: int, _result: object) -> None:
        check(number == 0, f"close ends with {traffic.name(number)}")
        server = pairs[-1].server
        number, _ = server.stream.end(limits.seconds(15))
        check(number == errno.ECONNRESET, f"the peer's end is {traffic.name(number)}")
        server.close()

    # The peer is told by a worker.
    return f"{faults.each(prepare, judge, least=0)} allocations"


@scenario
def send_without_a_page_goes_on_when_there_is_one() -> str:
    """EAGAIN, and an event when there is memory again; the send buffer keeps its size."""
    faults.needed()
    with namespace("b"):
        listener = Listener(B.address(4))
    with namespace("a"):
        client = Connecting(B.address(4), listener.port).stream(limits.seconds(20))
    server = listener.accept(limits.seconds(20))
    sock = client.sock

    def size() -> int:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    before, sent = size(), 0
    epoll = select.epoll()
    epoll.register(sock, select.EPOLLOUT | select.EPOLLET)
    check(len(epoll.poll(limits.seconds(20))) == 1, "it cannot be written at first")
    with faults.random(faults.PAGES, 100) as failed:
        with contextlib.suppress(BlockingIOError):
            while True:
                # The page of earlier calls has some room left.
                sent += sock.send(bytes(4096))
        refused = failed()
    check(refused > 0, "no page was refused")
    check(sent < before // 3, f"{sent} bytes went, as many as the buffer takes")
    check(len(epoll.poll(limits.seconds(20))) == 1, "no event says that it can be written again")
    check(size() == before, f"SO_SNDBUF was {before} and is {size()}")
    client.send(bytes(4096))
    check(len(server.receive(sent + 4096)) == sent + 4096, "the bytes")
    epoll.close()
    client.close()
    server.close()
    return f"{sent} bytes before, {refused} pages refused"
