# SPDX-License-Identifier: MIT
"""Stock OpenJDK, which has its own SDP support, with an echo server and client."""

from __future__ import annotations

import re

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import APPS, Case, Lab, Measured, rate

MIB = 1 << 20


def options(lab: Lab) -> list[str]:
    """Options of the runtime."""
    # Without the server compiler, because optimising would take longer than the run.
    found = ["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx64m", "-XX:+UseSerialGC"]
    if lab.family == "sdp":
        rules = lab.directory / "sdp.conf"
        rules.write_text("bind * *\nconnect * *\n")
        # Java's SDP supports IPv4 only, and an option has to select that.
        found += [f"-Dcom.sun.sdp.conf={rules}", "-Djava.net.preferIPv4Stack=true"]
    return found


def runtime(lab: Lab, *arguments: str) -> list[str]:
    """The command for a class and its arguments."""
    return ["java", *options(lab), "-cp", str(lab.directory), *arguments]


def compiled(lab: Lab, name: str) -> None:
    """Compiles a class."""
    lab.a.run(
        ["javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d"]
        + [str(lab.directory), str(APPS / "java" / f"{name}.java")]
    )


def comparison(said: str) -> re.Match[str]:
    """Bytes and nanoseconds, from the clients' output."""
    return parsed(re.search(r"compared (\d+) nanoseconds (\d+)", said), said, "a result")


def _echo(lab: Lab) -> Measured:
    compiled(lab, "Echo")
    total = lab.amount(16, 1) * MIB
    server_command = runtime(lab, "Echo", "server", lab.b.ipv4)
    with lab.b.start(server_command, ready=r"listening (\d+)") as server:
        address = (lab.b.ipv4, str(server.number()))
        client = lab.a.run(runtime(lab, "Echo", "client", *address, str(total)))
        served = server.finish()
    compared = comparison(client.stdout)
    echoed = parsed(re.search(r"echoed (\d+)", served), served, "the server's result")
    check(int(compared[1]) >= total, f"{compared[1]} of {total} bytes were compared")
    check(compared[1] == echoed[1], f"{echoed[1]} bytes echoed, {compared[1]} compared")
    both_ways = 2 * int(compared[1])
    return Measured(rate(both_ways, int(compared[2]) / 1e9), both_ways)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("OpenJDK echo", _echo)]
