# SPDX-License-Identifier: MIT
"""The memory of connections: figures of both ends, because both are on this machine."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.network import B
from sdptests.scenarios.register import long_scenario
from sdptests.twohosts.failure import check

KNOBS = Path("/proc/sys/net/sdp")
UNACCEPTED = limits.amount(1024, 128)
ORPHANS = limits.amount(1000, 100)
# As many as the guest has memory for.
IDLE = int(os.environ.get("SDP_IDLE") or limits.amount(10_000, 500))
BATCH = 250
BURSTS = limits.amount(100, 40)
# Pages of an idle end, with room for those that processors count ahead.
IDLE_PAGES = 16
# Connections without messages for two seconds return memory; a figure needs no exact moment.
IDLE_SECONDS = 4
ROUNDS = 200


def _files(count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(most, count)))


@contextlib.contextmanager
def _knob(host: str, name: str, value: str) -> Iterator[None]:
    with namespace(host):
        before = (KNOBS / name).read_text()
        (KNOBS / name).write_text(value)
    try:
        yield
    finally:
        with namespace(host):
            (KNOBS / name).write_text(before)


@contextlib.contextmanager
def _first_knob(name: str, value: str) -> Iterator[None]:
    before = (KNOBS / name).read_text()
    (KNOBS / name).write_text(value)
    try:
        yield
    finally:
        (KNOBS / name).write_text(before)


def _figures(count: int, before: int, what: str) -> str:
    used = leftovers.memory() - before
    pages = leftovers.stats("b").get("memory_pages", -1)
    return f"{count} {what}: {used >> 10} MiB, {used / count:.0f} KiB each; {pages} pages accounted"


def _connect(listener: Listener, count: int) -> list[Stream]:
    streams = []
    while len(streams) < count:
        with namespace("a"):
            some = [
                Connecting(listener.address, listener.port)
                for _ in range(min(BATCH, count - len(streams)))
            ]
        streams += [one.stream(limits.seconds(60)) for one in some]
    return streams


@long_scenario
def memory_of_connections_that_nobody_accepts() -> str:
    """Their peers begin with the largest buffers and send until no more is accepted."""
    _files(UNACCEPTED + 200)
    with namespace("b"):
        listener = Listener(B.address(4), backlog=UNACCEPTED)
    with _knob("a", "rcv_size_initial", "32768"):
        before = leftovers.memory()
        streams = _connect(listener, UNACCEPTED)
        taken = 0
        for stream in streams:
            # Bytes that do not arrive shall stay in the program.
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for _ in range(5):
            taken += sum(stream.fill() for stream in streams)
        found = _figures(UNACCEPTED, before, f"not accepted, {taken / UNACCEPTED / 1024:.0f} KiB sent")
        for stream in streams:
            stream.close()
        listener.close()
    leftovers.await_empty_tables(limits.seconds(100))
    return found


@long_scenario
def memory_of_orphans() -> str:
    """Full of unread bytes."""
    _files(ORPHANS + 200)
    with namespace("b"):
        listener = Listener(B.address(4), backlog=ORPHANS)
    # The smaller one counts.
    knob = "close_timeout_ms"
    with _knob("a", knob, "600000"), _first_knob(knob, "600000"):
        before = leftovers.memory()
        streams = _connect(listener, ORPHANS)
        for stream in streams:
            stream.fill()
            stream.close()
        left = leftovers.stats("a")["orphans"]
        found = _figures(ORPHANS, before, f"closed with bytes to send, {left} of them there")
        listener.close()
    leftovers.await_empty_tables(limits.seconds(100))
    return found


def _round_trip(pair: traffic.Pair) -> float:
    """Microseconds of one byte there and one back: the median of many."""
    taken = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        pair.client.stream.send(b"?")
        check(pair.server.stream.receive(1, limits.seconds(20)) == b"?", "the byte")
        pair.server.stream.send(b"!")
        check(pair.client.stream.receive(1, limits.seconds(20)) == b"!", "the byte back")
        taken.append(time.monotonic() - begin)
    return statistics.median(taken) * 1e6


@long_scenario
def memory_of_idle_connections() -> str:
    """Connections that have exchanged one byte."""
    _files(2 * IDLE + 200)
    with namespace("b"):
        listener = Listener(B.address(4), backlog=BATCH)
    one = traffic.connect(1, listener=listener)[0]
    alone = _round_trip(one)
    before = leftovers.memory()
    held = []
    took = []
    while len(held) < IDLE:
        begin = time.monotonic()
        pairs = traffic.connect(min(BATCH, IDLE - len(held)), listener=listener)
        for pair in pairs:
            pair.client.stream.send(b"?")
            check(pair.server.stream.receive(1, limits.seconds(20)) == b"?", "the byte")
        held += pairs
        took.append(time.monotonic() - begin)
    time.sleep(IDLE_SECONDS)
    found = _figures(IDLE, before, "idle connections")
    found += f"; the first {BATCH} in {took[0]:.1f} s, the last in {took[-1]:.1f}"
    found += f"; a round trip alone {alone:.0f} us, among them {_round_trip(one):.0f}"
    begin = time.monotonic()
    for pair in [*held, one]:
        pair.close()
    listener.close()
    leftovers.await_empty_tables(limits.seconds(200))
    return f"{found}; closed in {time.monotonic() - begin:.1f} s"


@long_scenario
def memory_after_a_burst() -> str:
    """An idle connection returns most of its receive buffers, and the last written fragment."""
    with namespace("b"):
        listener = Listener(B.address(4), backlog=BURSTS)
    before = leftovers.memory()
    pairs = traffic.connect(BURSTS, listener=listener)
    for pair in pairs:
        pair.exchange(1 << 20)
    ends = traffic.ends_of(pairs)

    def arrived() -> bool:
        return all(end.received == 1 << 20 for end in ends)

    traffic.run(ends, arrived, limits.seconds(60), "the burst")
    burst = leftovers.stats("b")["memory_pages"]

    def returned() -> bool:
        return leftovers.stats("b")["memory_pages"] <= IDLE_PAGES * 2 * BURSTS

    took = limits.until("the return of memory", limits.seconds(20), returned)
    left = leftovers.memory() - before
    for pair in pairs:
        pair.close()
    listener.close()
    leftovers.await_empty_tables(limits.seconds(60))
    return (
        f"{BURSTS} connections: {burst} pages accounted after a burst, {took:.0f} s later"
        f" {left / BURSTS:.0f} KiB each in use"
    )
