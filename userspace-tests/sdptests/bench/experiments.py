# SPDX-License-Identifier: MIT
"""The experiments of the AZ-SDP paper (2006), as tasks of programs, by the column of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sdptests.bench.flow_programs import Task
from sdptests.bench.table import KIB, label

THROUGHPUT, LATENCY, OVERLAP, FAULTS, CONNECTIONS = (
    "throughput",
    "latency",
    "overlap",
    "faults",
    "connections",
)
KINDS = (THROUGHPUT, LATENCY, OVERLAP, FAULTS, CONNECTIONS)
# Below this length --async passes sends through: rust/async/src/lend.rs
LEAST = 64 * KIB
# A process for which lending does not pay lends 16 sends, then none of 64, 16 again, none of 128: see
# rust/async/src/ledger/benefit.rs.
CYCLES = 256
# The amounts of computation, as parts of the time of one blocking send.
PARTS = (0, 0.25, 0.5, 1, 2, 4)
WINDOWS = (1, 2, 4, 8, 16)
SIZES = (64 * KIB, 256 * KIB)
STREAM = 128 * KIB


@dataclass(frozen=True)
class Experiment:
    """What is measured in the columns of a table."""

    kind: str
    title: str
    columns: Sequence[int]
    # The heading of a column, and its task.
    name: Callable[[int], str]
    task: Callable[[int], Task]
    # How many connections work at a time.
    connections: Callable[[int], int] = lambda _column: 1
    # The least number of messages.
    least: int = 2
    # The column in which computation takes as long as a blocking send.
    balanced: int = 0


def throughput(sizes: Sequence[int], buffers: int) -> Experiment:
    """By the size of messages."""
    return Experiment(
        THROUGHPUT,
        "throughput by the size of messages",
        sizes,
        label,
        lambda size: Task(size, buffers=buffers),
    )


def latency(sizes: Sequence[int]) -> Experiment:
    """By the size of messages."""
    return Experiment(
        LATENCY,
        "latency, one way",
        sizes,
        label,
        lambda size: Task(size, answered=True),
    )


def overlap(size: int, buffers: int, send_us: float, units_per_us: float) -> Experiment:
    """By the computation before each send, in us."""
    amounts = {part: round(send_us * part) for part in PARTS}
    return Experiment(
        OVERLAP,
        f"computation between sends of {label(size)}",
        sorted(set(amounts.values())),
        lambda us: f"{us} us",
        lambda us: Task(size, units=round(us * units_per_us), buffers=buffers),
        balanced=amounts[1],
    )


def faults(size: int) -> Experiment:
    """By the number of buffers, each of which is written to before it is sent."""
    return Experiment(
        FAULTS,
        f"buffers that are written to, {label(size)}",
        WINDOWS,
        str,
        lambda buffers: Task(size, buffers=buffers, fills=True),
        least=CYCLES,
    )


def connections(numbers: Sequence[int], buffers: int) -> Experiment:
    """By the number of connections."""
    return Experiment(
        CONNECTIONS,
        f"connections at once, {label(STREAM)}",
        numbers,
        str,
        lambda _number: Task(STREAM, buffers=buffers),
        connections=lambda number: number,
    )
