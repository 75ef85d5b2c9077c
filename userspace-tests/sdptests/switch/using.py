# SPDX-License-Identifier: MIT
"""Other calls on a socket that may use SDP or TCP."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable

from sdptests.switch import kinds
from sdptests.switch.kinds import (
    BOTH,
    CLIENTS,
    IP_TRANSPARENT,
    IPPROTO_SDP,
    PATIENCE,
    SDP,
    SDP_FALLBACK_REASON,
    SDP_SOCK_FAMILY,
    SDP_TRANSPORT,
    TCP,
    accepted,
    case,
    equal,
    fails,
    fallbacks,
    forget_peer,
    free_name,
    in_thread,
    libc,
    listener_of,
    raw,
    raw_sdp,
    raw_tcp,
    reason,
    switched,
    talk,
    transport,
)

# Python has no name for it.
SO_PEEK_OFF = 42
SO_ATTACH_REUSEPORT_CBPF = 51
TCP_FASTOPEN_CONNECT = 30
TCP_ULP = 31
TCP_TX_DELAY = 37
IP_PKTINFO = 8
IP_LOCAL_PORT_RANGE = 51
IPV6_MINHOPCOUNT = 73


@case
def a_new_socket_is_open_to_both_and_says_it_is_tcp() -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with switched(family) as sock:
            equal(transport(sock), BOTH)
            equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN), family)
            equal(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL), socket.IPPROTO_TCP)
            equal(sock.family, family)


@case
def options_outlive_the_decision() -> None:
    settings = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 123),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 45),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
        (socket.IPPROTO_IP, socket.IP_TOS, 16),
    )
    for make in (raw_tcp, switched):
        with listener_of(make()) as listener, switched() as client:
            for level, name, value in settings:
                client.setsockopt(level, name, value)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 40_000)
            os.set_inheritable(client.fileno(), True)
            client.connect(listener.getsockname())
            equal(transport(client), TCP if make is raw_tcp else SDP)
            for level, name, value in settings:
                equal((level, name, client.getsockopt(level, name)), (level, name, value))
            equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), 80_000)
            equal(os.get_inheritable(client.fileno()), True)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
            equal(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 0)


def _ports(low: int, high: int) -> bytes:
    """The value of IP_LOCAL_PORT_RANGE."""
    return struct.pack("I", high << 16 | low)


@case
def an_option_that_sdp_has_not_makes_it_tcp() -> None:
    number = struct.Struct("i").pack
    options = (
        (socket.AF_INET, socket.IPPROTO_IP, IP_TRANSPARENT, number(1)),
        (socket.AF_INET, socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, _ports(41_000, 41_003)),
        (socket.AF_INET, socket.IPPROTO_TCP, TCP_TX_DELAY, number(1000)),
        (socket.AF_INET6, socket.IPPROTO_IPV6, IPV6_MINHOPCOUNT, number(2)),
    )
    before = fallbacks()
    for family, level, name, value in options:
        with raw_tcp(family) as listener, switched(family) as client:
            listener.bind(("::1" if family == socket.AF_INET6 else kinds.HOST, 0))
            listener.listen()
            client.setsockopt(level, name, value)
            equal((transport(client), reason(client)), (TCP, errno.EOPNOTSUPP))
            equal((level, name, client.getsockopt(level, name, 4)), (level, name, value))
            client.connect(listener.getsockname())
            if (level, name) == (socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE):
                equal(41_000 <= client.getsockname()[1] <= 41_003, True)
            with accepted(listener) as server:
                talk(client, server)
    equal(fallbacks() - before, len(options))


@case
def a_program_that_spreads_connections_makes_a_listener_tcps() -> None:
    # It returns 1, which selects the second of the sockets that share the port.
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 1))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
    with switched() as one, raw_tcp() as two:
        name = free_name()
        for listener in (one, two):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(name)
            if listener is one:
                listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)
            listener.listen()
        equal((transport(one), reason(one)), (TCP, errno.EOPNOTSUPP))
        for _ in range(4):
            with raw_tcp() as client:
                client.connect(name)
                with accepted(two) as server:
                    talk(client, server)


@case
def an_option_for_tcp_gives_the_port_in_sdp_back() -> None:
    with switched() as sock:
        sock.bind((kinds.HOST, 0))
        name = sock.getsockname()
        sock.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        equal((transport(sock), sock.getsockname()), (TCP, name))
        with raw_sdp() as other:
            other.bind(name)
        sock.listen()
        with raw_tcp() as client:
            client.connect(name)
            with accepted(sock) as server:
                talk(client, server)


@case
def what_tcp_has_not_or_does_without_is_no_reason() -> None:
    before = fallbacks()
    with switched() as sock:
        for level, name, value in (
            # TCP has no such control messages.
            (socket.IPPROTO_IP, IP_PKTINFO, 1),
            (socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1),
            (socket.IPPROTO_TCP, 9999, 1),
            # TCP refuses the first without a connection, and such a range always.
            (socket.IPPROTO_TCP, TCP_ULP, b"tls\0"),
            (socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, _ports(41_003, 41_000)),
        ):
            fails(errno.ENOPROTOOPT, sock.setsockopt, level, name, value)
        equal((transport(sock), reason(sock)), (BOTH, 0))
        with listener_of(raw_sdp()) as listener:
            sock.connect(listener.getsockname())
            equal(transport(sock), SDP)
    equal(fallbacks(), before)


@case
def an_option_for_tcp_comes_too_late_for_what_is_sdps() -> None:
    with listener_of(switched()) as listener, switched() as client, raw_sdp() as plain:
        client.connect(listener.getsockname())
        with accepted(listener) as server:
            for sock, used in ((listener, BOTH), (client, SDP), (server, SDP), (plain, SDP)):
                fails(errno.ENOPROTOOPT, sock.setsockopt, socket.IPPROTO_IP, IP_TRANSPARENT, 1)
                equal((transport(sock), reason(sock)), (used, 0))
            talk(client, server)


@case
def data_of_every_kind_over_the_companion() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.connect(listener.getsockname())
        with accepted(listener) as server, tempfile.TemporaryFile() as file:
            content = os.urandom(300_000)
            file.write(content)
            file.flush()

            def receive() -> bytes:
                return server.recv(len(content), socket.MSG_WAITALL)

            server.settimeout(None)
            client.settimeout(None)
            with in_thread(receive) as results:
                done = 0
                while done < len(content):
                    done += os.sendfile(client.fileno(), file.fileno(), done, len(content) - done)
            equal(results[0] == content, True)
            read, write = os.pipe()
            server.sendall(content[:50_000])
            piped = b""
            while len(piped) < 50_000:
                os.splice(client.fileno(), write, 50_000)
                piped += os.read(read, 65_536)
            equal(piped == content[:50_000], True)
            server.send(b"!", socket.MSG_OOB)
            poll = select.poll()
            poll.register(client, select.POLLPRI)
            equal(poll.poll(PATIENCE * 1000), [(client.fileno(), select.POLLPRI)])
            equal(client.recv(1, socket.MSG_OOB), b"!")


@case
def a_reset_of_the_companion_shows_without_a_wait() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.connect(listener.getsockname())
        with accepted(listener) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        equal(transport(client), TCP)
        limit = time.monotonic() + PATIENCE
        error = 0
        while error == 0 and time.monotonic() < limit:
            error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        equal(error, errno.ECONNRESET)
        equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
        equal(client.recv(1), b"")


@case
def a_peek_offset_of_the_companion_goes_with_its_peer() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.connect(listener.getsockname())
        client.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, 4)
        equal(client.getsockopt(socket.SOL_SOCKET, SO_PEEK_OFF), 4)
        forget_peer(client)
        equal(client.getsockopt(socket.SOL_SOCKET, SO_PEEK_OFF), -1)


@case
def the_protocol_is_another_way_in() -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with raw(family, IPPROTO_SDP) as sock:
            equal(transport(sock), BOTH)
            equal(sock.getsockopt(socket.IPPROTO_TCP, SDP_SOCK_FAMILY), family)
            equal(sock.getsockname()[:2], ("0.0.0.0" if family == socket.AF_INET else "::", 0))
    for make, wanted in ((raw_tcp, TCP), (raw_sdp, SDP)):
        with listener_of(make()) as listener, raw(socket.AF_INET, IPPROTO_SDP) as client:
            client.connect(listener.getsockname())
            equal(transport(client), wanted)
            with accepted(listener) as server:
                talk(client, server)
    with listener_of(raw(socket.AF_INET, IPPROTO_SDP)) as listener:
        for client_of, wanted in CLIENTS:
            with client_of() as client:
                client.connect(listener.getsockname())
                with accepted(listener) as server:
                    equal(transport(server), wanted)


@case
def what_is_bound_stays_bound_whatever_it_becomes() -> None:
    for wanted in (BOTH, TCP):
        with listener_of(raw_tcp()) as listener, switched() as client:
            client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, SDP)
            name = free_name()
            client.bind(name)
            client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, wanted)
            client.connect(listener.getsockname())
            with accepted(listener) as server:
                equal((transport(client), server.getpeername()), (TCP, name))
    with raw_tcp() as taken, switched() as client:
        taken.bind(free_name())
        client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, SDP)
        client.bind(taken.getsockname())
        for wanted in (BOTH, TCP):
            fails(errno.EADDRINUSE, client.setsockopt, socket.IPPROTO_TCP, SDP_TRANSPORT, wanted)
            equal((transport(client), client.getsockname()), (SDP, taken.getsockname()))


@case
def who_becomes_tcp_leaves_sdp_its_port() -> None:
    with raw_sdp() as first, raw_sdp() as second:
        name = free_name()
        first.bind(name)
        fails(errno.EADDRINUSE, second.bind, name)
        first.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, TCP)
        first.listen(1)
        second.bind(name)
        second.listen(1)
        for sock, wanted in ((first, TCP), (second, SDP)):
            equal((transport(sock), sock.getsockname()), (wanted, name))


@case
def who_goes_over_to_tcp_leaves_sdp_its_port() -> None:
    for waits in (True, False):
        with listener_of(raw_tcp()) as listener, switched() as client, raw_sdp() as other:
            name = free_name()
            client.bind(name)
            fails(errno.EADDRINUSE, other.bind, name)
            client.setblocking(waits)
            client.connect_ex(listener.getsockname())
            with accepted(listener) as server:
                client.settimeout(PATIENCE)
                talk(server, client)
            equal((transport(client), client.getsockname()), (TCP, name))
            other.bind(name)


@case
def a_connection_that_was_reset_is_not_made_again() -> None:
    for make in (raw_tcp, switched):
        # The address that is tried again could be reached over TCP.
        with make() as listener, make() as client:
            name = listener_of(listener).getsockname()
            client.setblocking(False)
            equal(client.connect_ex(name), errno.EINPROGRESS)
            with accepted(listener) as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            poll = select.poll()
            poll.register(client, 0)
            equal(len(poll.poll(1000 * PATIENCE)), 1)
            equal(client.connect_ex(name), errno.ECONNRESET)
            client.listen(1)
            equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 1)
            # A thread sleeps in accept() when TCP's connection arrives.
            client.settimeout(None)
            with raw_tcp() as caller:
                with in_thread(lambda client=client: accepted(client)) as came:
                    time.sleep(0.2)
                    caller.connect((kinds.HOST, client.getsockname()[1]))
                with came[0] as server:
                    talk(caller, server)


def _named(call: Callable[..., int], sock: socket.socket, port: int, length: int) -> None:
    """bind() or connect() with a name of SDP's own family."""
    address = struct.pack("=H", kinds.uapi.AF_INET_SDP) + struct.pack("!H", port) + socket.inet_aton(kinds.HOST)
    equal(call(sock.fileno(), address.ljust(length, b"\0"), length), 0)


