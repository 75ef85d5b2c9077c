# SPDX-License-Identifier: MIT
"""Two connected sockets, one in each host, by the kind of stream."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from sdptests.consumers import smc
from sdptests.peer.peer import namespace
from sdptests.twohosts import native, uapi
from sdptests.twohosts.hosts import namespaces

Pair = tuple[socket.socket, socket.socket]
A, B = namespaces()
# include/uapi/linux/sdp.h
ZCOPY_THRESH = uapi.SDP_ZCOPY_THRESH


def _joined(make: Callable[[], socket.socket]) -> Pair:
    """From a to b. A socket stays in the namespace where it was made."""
    with namespace(B.name):
        listener = make()
    with listener:
        native.bind(listener, B.ipv4, 0)
        listener.listen(1)
        with namespace(A.name):
            sock = make()
        native.connect(sock, B.ipv4, native.own_name(listener)[1])
        pair = sock, native.accept(listener)
    # Bytes are sent when they are written, whichever kind of stream carries them.
    for end in pair:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


@contextlib.contextmanager
def _kept(pair: Pair) -> Iterator[Pair]:
    with pair[0], pair[1]:
        yield pair


def sdp(threshold: int | None) -> contextlib.AbstractContextManager[Pair]:
    """SDP with zero copy from so many bytes on; 0 is never, None is the default."""

    def make() -> socket.socket:
        sock = native.make("sdp", B.ipv4)
        if threshold is not None:
            sock.setsockopt(socket.SOL_TCP, ZCOPY_THRESH, threshold)
        return sock

    return _kept(_joined(make))


def tcp() -> contextlib.AbstractContextManager[Pair]:
    """TCP on the same interfaces."""
    return _kept(_joined(lambda: native.make("tcp", B.ipv4)))


def unix() -> contextlib.AbstractContextManager[Pair]:
    """A Unix stream within the machine."""
    return _kept(socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))


@contextlib.contextmanager
def smcd() -> Iterator[Pair]:
    """SMC over the loopback device of the kernel's direct internal buffer sharing.

    The counters show at the end whether that was used: an SMC socket falls back to TCP silently
    if the handshake finds nothing better.
    """
    with smc.over_memory():
        before = smc.counts(A.name)
        with _kept(_joined(lambda: smc.make(B.ipv4))) as pair:
            pair[0].sendall(b"?")
            pair[1].recv(1)
            seen = smc.counts(A.name).since(before)
            if not seen.smcd_bytes:
                why = ", ".join(reason for reason, _count in seen.reasons)
                raise OSError(f"it fell back to TCP: {why or 'no reason told'}")
            yield pair
