# SPDX-License-Identifier: MIT
"""The module's counters of transferred bytes: /proc/net/sdpstats of each host.

Each line is a name and a value. This file uses only the names of
counters of stream bytes ("..bytes..sent", "..bytes..received"), to
prove that bytes were transferred over SDP.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import Host

STATS = "/proc/net/sdpstats"
SOCKETS = "/proc/net/sdp"

# Seconds until everything that connections have carried is counted, on slow machines.
SETTLED = 30

# Gauges: current values, which are not sums.
GAUGES = {"established", "orphans", "memory_pages"}

Counters = dict[str, int]


def parse(text: str) -> Counters:
    """Name and value of each line that has both."""
    found: Counters = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*([A-Za-z_][\w.]*)\s*[:=]?\s+(-?\d+)\s*", line)
        if match:
            found[match[1]] = int(match[2])
    return found


def read(host: Host) -> Counters:
    """The counters of a host; a failure if the module is not loaded."""
    text = host.file(STATS)
    if text is None:
        raise Failure(f"no {STATS} on {host.name}: the module is not loaded")
    return parse(text)


def accepted_by_tcp(host: Host) -> int:
    """The number of connections that TCP listeners of a host have accepted."""
    lines = [line.split() for line in (host.file("/proc/net/snmp") or "").splitlines()]
    names, values = (line for line in lines if line and line[0] == "Tcp:")
    return int(values[names.index("PassiveOpens")])


def rather_by_tcp(accepted: int, changes: Iterable[Counters]) -> str:
    """An error text if TCP listeners have accepted more connections than SDP's."""
    opened = sum(change.get("passive_opens", 0) for change in changes)
    return f"{accepted} connections over TCP, {opened} over SDP" if accepted > opened else ""


def difference(before: Counters, after: Counters) -> Counters:
    """The counters that changed, and the differences. Gauges are no counters."""
    return {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value != before.get(name, 0) and name not in GAUGES
    }


def _bytes(changes: Counters, direction: str) -> int:
    return sum(
        value for name, value in changes.items() if "bytes" in name.lower() and direction in name
    )


def sent_bytes(changes: Counters) -> int:
    """Payload bytes sent, by all paths of SDP."""
    return _bytes(changes, "sent")


def received_bytes(changes: Counters) -> int:
    """Payload bytes received, by all paths of SDP."""
    return _bytes(changes, "received")


def settled(payload: int, carried: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Bytes sent and received, as `carried` has them, once both are `payload` or more; what they are
    after `SETTLED` seconds otherwise. Messages of a program's last connections may be counted a
    moment after its end: a peer's DREQ overtakes its last messages, and these are handled behind it.
    """
    deadline = time.monotonic() + SETTLED
    while min(both := carried()) < payload and time.monotonic() < deadline:
        time.sleep(0.1)
    return both


def summary(changes: Iterable[Counters], most: int = 4) -> str:
    """The largest changes, summed over several hosts, in one line."""
    total: Counters = {}
    for one in changes:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    largest = sorted(total.items(), key=lambda item: -abs(item[1]))[:most]
    return " ".join(f"{name}+{short(value)}" for name, value in largest)


def short(value: int) -> str:
    """A number in about six characters."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if abs(value) >= 10 * size:
            return f"{value / size:.0f}{unit}"
        if abs(value) >= size:
            return f"{value / size:.1f}{unit}"
    return str(value)


def open_sockets(host: Host) -> list[str]:
    """The lines of the connection table, without its heading."""
    text = host.file(SOCKETS)
    if text is None:
        raise Failure(f"no {SOCKETS} on {host.name}: the module is not loaded")
    return text.splitlines()[1:]
