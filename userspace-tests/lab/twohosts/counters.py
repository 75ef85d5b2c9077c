# SPDX-License-Identifier: MIT
"""The module's own account of what it carried: /proc/net/sdpstats of each host.

A line is a name and a value. Which names there are is the module's business; here only
those that count stream bytes ("..bytes..sent", "..bytes..received") are looked for, as the
proof that bytes went over SDP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from twohosts.failure import Failure
from twohosts.hosts import Host

STATS = "/proc/net/sdpstats"
SOCKETS = "/proc/net/sdp"

Counters = dict[str, int]


def parse(text: str) -> Counters:
    """Name and value of each line that has the two."""
    found: Counters = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*([A-Za-z_][\w.]*)\s*[:=]?\s+(-?\d+)\s*", line)
        if match:
            found[match[1]] = int(match[2])
    return found


def read(host: Host) -> Counters:
    """The counters of a host; a failure when the module is not there."""
    text = host.file(STATS)
    if text is None:
        raise Failure(f"no {STATS} on {host.name}: the module is not loaded")
    return parse(text)


def accepted_by_tcp(host: Host) -> int:
    """How many connections TCP's listeners of a host have had."""
    lines = [line.split() for line in (host.file("/proc/net/snmp") or "").splitlines()]
    names, values = (line for line in lines if line and line[0] == "Tcp:")
    return int(values[names.index("PassiveOpens")])


def rather_by_tcp(accepted: int, changes: Iterable[Counters]) -> str:
    """What is wrong if TCP's listeners have had more connections than SDP's."""
    opened = sum(change.get("passive_opens", 0) for change in changes)
    return f"{accepted} connections over TCP, {opened} over SDP" if accepted > opened else ""


def difference(before: Counters, after: Counters) -> Counters:
    """What changed, by how much."""
    return {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value != before.get(name, 0)
    }


def _bytes(changes: Counters, direction: str) -> int:
    return sum(
        value for name, value in changes.items() if "bytes" in name.lower() and direction in name
    )


def sent_bytes(changes: Counters) -> int:
    """Payload bytes sent, by whatever way of SDP."""
    return _bytes(changes, "sent")


def received_bytes(changes: Counters) -> int:
    """Payload bytes received, by whatever way of SDP."""
    return _bytes(changes, "received")


def summary(changes: Iterable[Counters], most: int = 4) -> str:
    """The largest changes of several hosts together, in one line."""
    total: Counters = {}
    for one in changes:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    largest = sorted(total.items(), key=lambda item: -abs(item[1]))[:most]
    return " ".join(f"{name}+{short(value)}" for name, value in largest)


def short(value: int) -> str:
    """A number in at most six characters or so."""
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