@case
def names_of_sdps_family_are_names_for_tcp() -> None:
    # A sockaddr_in, alone and within a sockaddr_storage.
    for length in (16, 128):
        with listener_of(raw_tcp()) as listener, raw(kinds.uapi.AF_INET_SDP) as client:
            client.setblocking(True)
            client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, BOTH)
            _named(libc.bind, client, 0, length)
            _named(libc.connect, client, listener.getsockname()[1], length)
            with accepted(listener) as server:
                equal(transport(client), TCP)
                talk(client, server)


@case
def both_halves_are_of_one_family() -> None:
    with raw_sdp() as sock:
        tell = lambda option, value: sock.setsockopt(socket.IPPROTO_TCP, option, value)  # noqa: E731
        tell(SDP_TRANSPORT, BOTH)
        tell(SDP_TRANSPORT, SDP)
        tell(SDP_SOCK_FAMILY, socket.AF_INET6)
        fails(errno.EINVAL, tell, SDP_TRANSPORT, BOTH)
        tell(SDP_SOCK_FAMILY, socket.AF_INET)
        tell(SDP_TRANSPORT, BOTH)


@case
def what_sdp_refuses_tcp_is_not_told() -> None:
    with switched() as sock:
        fails(errno.ENOPROTOOPT, sock.setsockopt, socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        sock.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, TCP)
        equal(sock.getsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT), 0)


