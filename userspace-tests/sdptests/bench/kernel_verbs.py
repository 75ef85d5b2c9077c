# SPDX-License-Identifier: MIT
"""The performance of a device itself: kernel verbs, by userspace-tests/verbs.

The measurements are the same for each device, including those without a user-space library.
Completions come as events unless stated otherwise, like for a socket with a sleeping reader.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sdptests.bench import layers
from sdptests.bench.gauge import KERNEL, Gauge
from sdptests.bench.streams import MIB, Rate, Trip, per_mib
from sdptests.twohosts.failure import Failure
from sdptests.verbs import device

OPERATIONS = ("SEND", "READ", "WRITE")
# In flight at a time: a stream has as many messages, or as many as fit.
DEPTH = 16
# Messages of a measurement in turn.
MOST = 20000


def _command(*words: object) -> dict[str, str]:
    answer = device.command(*words)
    found = device.verdict(answer)
    if found.result != "pass":
        raise Failure(f"{' '.join(map(str, words))}: {found.why}")
    return device.figures(answer)


def copy(size: int, seconds: float) -> float:
    """MiB/s of a plain memcpy."""
    return float(_command("copy", f"size={size}", f"ms={round(1000 * seconds)}")["mib_per_s"])


def rate(
    operation: str, size: int, seconds: float, symbols: layers.Symbols, connections: int = 1
) -> Rate:
    """The rate of operations of that size on so many pairs of queues at once.

    The times include the creation of queue pairs.
    """
    words = (f"op={operation.lower()}", f"size={size}", f"depth={DEPTH}", "polled=0")
    command = ("speed", *device.devices(), *words, f"ms={round(1000 * seconds)}")
    # A command waits in the kernel, where the interpreter's threads do not wait for each other.
    with Gauge(symbols) as gauge, ThreadPoolExecutor(connections) as threads:
        started = [threads.submit(_command, *command) for _ in range(connections)]
        found = [one.result() for one in started]
    total = max(1, sum(int(one["operations"]) for one in found)) * size
    wall = total / MIB / sum(float(one["mib_per_s"]) for one in found)
    return Rate(total / MIB / gauge.took(0, wall), per_mib(gauge.seconds(), total))


def _pings(size: int, count: int, seconds: float, *, polled: bool) -> dict[str, str]:
    words = (f"size={size}", f"polled={int(polled)}", f"count={count}")
    return _command("latency", *device.devices(), *words, f"ms={round(1000 * seconds)}")


def one_way(size: int, seconds: float, symbols: layers.Symbols, *, polled: bool) -> Trip:
    """Half of the round-trip time of a SEND: the mean of processor time, or the median of time."""
    with Gauge(symbols) as gauge:
        found = _pings(size, MOST, seconds, polled=polled)
    half = 1e6 / int(found["count"]) / 2
    wall = int(found["median_ns"]) / 1000 / half
    kernel = gauge.seconds().get(KERNEL)
    return Trip(gauge.took(0, wall) * half, None if kernel is None else kernel * half)


def ping(size: int, count: int) -> int:
    """Messages in each direction, in turn, with events; returns their number, at most `count`."""
    return int(_pings(size, count, 60, polled=False)["count"])
