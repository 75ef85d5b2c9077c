# SPDX-License-Identifier: MIT
"""sockperf: the latency of a message."""

from __future__ import annotations

import re

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured, microseconds

PORT = "11111"
SIZE = 64


def one_way(lab: Lab, seconds: int, *options: str, size: int = SIZE) -> tuple[float, int]:
    """The time of a message in us, and the number of answers."""
    where = ["--tcp", "-i", lab.b.ipv4, "-p", PORT]
    # Connections of an earlier server may be in TIME_WAIT at its port; SMC's end there.
    server = lab.wrapped("stdbuf", "-oL", "sockperf", "server", *where, "--uc-reuseaddr")
    with lab.b.start(server, ready="listen on"):
        done = lab.a.run(
            lab.wrapped("sockperf", "ping-pong", *where)
            + ["-t", str(seconds), "-m", str(size), *options]
        )
    text = done.stdout
    counts = parsed(
        re.search(r"\[Total Run\].*SentMessages=(\d+); ReceivedMessages=(\d+)", text),
        text,
        "counts",
    )
    check(int(counts[2]) > 0, "no message came back")
    latency = parsed(re.search(r"Latency is ([\d.]+) usec", text), text, "a latency")
    return float(latency[1]), int(counts[2])


def _ping_pong(lab: Lab) -> Measured:
    latency, answers = one_way(lab, lab.amount(10, 3), "--data-integrity")
    return Measured(microseconds(latency / 1e6), 2 * answers * SIZE)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("sockperf ping-pong", _ping_pong)]
