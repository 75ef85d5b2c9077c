# SPDX-License-Identifier: MIT
"""Pages with a single byte each that a program passes by splice()."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

from sdptests.scenarios import limits, traffic
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check

PAGE = mmap.PAGESIZE
PAGES = 512
# In pages: SO_SNDBUF of the namespaces, and the bytes that a peer accepts without reading.
MOST = 400

_libc = ctypes.CDLL(None, use_errno=True)


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _give(into: int, memory: mmap.mmap, first: int, count: int) -> int:
    """vmsplice(2) of the first byte of each of so many pages."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pieces = (_Piece * count)(*((start + (first + i) * PAGE, 1) for i in range(count)))
    given = _libc.vmsplice(into, pieces, count, 0)
    check(given > 0, f"vmsplice: {os.strerror(ctypes.get_errno())}")
    return int(given)


@scenario
def single_bytes_of_pages_fill_a_socket() -> str:
    """The whole pages are charged, or a program could hide memory behind a socket."""
    pair = traffic.connect(1)[0]
    sock = pair.client.stream.sock
    out, into = os.pipe()
    taken = 0
    memory = mmap.mmap(-1, PAGES * PAGE)
    try:
        with contextlib.suppress(BlockingIOError):
            while taken < 8 * MOST:
                left = _give(into, memory, taken % (PAGES - 16), 16)
                while left:
                    moved = os.splice(out, sock.fileno(), left, flags=os.SPLICE_F_NONBLOCK)
                    left -= moved
                    taken += moved
        check(taken <= MOST, f"{taken} pages of one byte each were taken")
        check(taken > 16, f"only {taken} were")
        # All bytes arrive, and then there is room again.
        data = pair.server.stream.receive(taken, limits.seconds(20))
        check(data == bytes(taken), "the bytes")
        pair.client.stream.send(b"room", limits.seconds(20))
        rest = pair.server.stream.receive(4, limits.seconds(20))
        check(rest == b"room", f"{rest!r} after them")
    finally:
        os.close(out)
        os.close(into)
        pair.close()
    return f"{taken} pages"
