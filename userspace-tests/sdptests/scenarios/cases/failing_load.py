# SPDX-License-Identifier: MIT
"""Connections under load while allocations on behalf of the module fail, in calls and workers."""

from __future__ import annotations

import contextlib
import errno
import time

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import faults, limits, traffic
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.scenarios.traffic import End
from sdptests.twohosts.failure import Failure, check

LEGITIMATE = {
    errno.ENOMEM,
    errno.ENOBUFS,
    errno.EAGAIN,
    errno.ENFILE,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ETIMEDOUT,
    errno.EPIPE,
    errno.ENOTCONN,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
}
COUNT = limits.amount(20, 12)
# The minimum number.
ROUNDS = 20 if limits.SOAK else 2
BYTES = 150_000


def _listen() -> Listener:
    for _ in range(100):
        with contextlib.suppress(OSError), namespace("b"):
            return Listener(B.address(4))
    raise Failure("a hundred sockets in a row could not listen")


def _attempts(port: int, seen: set[int]) -> list[Connecting]:
    found = []
    with namespace("a"):
        for _ in range(COUNT):
            try:
                found.append(Connecting(B.address(4), port))
            except OSError as error:
                seen.add(error.errno or 0)
    return found


def _connections(listener: Listener, attempts: list[Connecting], seen: set[int]) -> list[End]:
    """The ends of all established connections."""
    ends = []
    for one in attempts:
        # The connection manager's maximum time.
        if number := one.outcome(limits.seconds(25)):
            seen.add(number)
            one.close()
        else:
            ends.append(End(Stream(one.sock), 1, 2))
    deadline = time.monotonic() + limits.seconds(10)
    while len(ends) < 2 * len(attempts) and time.monotonic() < deadline:
        try:
            ends.append(End(listener.accept(0.5), 2, 1))
        except Failure:
            break
        except OSError as error:
            seen.add(error.errno or 0)
    return ends


def _round(seen: set[int]) -> int:
    """Connects, exchanges bytes, closes; returns how many connections worked to the end."""
    listener = _listen()
    ends = _connections(listener, _attempts(listener.port, seen), seen)
    for end in ends:
        end.total = BYTES
        end.closes = True

    def all_over() -> bool:
        for end in ends:
            # An end with an error closes, so that the peer does not wait.
            if end.end and end.fd >= 0:
                end.close()
        return all(end.over for end in ends)

    names = {end: end.stream.names() for end in ends if end.end is None and _has_names(end)}
    listener.close()
    traffic.run(ends, all_over, limits.seconds(60), "the end of the streams")
    # All accepted ends have the listener's name: only both names are an end's own.
    by_names = {pair: end for end, pair in names.items()}
    good = 0
    for end, (own_name, peer_name) in names.items():
        peer = by_names.get((peer_name, own_name))
        if end.end == 0 and peer is not None:
            check(end.received == peer.sent, f"{end.received} of {peer.sent} bytes, and an end")
            good += end.received == BYTES and end.sent == BYTES
    seen.update(end.end or 0 for end in ends)
    for end in ends:
        end.close()
    return good // 2


def _has_names(end: End) -> bool:
    try:
        end.stream.names()
    except OSError:
        return False
    return True


def _load(kind: str, percent: int) -> str:
    faults.needed()
    seen: set[int] = set()
    good = 0
    with faults.random(kind, percent) as failed:
        rounds = 0
        while (failed() < 30 and rounds < 12) or rounds < ROUNDS:
            good += _round(seen)
            rounds += 1
        count = failed()
    check(count > 0, "no allocation has failed")
    check(seen <= LEGITIMATE | {0}, f"ends: {set(map(traffic.name, seen))}")
    traffic.works()
    traffic.works(to="a", version=6)
    return (
        f"{count} failures in {rounds * COUNT} connections, {good} of them good to the end; "
        f"errors: {' '.join(sorted(map(traffic.name, seen - {0})))}"
    )


@scenario
def load_with_small_allocations_failing() -> str:
    """kmalloc and slab caches, one in fifty."""
    return _load(faults.SLAB, 2)


@scenario
def load_with_page_allocations_failing() -> str:
    """Receive buffers, header pages, fragments: one in twenty."""
    return _load(faults.PAGES, 5)
