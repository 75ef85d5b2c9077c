# SPDX-License-Identifier: MIT
"""sockperf: the latency of a message."""

from __future__ import annotations

import re

from twohosts.failure import check, parsed
from twohosts.lab import Case, Lab, Measured, microseconds

PORT = "11111"
SIZE = 64


def _ping_pong(lab: Lab) -> Measured:
    where = ["--tcp", "-i", lab.b.ipv4, "-p", PORT]
    with lab.b.start(lab.wrapped("stdbuf", "-oL", "sockperf", "server", *where), ready="listen on"):
        done = lab.a.run(
            lab.wrapped("sockperf", "ping-pong", *where)
            + ["-t", str(lab.amount(10, 3)), "-m", str(SIZE), "--data-integrity"]
        )
    text = done.stdout
    counts = parsed(
        re.search(r"\[Total Run\].*SentMessages=(\d+); ReceivedMessages=(\d+)", text),
        text,
        "counts",
    )
    check(int(counts[2]) > 0, "no message came back")
    latency = parsed(re.search(r"Latency is ([\d.]+) usec", text), text, "a latency")
    return Measured(microseconds(float(latency[1]) / 1e6), 2 * int(counts[2]) * SIZE)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("sockperf ping-pong", _ping_pong)]
