# SPDX-License-Identifier: MIT
"""SDP first, then TCP, unnoticed by the program."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gc
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from sdptests.switch import kinds
from sdptests.switch.kinds import (
    PATIENCE,
    SDP,
    TCP,
    accepted,
    case,
    equal,
    fails,
    fallbacks,
    in_thread,
    libc,
    listener_of,
    raw_sdp,
    raw_tcp,
    reason,
    switched,
    talk,
    transport,
)


@case
def connect_prefers_sdp() -> None:
    with listener_of(switched()) as listener, switched() as client:
        client.connect(listener.getsockname())
        equal((transport(client), reason(client)), (SDP, 0))
        with accepted(listener) as server:
            equal(transport(server), SDP)
            talk(client, server)


@case
def connect_turns_to_tcp_where_sdp_is_refused() -> None:
    before = fallbacks()
    for timeout in (kinds.PATIENCE, None):
        with listener_of(raw_tcp()) as listener, switched() as client:
            client.settimeout(timeout)
            client.connect(listener.getsockname())
            equal((transport(client), reason(client)), (TCP, errno.ECONNREFUSED))
            equal(client.getpeername(), listener.getsockname())
            with accepted(listener) as server:
                equal(server.getpeername(), client.getsockname())
                talk(client, server)
                client.shutdown(socket.SHUT_WR)
                equal(server.recv(1), b"")
                server.sendall(b"still")
                equal(client.recv(100, socket.MSG_PEEK), b"still")
                equal(client.recv(100), b"still")
    equal(fallbacks() - before, 2)


@case
def connect_without_waiting_turns_to_tcp_unseen() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.setblocking(False)
        epoll = select.epoll()
        epoll.register(client, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        # An unconnected socket has all events; edge triggered, they are reported only once.
        epoll.poll(0)
        fails(errno.EINPROGRESS, client.connect, listener.getsockname())
        equal(epoll.poll(PATIENCE), [(client.fileno(), select.EPOLLOUT)])
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
        equal((transport(client), reason(client)), (TCP, errno.ECONNREFUSED))
        with accepted(listener) as server:
            server.sendall(b"x")
            equal(epoll.poll(PATIENCE)[0][1] & select.EPOLLIN, select.EPOLLIN)
            equal(client.recv(10), b"x")
            fails(errno.EAGAIN, client.recv, 10)


@case
def a_socket_has_decided_when_it_is_writable() -> None:
    """A poller that does not wait takes the completions itself."""
    with listener_of(switched(), backlog=64) as listener:
        for _ in range(20):
            with switched() as client:
                client.setblocking(False)
                fails(errno.EINPROGRESS, client.connect, listener.getsockname())
                poller = select.poll()
                poller.register(client, select.POLLOUT)
                end = time.monotonic() + PATIENCE
                while not (events := poller.poll(0)) and time.monotonic() < end:
                    pass
                equal(events, [(client.fileno(), select.POLLOUT)])
                equal((transport(client), reason(client)), (SDP, 0))


@case
def connect_turns_to_tcp_where_sdp_has_no_port_left() -> None:
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    before = ports.read_text()
    with listener_of(raw_tcp()) as listener, contextlib.ExitStack() as taken:
        ports.write_text("40000 40003")
        try:
            for _ in range(4):
                taken.enter_context(raw_sdp()).bind((kinds.HOST, 0))
            with switched() as client:
                client.connect(listener.getsockname())
                equal((transport(client), reason(client)), (TCP, errno.EADDRNOTAVAIL))
                with accepted(listener) as server:
                    talk(client, server)
        finally:
            ports.write_text(before)


@case
def who_waits_for_the_connection_goes_over_tcp_with_it() -> None:
    def send(sock: socket.socket) -> bytes:
        sock.sendall(b"some bytes")
        return b""

    def receive(sock: socket.socket) -> bytes:
        return sock.recv(10, socket.MSG_WAITALL)

    def splice(sock: socket.socket) -> bytes:
        read, write = os.pipe()
        moved = os.splice(sock.fileno(), write, 10)
        with os.fdopen(read, "rb") as piped, os.fdopen(write, "wb"):
            return piped.read(moved)

    for wait in (send, receive, splice):
        with listener_of(raw_tcp()) as listener, switched() as client:
            client.setblocking(False)
            fails(errno.EINPROGRESS, client.connect, listener.getsockname())
            client.setblocking(True)
            with in_thread(lambda: wait(client)) as results, accepted(listener) as server:  # noqa: B023
                if wait is send:
                    equal(server.recv(10, socket.MSG_WAITALL), b"some bytes")
                else:
                    server.sendall(b"some bytes")
            equal(results, [b"" if wait is send else b"some bytes"])
            equal(transport(client), TCP)


@case
def connect_without_waiting_can_be_asked_again() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.setblocking(False)
        fails(errno.EINPROGRESS, client.connect, listener.getsockname())
        select.select([], [client], [], PATIENCE)
        result = client.connect_ex(listener.getsockname())
        equal(result in (0, errno.EISCONN), True)
        with accepted(listener) as server:
            server.settimeout(PATIENCE)
            client.setblocking(True)
            talk(client, server)


@case
def connect_without_waiting_to_nobody_tells_once() -> None:
    with raw_tcp() as nobody:
        nobody.bind((kinds.HOST, 0))
        with switched() as client:
            client.setblocking(False)
            fails(errno.EINPROGRESS, client.connect, nobody.getsockname())
            poll = select.poll()
            poll.register(client, select.POLLOUT)
            events = poll.poll(PATIENCE * 1000)[0][1]
            equal(events & (select.POLLERR | select.POLLHUP), select.POLLERR | select.POLLHUP)
            take = lambda: client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # noqa: E731
            equal((take(), take()), (errno.ECONNREFUSED, 0))
            equal(poll.poll(0)[0][1] & select.POLLERR, 0)
        with switched() as client:
            fails(errno.ECONNREFUSED, client.connect, nobody.getsockname())


@case
def descriptors_made_before_the_decision_are_the_same_socket() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        copies = [client.dup(), socket.socket(fileno=os.dup2(client.fileno(), 77))]
        client.connect(listener.getsockname())
        client.close()
        with accepted(listener) as server:
            for copy in copies:
                copy.settimeout(PATIENCE)
                equal(transport(copy), TCP)
                talk(copy, server)
            for copy in copies:
                copy.close()
            equal(server.recv(1), b"")


@case
def copies_of_every_kind_are_the_same_socket() -> None:
    for make, wanted in ((raw_tcp, TCP), (switched, SDP)):
        with listener_of(make()) as listener:
            client = switched()
            client.settimeout(None)
            number = client.detach()
            copies = [
                fcntl.fcntl(number, fcntl.F_DUPFD, 100),
                fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100),
                libc.dup3(number, 150, os.O_CLOEXEC),
            ]
            equal([os.get_inheritable(copy) for copy in copies], [True, False, False])
            equal(libc.close_range(number, number, 0), 0)
            socks = [socket.socket(fileno=copy) for copy in copies]
            socks[1].connect(listener.getsockname())
            with accepted(listener) as server:
                for sock in socks:
                    sock.settimeout(PATIENCE)
                    equal((transport(sock), sock.getpeername()), (wanted, listener.getsockname()))
                    talk(sock, server)
                    sock.close()
                equal(server.recv(1), b"")


@case
def a_child_may_decide_and_so_may_a_program_that_it_starts() -> None:
    program = (
        "import socket, sys\n"
        "socket.socket(fileno=int(sys.argv[1])).connect((sys.argv[2], int(sys.argv[3])))\n"
    )

    def by_fork(client: socket.socket, name: tuple[str, int]) -> int:
        child = os.fork()
        if child == 0:
            os._exit(client.connect_ex(name))
        return child

    def by_exec(client: socket.socket, name: tuple[str, int]) -> int:
        client.set_inheritable(True)
        words = [sys.executable, "-c", program, str(client.fileno()), name[0], str(name[1])]
        return os.posix_spawn(sys.executable, words, dict(os.environ))

    for decide in (by_fork, by_exec):
        for make, wanted in ((raw_tcp, TCP), (switched, SDP)):
            with listener_of(make()) as listener, switched() as client:
                client.settimeout(None)
                child = decide(client, listener.getsockname())
                equal(os.waitpid(child, 0)[1], 0)
                equal((transport(client), client.getpeername()), (wanted, listener.getsockname()))
                with accepted(listener) as server:
                    talk(client, server)


@case
def a_socket_is_one_descriptor() -> None:
    def numbers() -> set[str]:
        return set(os.listdir("/proc/self/fd"))

    gc.collect()
    before = numbers()
    with listener_of(switched()) as listener, switched() as client:
        client.connect(listener.getsockname())
        with accepted(listener) as server:
            ours = {str(sock.fileno()) for sock in (listener, client, server)}
            # The open directory has a descriptor itself.
            equal(ours <= numbers() and len(numbers()) == len(before) + 3, True)
    equal(len(numbers()), len(before))


@case
def an_event_loop_of_many_connections() -> None:
    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(5000))
            await writer.drain()
            writer.close()

        def plain(sock: socket.socket) -> socket.socket:
            listener_of(sock, backlog=64).setblocking(False)
            return sock

        both = await asyncio.start_server(serve, sock=plain(switched()))
        only = await asyncio.start_server(serve, sock=plain(raw_tcp()))

        async def visit(server: asyncio.Server, number: int) -> int | None:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            found = transport(writer.get_extra_info("socket"))
            writer.write(bytes([number]) * 5000)
            equal(await reader.readexactly(5000), bytes([number]) * 5000)
            writer.close()
            return found

        visits = [visit(server, n) for n in range(12) for server in (both, only)]
        found = await asyncio.wait_for(asyncio.gather(*visits), PATIENCE)
        equal(found, [SDP, TCP] * 12)
        both.close()
        only.close()

    asyncio.run(run())


@case
def threads_that_connect_at_once() -> None:
    with listener_of(raw_tcp(), backlog=64) as only, listener_of(switched(), backlog=64) as both:
        found: list[int | None] = []

        def visit(name: tuple[str, int]) -> None:
            for _ in range(4):
                with switched() as client:
                    client.connect(name)
                    found.append(transport(client))

        threads = [
            threading.Thread(target=visit, args=(listener.getsockname(),))
            for listener in (only, both) * 4
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        equal(sorted(str(one) for one in found), ["0"] * 16 + ["2"] * 16)


def _without_a_device() -> None:
    os.unshare(os.CLONE_NEWNET)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    here = "127.0.0.1"
    with raw_tcp() as listener, switched() as client:
        listener.bind((here, 0))
        listener.listen()
        client.connect(listener.getsockname())
        equal((transport(client), reason(client)), (TCP, errno.ENETUNREACH))
        with accepted(listener) as server:
            talk(client, server)
    with switched() as listener, raw_tcp() as client:
        listener.bind((here, 0))
        equal((transport(listener), reason(listener)), (TCP, errno.ENOENT))
        listener.listen()
        client.connect(listener.getsockname())
        with accepted(listener) as server:
            talk(client, server)


@case
def a_host_without_a_device_is_on_tcp() -> None:
    # The namespace belongs to a thread, and ends with it.
    with in_thread(_without_a_device):
        pass
