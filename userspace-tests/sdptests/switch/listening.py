# SPDX-License-Identifier: MIT
"""One descriptor that listens for SDP and TCP."""

from __future__ import annotations

import array
import errno
import os
import select
import socket
import sys

from sdptests.switch import kinds
from sdptests.switch.kinds import (
    BOTH,
    CLIENTS,
    PATIENCE,
    SDP,
    TCP,
    accepted,
    case,
    equal,
    fails,
    forget_peer,
    free_name,
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

# Python has no name for it.
IP_BIND_ADDRESS_NO_PORT = 24


def _reached(
    listener: socket.socket, client: socket.socket, name: tuple[str, int], wanted: int | None
) -> None:
    """The client reaches the listener at that address, over the wanted transport."""
    with client:
        client.connect(name)
        with accepted(listener) as server:
            equal(transport(server), wanted)
            talk(client, server)


@case
def one_listener_accepts_both() -> None:
    with listener_of(switched()) as listener:
        equal(transport(listener), BOTH)
        equal(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 1)
        for _ in range(2):
            for make, wanted in CLIENTS:
                with make() as client:
                    client.connect(listener.getsockname())
                    with accepted(listener) as server:
                        equal(transport(server), wanted)
                        equal(server.getpeername(), client.getsockname())
                        equal(server.getsockname(), listener.getsockname())
                        talk(client, server)


@case
def a_blocking_accept_wakes_for_either() -> None:
    with listener_of(switched()) as listener:
        listener.settimeout(None)
        for make, wanted in CLIENTS:
            with in_thread(lambda: accepted(listener)) as results, make() as client:
                client.connect(listener.getsockname())
            with results[0] as server:
                equal(transport(server), wanted)


@case
def accept_does_not_wait_where_it_must_not() -> None:
    with listener_of(switched()) as listener:
        listener.setblocking(False)
        fails(errno.EAGAIN, listener.accept)
        listener.setblocking(True)
        timeout = array.array("q", [0, 50_000])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout.tobytes())
        fails(errno.EAGAIN, listener.accept)


@case
def poll_select_and_epoll_see_one_listener() -> None:
    early = select.epoll()
    with switched() as listener:
        early.register(listener, select.EPOLLIN)
        listener_of(listener)
        equal(early.poll(0), [])
        late = select.epoll()
        late.register(listener, select.EPOLLIN | select.EPOLLET)
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        listener.setblocking(False)
        for make, wanted in CLIENTS:
            equal(late.poll(0), [])
            equal(poll.poll(0), [])
            with make() as client:
                client.connect(listener.getsockname())
                for waiting in (early, late):
                    equal(waiting.poll(PATIENCE), [(listener.fileno(), select.EPOLLIN)])
                equal(poll.poll(PATIENCE * 1000), [(listener.fileno(), select.POLLIN)])
                equal(select.select([listener], [], [], PATIENCE)[0], [listener])
                with accepted(listener) as server:
                    equal(transport(server), wanted)
            equal(early.poll(0), [])


@case
def accepted_sockets_get_the_flags_they_are_asked_for() -> None:
    with listener_of(switched()) as listener:
        for make, _wanted in CLIENTS:
            with make() as client:
                client.connect(listener.getsockname())
                listener.settimeout(None)
                flags = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
                number = libc.accept4(listener.fileno(), None, None, flags)
                with socket.socket(fileno=number) as server:
                    equal(os.get_inheritable(number), False)
                    equal(os.get_blocking(number), False)
                    fails(errno.EAGAIN, _recv, server)


def _recv(sock: socket.socket) -> bytes:
    return os.read(sock.fileno(), 1)


@case
def a_listener_survives_fork_exec_and_passing_on() -> None:
    # Python does not know the family without the library, so the call is made through ctypes.
    child = (
        "import ctypes, os, sys\n"
        "for _ in range(2):\n"
        "    os.write(ctypes.CDLL(None).accept(int(sys.argv[1]), None, None), b'child')\n"
    )
    with listener_of(switched()) as listener:
        listener.settimeout(None)
        listener.set_inheritable(True)
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        arguments = [sys.executable, "-c", child, str(listener.fileno())]
        process = os.posix_spawn(sys.executable, arguments, environment)
        for make, _wanted in CLIENTS:
            with make() as client:
                client.connect(listener.getsockname())
                equal(client.recv(5, socket.MSG_WAITALL), b"child")
        equal(os.waitpid(process, 0)[1], 0)

        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [listener.fileno()])
        _, (number,), _, _ = socket.recv_fds(other, 1, 1)
        name = listener.getsockname()
        listener.close()
        with socket.socket(fileno=number) as passed:
            for make, wanted in CLIENTS:
                with make() as client:
                    client.connect(name)
                    with accepted(passed) as server:
                        equal(transport(server), wanted)


