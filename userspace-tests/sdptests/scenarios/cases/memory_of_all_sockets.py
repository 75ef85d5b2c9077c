# SPDX-License-Identifier: MIT
"""The total memory of all SDP sockets: net.sdp.mem."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

LIMITS = Path("/proc/sys/net/sdp/mem")
PAGE = mmap.PAGESIZE
# Every processor counts up to a mebibyte locally before it updates the total.
UNSEEN = (os.cpu_count() or 1) * 256
# Pages: the end of pressure, pressure, the limit.
FEW = (UNSEEN + 512, UNSEEN + 768, UNSEEN + 1024)
PAIRS = 12
# The amount that each writer would put into its socket.
SNDBUF = 4 << 20


@contextlib.contextmanager
def _memory(pages: tuple[int, int, int]) -> Iterator[None]:
    before = LIMITS.read_text()
    LIMITS.write_text(" ".join(map(str, pages)))
    try:
        yield
    finally:
        LIMITS.write_text(before)


def _pages() -> int:
    return leftovers.stats("a")["memory_pages"]


def _no_more(pairs: list[traffic.Pair]) -> int:
    """Writes until no more is accepted; returns the number of bytes."""
    for pair in pairs:
        pair.client.stream.sock.setsockopt(1, traffic.SO_SNDBUFFORCE, SNDBUF // 2)
    taken = -1
    while taken < sum(pair.client.sent for pair in pairs):
        taken = sum(pair.client.sent for pair in pairs)
        for pair in pairs:
            end = pair.client
            with contextlib.suppress(BlockingIOError):
                while True:
                    data = traffic.content(end.seed, end.sent, traffic.CHUNK)
                    end.sent += end.stream.sock.send(data)
    for pair in pairs:
        pair.client.total = pair.client.sent
    return taken


@scenario
def an_orphan_is_reset_when_memory_is_out() -> None:
    """Orphans with much to send are reset; the others end normally."""
    full, empty, *others = traffic.connect(PAIRS)
    # More than the processors count locally.
    for pair in (full, *others):
        traffic.fill(pair.client.stream.sock)
    before = leftovers.stats("a")
    with _memory((1, 2, 3)):
        for pair in (full, empty):
            pair.client.stream.close()
        limits.until(
            "a reset",
            limits.seconds(10),
            lambda: leftovers.stats("a")["orphans_reset"] > before["orphans_reset"],
        )
        check(empty.server.stream.end(limits.seconds(20))[0] == 0, "the end of the empty one")
    after = leftovers.stats("a")
    check(after["orphans_reset"] - before["orphans_reset"] == 1, "one was to be reset")
    for pair in (full, empty):
        pair.server.close()
    for pair in others:
        pair.close()
    leftovers.await_empty_tables()


@scenario
def all_sockets_share_a_limit() -> str:
    """Writers wait, windows keep their size, new connections fail; existing ones continue."""
    pairs = traffic.connect(PAIRS)
    small = traffic.connect(1)[0]
    with namespace("b"):
        listener = Listener(B.address(4))
    waits = leftovers.stats("a")["memory_waits"]
    with _memory(FEW):
        taken = _no_more(pairs)
        most = (FEW[2] + UNSEEN + PAIRS * 16) * PAGE
        check(taken <= most, f"{taken} bytes were taken, with a limit of {FEW[2]} pages")
        check(leftovers.stats("a")["memory_waits"] > waits, "nobody had to wait for memory")
        check(_pages() > FEW[2] - UNSEEN, f"{_pages()} pages with a limit of {FEW[2]}")
    with _memory((1, 2, 3)):
        # A connection without memory continues, a page at a time.
        small.exchange(20_000)
        traffic.run(
            small.ends,
            lambda: all(end.received == 20_000 for end in small.ends),
            limits.seconds(20),
            "a connection that holds little",
        )
        with namespace("a"):
            sock = native.make("sdp", B.address(4))
            try:
                native.connect(sock, B.address(4), listener.port)
                check(False, "a connection was made with memory that there is not")
            except OSError as error:
                # From TCP, if it has no memory for a SYN; or from the peer.
                check(
                    error.errno in (errno.ENOBUFS, errno.ETIMEDOUT),
                    f"connect(): {traffic.name(error.errno)}",
                )
            sock.close()
    traffic.finish([*pairs, small], limits.seconds(60))
    for pair in [*pairs, small]:
        pair.close()
    listener.close()
    leftovers.await_empty_tables()
    limits.until("an empty account", limits.seconds(10), lambda: _pages() <= UNSEEN)
    traffic.works()
    return f"{taken >> 20} MiB taken with a limit of {FEW[2] * PAGE >> 20}"
