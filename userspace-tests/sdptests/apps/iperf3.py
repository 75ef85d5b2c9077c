# SPDX-License-Identifier: MIT
"""iperf3, a TCP program, over SDP by the library."""

from __future__ import annotations

import json

from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.lab import Case, Lab, Measured, rate


def stream(lab: Lab, *options: str) -> Measured:
    """A run with these options of the client."""
    total, seconds = moved(lab, *options)
    return Measured(rate(total, seconds), total)


def moved(lab: Lab, *options: str) -> tuple[int, float]:
    """The bytes received in a run with these options of the client, and its seconds."""
    with lab.b.start(
        lab.wrapped("iperf3", "--server", "--one-off", "--forceflush"), ready=r"[Ss]erver listening"
    ) as server:
        done = lab.a.run(
            lab.wrapped("iperf3", "--client", lab.b.ipv4, "--json")
            + ["--time", str(lab.amount(5, 2)), *options],
            may_fail=True,
        )
        try:
            report = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise Failure(f"no report from iperf3:\n{done.stdout}{done.stderr}") from None
        if "error" in report:
            raise Failure(f"iperf3: {report['error']}\n{server.output()}")
        server.finish()
    ways = [report["end"]["sum_received"]]
    if "--bidir" in options:
        ways.append(report["end"]["sum_received_bidir_reverse"])
    for received in ways:
        check(received["bytes"] > 0, "nothing was received")
    total = sum(received["bytes"] for received in ways)
    return total, ways[0]["seconds"]


def _forward(lab: Lab) -> Measured:
    return stream(lab)


def _reverse(lab: Lab) -> Measured:
    return stream(lab, "--reverse", "--parallel", "2")


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("iperf3", _forward), Case("iperf3 -R -P 2", _reverse)]