@case
def a_closed_listener_gives_both_ports_free() -> None:
    with listener_of(switched()) as listener:
        name = listener.getsockname()
    for make, _wanted in CLIENTS:
        with make() as sock:
            fails(errno.ECONNREFUSED, sock.connect, name)
        with make() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(name)
            sock.listen()


@case
def shutdown_of_a_listener_ends_accept() -> None:
    with listener_of(switched()) as listener:
        listener.settimeout(None)

        def wait() -> int:
            try:
                listener.accept()
            except OSError as error:
                return error.errno or 0
            return 0

        with in_thread(wait) as results:
            # Both orders are right: accept() fails at once, or is woken.
            listener.shutdown(socket.SHUT_RDWR)
        equal(results[0], errno.EINVAL)


@case
def a_listener_that_forgets_its_peers_stops_and_can_go_on() -> None:
    for told, clients in ((BOTH, (raw_tcp, raw_sdp)), (TCP, (raw_tcp,))):
        with switched() as listener:
            name = free_name()
            listener.setsockopt(socket.IPPROTO_TCP, kinds.SDP_TRANSPORT, told)
            # The port is chosen by number, and kept.
            listener.bind(name)
            listener.listen(8)
            accepts = lambda: listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)  # noqa: E731
            equal(accepts(), 1)
            forget_peer(listener)
            equal(accepts(), 0)
            for make in clients:
                with make() as client:
                    fails(errno.ECONNREFUSED, client.connect, name)
            listener.listen(8)
            equal(accepts(), 1)
            for make in clients:
                with make() as client:
                    client.connect(name)
                    with accepted(listener) as server:
                        talk(client, server)


@case
def a_port_that_tcp_has_chosen_goes_with_the_listener() -> None:
    for named in (True, False):
        with switched() as listener:
            if named:
                listener.bind((kinds.HOST, 0))
            listener.listen(8)
            forget_peer(listener)
            # TCP takes another port now, and SDP this one.
            listener.listen(8)
            port = listener.getsockname()[1]
            for make, wanted in CLIENTS:
                _reached(listener, make(), (kinds.HOST, port), wanted)


@case
def both_families_of_addresses() -> None:
    with switched(socket.AF_INET6) as listener:
        listener.bind(("::", 0))
        listener.listen()
        port = listener.getsockname()[1]
        for make, wanted in CLIENTS:
            with make() as client:
                client.connect((kinds.HOST, port))
                with accepted(listener) as server:
                    equal(transport(server), wanted)
                    equal(server.getpeername()[0], f"::ffff:{kinds.HOST}")
        for make6, wanted in ((raw_tcp, None), (raw_sdp, SDP)):
            _reached(listener, make6(socket.AF_INET6), ("::1", port), wanted)


@case
def a_taken_port_is_taken() -> None:
    with listener_of(raw_tcp()) as owner, switched() as other:
        fails(errno.EADDRINUSE, other.bind, owner.getsockname())


@case
def a_port_taken_in_sdp_leaves_tcp() -> None:
    with raw_sdp() as owner, switched() as other:
        owner.bind(free_name())
        owner.listen()
        other.bind(owner.getsockname())
        equal((transport(other), reason(other)), (TCP, errno.EADDRINUSE))
        other.listen()
        equal(other.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 1)
        with raw_tcp() as client:
            client.connect(owner.getsockname())
            with accepted(other) as server:
                equal(transport(server), None)
                talk(client, server)


@case
def listen_without_bind_takes_one_port_for_both() -> None:
    with switched() as listener:
        listener.listen()
        equal(transport(listener), BOTH)
        port = listener.getsockname()[1]
        for make, wanted in CLIENTS:
            with make() as client:
                client.connect((kinds.HOST, port))
                with accepted(listener) as server:
                    equal(transport(server), wanted)


@case
def a_port_that_bind_leaves_open_is_one_for_both() -> None:
    with switched() as listener:
        listener.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        listener.bind((kinds.HOST, 0))
        listener.listen(2)
        name = listener.getsockname()
        for make, wanted in CLIENTS:
            _reached(listener, make(), name, wanted)
