# SPDX-License-Identifier: MIT
"""Stock OpenJDK, which has SDP support of its own, with an echo server and client."""

from __future__ import annotations

import re

from twohosts.failure import check, parsed
from twohosts.lab import APPS, Case, Lab, Measured, rate

MIB = 1 << 20


def _runtime(lab: Lab, *arguments: str) -> list[str]:
    # Without the server compiler: it would take longer to optimise than there is to do.
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx64m", "-XX:+UseSerialGC"]
    if lab.family == "sdp":
        rules = lab.directory / "sdp.conf"
        rules.write_text("bind * *\nconnect * *\n")
        # Java's SDP is for IPv4 alone, and it has to be told so.
        command += [f"-Dcom.sun.sdp.conf={rules}", "-Djava.net.preferIPv4Stack=true"]
    return [*command, "-cp", str(lab.directory), "Echo", *arguments]


def _echo(lab: Lab) -> Measured:
    lab.a.run(
        ["javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d"]
        + [str(lab.directory), str(APPS / "java" / "Echo.java")]
    )
    total = lab.amount(16, 1) * MIB
    with lab.b.start(_runtime(lab, "server", lab.b.ipv4), ready=r"listening (\d+)") as server:
        client = lab.a.run(_runtime(lab, "client", lab.b.ipv4, str(server.number()), str(total)))
        served = server.finish()
    compared = parsed(
        re.search(r"compared (\d+) nanoseconds (\d+)", client.stdout), client.stdout, "a result"
    )
    echoed = parsed(re.search(r"echoed (\d+)", served), served, "the server's result")
    check(int(compared[1]) >= total, f"{compared[1]} of {total} bytes were compared")
    check(compared[1] == echoed[1], f"{echoed[1]} bytes echoed, {compared[1]} compared")
    both_ways = 2 * int(compared[1])
    return Measured(rate(both_ways, int(compared[2]) / 1e9), both_ways)


def cases(_lab: Lab) -> list[Case]:
    """What this program is run for."""
    return [Case("OpenJDK echo", _echo)]
