# SPDX-License-Identifier: MIT
"""Sockets of each kind, and the common checks of the cases."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from sdptests.twohosts import hosts, uapi
from sdptests.twohosts.register import Register

IPPROTO_SDP = uapi.IPPROTO_SDP
IP_TRANSPARENT = 19
SDP_SOCK_FAMILY = uapi.SDP_SOCK_FAMILY
SDP_TRANSPORT = uapi.SDP_TRANSPORT
SDP_FALLBACK_REASON = uapi.SDP_FALLBACK_REASON
SDP, BOTH, TCP = uapi.SDP_TRANSPORT_SDP, uapi.SDP_TRANSPORT_BOTH, uapi.SDP_TRANSPORT_TCP

# Of a case, and of each wait in it. An emulated machine takes seconds to start a program, so only a case that hangs
# reaches it.
PATIENCE = hosts.PATIENCE
HOST = "10.0.0.1"

T = TypeVar("T")

libc = ctypes.CDLL(None, use_errno=True)
_SYS_SOCKET = {"x86_64": 41}.get(os.uname().machine, 198)

CASES: Register[Callable[[], None]] = Register()
case = CASES.add


def raw(family: int, protocol: int = 0) -> socket.socket:
    """A socket from the system call itself."""
    number = libc.syscall(_SYS_SOCKET, family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, protocol)
    if number < 0:
        raise OSError(ctypes.get_errno(), "socket")
    sock = socket.socket(fileno=number)
    sock.settimeout(PATIENCE)
    return sock


def raw_tcp(family: int = socket.AF_INET) -> socket.socket:
    """A TCP socket."""
    return raw(family)


def raw_sdp(family: int = socket.AF_INET) -> socket.socket:
    """An SDP socket."""
    number = raw(uapi.AF_INET_SDP)
    number.setsockopt(socket.IPPROTO_TCP, SDP_SOCK_FAMILY, family)
    # Python reads the family once, when it is given a descriptor.
    sock = socket.socket(fileno=number.detach())
    sock.settimeout(PATIENCE)
    return sock


def switched(family: int = socket.AF_INET) -> socket.socket:
    """The socket of a program that asks for TCP."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE)
    return sock


def transport(sock: socket.socket) -> int | None:
    """The socket's transport; None for a plain TCP socket."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT)
    except OSError as error:
        equal(error.errno, errno.ENOPROTOOPT)
        return None


def reason(sock: socket.socket) -> int:
    """The reason why it is not SDP."""
    return sock.getsockopt(socket.IPPROTO_TCP, SDP_FALLBACK_REASON)


class Skip(Exception):
    """The case cannot run here; the text is the reason."""


def need_bpf() -> None:
    """Skips the case on kernels where no BPF program can hook a function of the kernel."""
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Skip("the kernel has no BTF")


def equal(seen: object, wanted: object) -> None:
    """The values are equal."""
    if seen != wanted:
        raise AssertionError(f"{seen!r} instead of {wanted!r}")


def fails(number: int, call: Callable[..., object], *arguments: object) -> None:
    """The call fails with this errno."""
    try:
        call(*arguments)
    except OSError as error:
        equal(errno.errorcode.get(error.errno or 0), errno.errorcode[number])
    else:
        raise AssertionError(f"no {errno.errorcode[number]}")


def free_name() -> tuple[str, int]:
    """An address and a port that is free in both; one chosen by SDP may be in TIME_WAIT in TCP."""
    while True:
        with raw_tcp() as tcp, raw_sdp() as sdp:
            tcp.bind((HOST, 0))
            with contextlib.suppress(OSError):
                sdp.bind(tcp.getsockname())
                return tcp.getsockname()


def listener_of(sock: socket.socket, host: str = "", backlog: int = 8) -> socket.socket:
    """The socket, bound to a free port and listening."""
    sock.bind((host or HOST, 0))
    sock.listen(backlog)
    return sock


def talk(one: socket.socket, other: socket.socket) -> None:
    """Bytes travel in both directions."""
    for source, sink in ((one, other), (other, one)):
        source.sendall(b"some bytes")
        equal(sink.recv(10, socket.MSG_WAITALL), b"some bytes")


def forget_peer(sock: socket.socket) -> None:
    """connect(2) to AF_UNSPEC."""
    equal(libc.connect(sock.fileno(), bytes(16), 16), 0)


def accepted(listener: socket.socket) -> socket.socket:
    """The next connection, waiting for it."""
    sock, _ = listener.accept()
    sock.settimeout(PATIENCE)
    return sock


@contextlib.contextmanager
def in_thread(work: Callable[[], T]) -> Iterator[list[T]]:
    """Work in another thread; its result is available afterwards."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield results
    thread.join(PATIENCE)
    equal(thread.is_alive(), False)
    if errors:
        raise errors[0]


def fallbacks() -> int:
    """The namespace's counter."""
    for line in Path("/proc/net/sdpstats").read_text().splitlines():
        name, value = line.split()
        if name == "tcp_fallbacks":
            return int(value)
    raise AssertionError("no tcp_fallbacks")


CLIENTS: tuple[tuple[Callable[[], socket.socket], int | None], ...] = (
    (raw_tcp, None),
    (raw_sdp, SDP),
)
