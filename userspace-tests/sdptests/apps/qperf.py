# SPDX-License-Identifier: MIT
"""Stock qperf, which has its own SDP tests: it makes sockets of family 27 itself."""

from __future__ import annotations

import re

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured, microseconds, rate


def values(text: str) -> dict[str, int]:
    """The figures of `qperf -uu`, in bytes, bytes per second and nanoseconds."""
    return {
        name: int(value.replace(",", ""))
        for name, value in re.findall(r"^\s+(\w+)\s+=\s+([\d,]+)", text, re.M)
    }


def measure(lab: Lab, test: str, *options: str, seconds: int) -> dict[str, int]:
    """Runs one test from a to b."""
    with lab.b.start(["qperf"]):
        done = lab.a.run(
            # qperf itself waits for its server.
            ["qperf", "--wait_server", "60", "--unify_units", "-vvs", "--time", str(seconds)]
            + [*options, lab.b.ipv4, test]
        )
        found = values(done.stdout)
        figure = "bw" if test.endswith("bw") else "latency"
        parsed(found.get(figure), done.stdout + done.stderr, figure)
        # The bytes read at either end, because a sender that is stopped by the clock also counts
        # bytes that were not sent.
        found["received"] = sum(
            value for name, value in found.items() if name.endswith("recv_bytes")
        )
        check(found["received"] > 0, "nothing was received")
        return found


def _bandwidth(lab: Lab) -> Measured:
    found = measure(lab, f"{lab.family}_bw", "-m", "64K", seconds=lab.amount(5, 2))
    return Measured(rate(found["bw"], 1), found["received"])


def _latency(lab: Lab) -> Measured:
    found = measure(lab, f"{lab.family}_lat", "-m", "64", seconds=lab.amount(5, 2))
    return Measured(microseconds(found["latency"] / 1e9), found["received"])


def cases(lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [
        Case(f"qperf {lab.family}_bw 64 KiB", _bandwidth),
        Case(f"qperf {lab.family}_lat 64 B", _latency),
    ]
