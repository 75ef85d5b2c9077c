# SPDX-License-Identifier: MIT
"""rmmod and insmod in every state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, module, traffic
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

CYCLES = 5


def _removed(limit: float) -> int:
    """Removes it as soon as possible; returns the number of refusals."""
    refused = 0

    def gone() -> bool:
        nonlocal refused
        done = module.try_remove()
        refused += not done
        return done

    limits.until("rmmod", limit, gone)
    return refused


def _and_back(work: Callable[[], str]) -> str:
    module.file()
    try:
        return work()
    finally:
        if not module.is_loaded():
            module.insert()


@scenario
def module_stays_while_sockets_live() -> str:
    """A new, a bound, a listening and a connected socket: each holds it."""

    def work() -> str:
        with namespace("a"):
            sock = native.make("sdp", "10.0.0.1")
        check(not module.try_remove(), "removed under a new socket")
        with namespace("a"):
            native.bind(sock, "10.0.0.1", 0)
        check(not module.try_remove(), "removed under a bound socket")
        sock.close()
        with namespace("a"):
            listener = Listener("10.0.0.1")
        check(not module.try_remove(), "removed under a listening socket")
        pairs = traffic.connect(1, to="a", listener=listener)
        listener.close()
        check(not module.try_remove(), "removed under a connection")
        pairs[0].client.close()
        check(not module.try_remove(), "removed under half a connection")
        pairs[0].server.close()
        return f"refused {_removed(limits.seconds(15))} times after the last close"

    return _and_back(work)


@scenario
def module_goes_after_load_and_comes_back() -> str:
    """Transfers, closes, rmmod, insmod, many times."""

    def work() -> str:
        refused = []
        for number in range(CYCLES):
            if number:
                module.insert()
            pairs = traffic.connect(limits.amount(12, 5))
            for pair in pairs:
                pair.exchange(limits.amount(300_000, 100_000))
            traffic.finish(pairs, limits.seconds(60))
            for pair in pairs:
                pair.close()
            refused.append(str(_removed(limits.seconds(15))))
        return f"refused {', '.join(refused)} times"

    return _and_back(work)


@scenario
def module_goes_when_the_last_close_has_lingered() -> str:
    """It stays only as long as one side has closed and the other has not."""

    def work() -> str:
        pairs = traffic.connect(limits.amount(20, 8))
        for pair in pairs:
            pair.exchange(50_000)
        ends = traffic.ends_of(pairs)
        traffic.run(
            ends, lambda: all(end.received == 50_000 for end in ends), limits.seconds(30), "data"
        )
        for number, pair in enumerate(pairs):
            pair.ends[number % 2].close()
        check(not module.try_remove(), "removed under connections that are being closed")
        for number, pair in enumerate(pairs):
            pair.ends[1 - number % 2].close()
        refused = _removed(limits.seconds(15))
        module.insert()
        check(not leftovers.tables(), "sockets in a fresh module")
        traffic.works()
        return f"refused {refused} times after the last close"

    return _and_back(work)


@scenario
def module_goes_after_peers_were_given_up() -> str:
    """Orphans with a peer that never closes end by the close timeout, and then hold nothing."""

    def work() -> str:
        pairs = traffic.connect(4)
        for pair in pairs:
            pair.client.close()
        limits.until(
            "the end of the orphans",
            module.CLOSE_TIMEOUT_MS / 1000 + limits.seconds(10),
            lambda: not leftovers.table("a"),
        )
        for pair in pairs:
            pair.server.close()
        return f"refused {_removed(limits.seconds(15))} times"

    return _and_back(work)


@scenario
def module_is_found_by_its_family() -> str:
    """The names by which socket(2) requests the module of an unknown family or protocol."""
    read = Path(module.file()).read_bytes().split(b"\0")
    names = {field.removeprefix(b"alias=") for field in read if field.startswith(b"alias=")}
    check(names == {b"net-pf-27"}, f"its aliases are {sorted(names)}")
    return f"{len(names)} names"
