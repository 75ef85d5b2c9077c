# SPDX-License-Identifier: MIT
"""Programs as the ends of connections, under `sdp_run --async` or without it, for flows.Flows.

The program is `flow-end` (userspace-tests/src/bin), which says what its lines mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from sdptests.bench.streams import PATIENCE
from sdptests.twohosts.failure import Failure, parsed
from sdptests.twohosts.hosts import Host, Server, namespaces

PROGRAM = "flow-end"
# Of a computation with nothing else: what disturbs it makes it slower only.
_TIMES = 5
_DONE = r"^done (\d+) (\d+) (\d+)$"


@dataclass(frozen=True)
class Way:
    """How the bytes of a program are sent."""

    family: str
    # SDP_ZCOPY_THRESH; None: the default.
    threshold: int | None = None
    # What starts the program.
    prefix: tuple[str, ...] = ()

    def argv(self, *place: str) -> list[str]:
        """The command line of an end."""
        threshold = "default" if self.threshold is None else str(self.threshold)
        return [*self.prefix, PROGRAM, self.family, threshold, *place]


class Program:
    """An end that runs and obeys."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def say(self, line: str) -> None:
        """Gives it a line."""
        assert self._server.process.stdin is not None
        try:
            self._server.process.stdin.write(line + "\n")
            self._server.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"an end has died:\n{self._server.output()}") from None

    def await_ready(self) -> None:
        """It has its memory."""
        self._server.expect("^ready$", PATIENCE)

    def go(self) -> None:
        """It begins."""
        self.say("go")

    def done(self) -> tuple[float, float, int]:
        """The beginning and the end of its turn, and the stretches of memory that it has lent."""
        found = parsed(self._server.expect(_DONE, PATIENCE), self._server.output(), "the times")
        return int(found[1]) / 1e9, int(found[2]) / 1e9, int(found[3])


@dataclass(frozen=True)
class Pair:
    """Two ends, from a to b."""

    sender: Program
    receiver: Program


@contextlib.contextmanager
def started(way: Way, connections: int) -> Iterator[list[Pair]]:
    """So many connections."""
    here, there = namespaces()
    pairs = []
    with ExitStack() as stack:

        def program(host: Host, *place: str, ready: str) -> Server:
            return stack.enter_context(host.start(way.argv(*place), ready=ready))

        for _ in range(connections):
            receiver = program(there, "listen", there.ipv4, ready=r"^port (\d+)$")
            port = str(receiver.number())
            sender = program(here, "connect", there.ipv4, port, ready="^connected$")
            receiver.expect("^connected$")
            pairs.append(Pair(Program(sender), Program(receiver)))
        yield pairs


@dataclass(frozen=True)
class Task:
    """What the ends of a connection do with messages of one size."""

    size: int
    # Of computation before each message.
    units: int = 0
    # The sender's, used in turn.
    buffers: int = 1
    # Whether it writes to each buffer before it sends it, again and again.
    fills: bool = False
    # Whether each message is answered by one of the same size.
    answered: bool = False

    @property
    def verbs(self) -> tuple[str, str]:
        """Those of the sender and the receiver."""
        return ("ping", "echo") if self.answered else ("send", "receive")


class Bound:
    """A program with a task, as flows.End."""

    def __init__(self, program: Program, verb: str, task: Task, buffers: int) -> None:
        self._program = program
        self._order = f"{verb} {{size}} {{count}} {task.units} {buffers} {int(task.fills)}"
        # The stretches that were lent in the last turn.
        self.lent = 0

    def order(self, size: int, count: int) -> None:
        """Tells it to prepare for so many messages."""
        self._program.say(self._order.format(size=size, count=count))

    def await_ready(self) -> None:
        """Waits until it is prepared."""
        self._program.await_ready()

    def go(self) -> None:
        """Has it begin."""
        self._program.go()

    def times(self) -> tuple[float, float]:
        """The beginning and the end of its turn."""
        begin, end, self.lent = self._program.done()
        return begin, end


def bound(pair: Pair, task: Task) -> tuple[Bound, Bound]:
    """The sender and the receiver with their parts of a task."""
    send, receive = task.verbs
    # An answer has a buffer of its own.
    buffers = (2, 2) if task.answered else (task.buffers, 1)
    return (
        Bound(pair.sender, send, task, buffers[0]),
        Bound(pair.receiver, receive, task, buffers[1]),
    )


def units_per_us(seconds: float) -> float:
    """How much a program computes while nothing else runs: the most of several times."""
    here, _there = namespaces()
    with here.start(Way("tcp").argv("listen", here.ipv4), ready=r"^port (\d+)$") as listener:
        place = ("connect", here.ipv4, str(listener.number()))
        with here.start(Way("tcp").argv(*place), ready="^connected$") as server:
            program = Program(server)
            units = 10_000
            while computing(program, units) < seconds:
                units *= 2
            return units / min(computing(program, units) for _ in range(_TIMES)) / 1e6


def computing(program: Program, units: int) -> float:
    """The seconds that so much takes."""
    program.say(f"compute {units}")
    program.await_ready()
    program.go()
    begin, end, _lent = program.done()
    return end - begin
