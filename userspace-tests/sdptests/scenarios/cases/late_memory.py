# SPDX-License-Identifier: MIT
"""Calls that wait for memory of their program hold back no work of other sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import limits, traffic
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.late_file import late_file, mapped
from sdptests.scenarios.network import B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check


def _workers_that_wait() -> list[str]:
    """Stacks of the kernel's workers that wait for a call that owns a socket."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().startswith("kworker"):
                stack = (process / "stack").read_text()
                if "lock_sock" in stack:
                    found.append(stack)
    return found


def _write_late(line: Line, path: str, port: int) -> None:
    # No worker runs between the two calls.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    memory = mapped(path)
    with contextlib.closing(native.connected("sdp", B.address(4), port)) as sock:
        line.say("connected")
        line.hear()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.send(memory)


@scenario
def workers_do_not_wait_for_memory_of_programs() -> str:
    """Writers wait for pages that do not come; workers leave their sockets alone meanwhile."""
    with namespace("b"):
        listener = Listener(B.address(4))
    writers: list[Actor] = []
    try:
        with late_file() as path:
            writers += [Actor("a", _write_late, path, listener.port) for _ in range(4)]
            for writer in writers:
                writer.word(limits.seconds(10))
            for writer in writers:
                writer.tell("write")
            for writer in writers:
                limits.until(
                    "a wait for the page",
                    limits.seconds(20),
                    lambda w=writer: "handle_mm_fault" in w.stack(),
                )
            # The workers have had their turn.
            time.sleep(0.5)
            waiting = _workers_that_wait()
            check(not waiting, "\n".join(waiting))
    finally:
        for writer in writers:
            writer.end()
    listener.close()
    traffic.works()
    return f"{len(writers)} writers wait"
