# SPDX-License-Identifier: MIT
"""Time and memory of sdp_ss with many connections: docs/seeing.md has a summary."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, traffic
from sdptests.scenarios.network import B
from sdptests.scenarios.register import long_scenario
from sdptests.twohosts.failure import Failure, check

CONNECTIONS = int(os.environ.get("SDP_IDLE") or limits.amount(1000, 600))
BATCH = 250
LOADED = 4
COMMANDS = (["-n"], ["-ni"], ["-np"], ["-nJ"])
# sdp_ss prints each socket at once, so its memory does not depend on their number. With -p it keeps
# a table of the sockets that processes have open.
MEMORY_KIB = 4096
OWNERS_KIB = 4096 + 2 * CONNECTIONS


def _connect() -> list[traffic.Pair]:
    """All connections; each has exchanged a byte."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * CONNECTIONS + 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(hard, files)))
    with namespace("b"):
        listener = Listener(B.address(4), backlog=BATCH)
    pairs: list[traffic.Pair] = []
    while len(pairs) < CONNECTIONS:
        some = traffic.connect(min(BATCH, CONNECTIONS - len(pairs)), listener=listener)
        for pair in some:
            pair.client.stream.send(b"?")
            check(pair.server.stream.receive(1, limits.seconds(20)) == b"?", "the byte")
        pairs += some
    listener.close()
    return pairs


@contextlib.contextmanager
def _load(pairs: Sequence[traffic.Pair]) -> Iterator[None]:
    """These connections transfer all the time, in both directions."""
    stop = threading.Event()
    failures: list[Failure] = []
    for pair in pairs:
        # The byte of the beginning was sent beside the counted stream.
        pair.exchange(traffic.ENDLESS)

    def transfer() -> None:
        try:
            traffic.run(traffic.ends_of(pairs), stop.is_set, 1e9, "load")
        except Failure as failure:
            failures.append(failure)

    thread = threading.Thread(target=transfer)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    for failure in failures:
        raise failure
    for end in traffic.ends_of(pairs):
        check(end.received > 0, f"stream {end.seed} transferred nothing")


def _command(words: Sequence[str]) -> list[str]:
    return ["sdp_ss", "-N", "a", *words]


def _measured(words: Sequence[str]) -> str:
    """Runs sdp_ss on host a; returns lines, seconds, processor time (user + kernel) and memory."""
    begin = time.monotonic()
    process = subprocess.Popen(_command(words), stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0, f"sdp_ss {words} ended with {process.returncode}")
    lines = output.count(b"\n")
    check(lines >= CONNECTIONS, f"sdp_ss {words}: {lines} lines for {CONNECTIONS} connections")
    memory = _memory(words)
    limit = OWNERS_KIB if "-np" in words else MEMORY_KIB
    check(memory < limit, f"sdp_ss {words} used {memory} KiB")
    return (
        f"{' '.join(words)} {lines} lines in {took:.2f} s"
        f" ({usage.ru_utime:.2f} + {usage.ru_stime:.2f}), {memory} KiB"
    )


def _memory(words: Sequence[str]) -> int:
    """Its maximum memory in KiB, when it waits because no program reads its output.

    ru_maxrss is not usable, because it begins with the memory of the parent.
    """
    with subprocess.Popen(_command(words), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.fileno()

        def full() -> bool:
            waiting = bytearray(4)
            fcntl.ioctl(out, termios.FIONREAD, waiting)
            return int.from_bytes(waiting, "little") == mmap.PAGESIZE

        # The smallest one, so that it does not hold all of the output.
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
        limits.until("a full pipe", limits.seconds(20), full)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdout.read()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


@long_scenario
def sdp_ss_lists_many_connections() -> str:
    """All idle, then with load on a few; SDP_IDLE is the number."""
    pairs = _connect()
    figures = ["idle: " + _measured(words) for words in COMMANDS]
    with _load(pairs[:LOADED]):
        figures += [f"{LOADED} with load: " + _measured(words) for words in COMMANDS]
    for pair in pairs:
        pair.close()
    leftovers.await_empty_tables(limits.seconds(200))
    return f"{len(pairs)} connections; " + "; ".join(figures)