@case
def what_tcp_refuses_at_once_is_told_once() -> None:
    # With one local and one peer address: TCP refuses a second such connection.
    with listener_of(raw_tcp()) as listener, raw_tcp() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind((kinds.HOST, 0))
        first.connect(listener.getsockname())
        for waits in (True, False):
            with switched() as second:
                second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                second.bind(first.getsockname())
                second.setblocking(waits)
                if not waits:
                    fails(errno.EINPROGRESS, second.connect, listener.getsockname())
                    equal(len(select.select([], [second], [], PATIENCE)[1]), 1)
                fails(errno.EADDRNOTAVAIL, second.connect, listener.getsockname())
                equal(transport(second), TCP)
                equal(second.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)


@case
def a_signal_tells_of_tcps_connection() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
        try:
            fcntl.fcntl(client, fcntl.F_SETOWN, os.getpid())
            client.setblocking(False)
            flags = fcntl.fcntl(client, fcntl.F_GETFL)
            fcntl.fcntl(client, fcntl.F_SETFL, flags | os.O_ASYNC)
            fails(errno.EINPROGRESS, client.connect, listener.getsockname())
            came = signal.sigtimedwait({signal.SIGIO}, PATIENCE)
            equal(came is None, False)
            equal(transport(client), TCP)
            equal(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            client.setblocking(True)
            fcntl.fcntl(client, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
            with accepted(listener) as server:
                talk(client, server)
        finally:
            while signal.sigtimedwait({signal.SIGIO}, 0):
                pass
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@case
def an_ipv4_socket_goes_to_no_ipv6_address() -> None:
    for make in (raw_tcp, switched, lambda: raw(socket.AF_INET, IPPROTO_SDP)):
        with make() as sock:
            address = struct.pack("=HH4x16s4x", socket.AF_INET6, 0x0100, bytes(15) + b"\1")
            equal(libc.connect(sock.fileno(), address, 28), -1)
            equal(ctypes.get_errno(), errno.EAFNOSUPPORT)
            equal(transport(sock), None if make is raw_tcp else BOTH)


@case
def options_reach_a_companion_that_is_put_aside() -> None:
    with listener_of(raw_tcp()) as listener, switched() as client:
        client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, SDP)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 123)
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 16)
        client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, BOTH)
        client.connect(listener.getsockname())
        equal(transport(client), TCP)
        equal(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 123)
        equal(client.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), 16)


@case
def the_decision_is_made_once() -> None:
    with switched() as sock:
        tell = lambda value: sock.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, value)  # noqa: E731
        fails(errno.EINVAL, tell, 3)
        fails(errno.EINVAL, tell, -1)
        tell(SDP)
        equal(transport(sock), SDP)
        tell(BOTH)
        equal(transport(sock), BOTH)
        tell(TCP)
        tell(TCP)
        fails(errno.EINVAL, tell, SDP)
        equal((transport(sock), reason(sock)), (TCP, 0))
    with listener_of(switched()) as sock:
        fails(errno.EINVAL, sock.setsockopt, socket.IPPROTO_TCP, SDP_TRANSPORT, TCP)
        fails(errno.ENOPROTOOPT, sock.setsockopt, socket.IPPROTO_TCP, SDP_FALLBACK_REASON, 0)
