# SPDX-License-Identifier: MIT
"""Stock OpenJDK's selectors, and its web server, over SDP by its own configuration file."""

from __future__ import annotations

import random
import re

from sdptests.apps.java import comparison, compiled, options, runtime
from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured, rate

MIB = 1 << 20
CHANNELS = 16
PORT = 8083


def _selectors(lab: Lab) -> Measured:
    compiled(lab, "Selecting")
    each = lab.amount(4, 1) * MIB // 4
    command = runtime(lab, "Selecting", "server", lab.b.ipv4, str(CHANNELS))
    with lab.b.start(command, ready=r"listening (\d+)") as server:
        address = (lab.b.ipv4, str(server.number()))
        client = lab.a.run(runtime(lab, "Selecting", "client", *address, str(CHANNELS), str(each)))
        served = server.finish()
    compared = comparison(client.stdout)
    echoed = parsed(re.search(r"echoed (\d+)", served), served, "the server's result")
    check(int(compared[1]) == CHANNELS * each, f"{compared[1]} bytes were compared")
    check(compared[1] == echoed[1], f"{echoed[1]} bytes echoed, {compared[1]} compared")
    both_ways = 2 * int(compared[1])
    return Measured(rate(both_ways, int(compared[2]) / 1e9), both_ways)


def _web(lab: Lab) -> Measured:
    compiled(lab, "Fetch")
    directory = lab.directory / "java-served"
    directory.mkdir(exist_ok=True)
    content = directory / "content"
    content.write_bytes(random.Random("java").randbytes(lab.amount(8, 1) * MIB + 3))
    command = ["jwebserver", *(f"-J{option}" for option in options(lab))]
    command += ["-b", lab.b.ipv4, "-p", str(PORT), "-d", str(directory)]
    with lab.b.start(command, ready=f"port {PORT}"):
        url = f"http://{lab.b.ipv4}:{PORT}/content"
        client = lab.a.run(runtime(lab, "Fetch", url, str(content), "4"))
    compared = comparison(client.stdout)
    check(int(compared[1]) == 4 * content.stat().st_size, f"{compared[1]} bytes were compared")
    return Measured(rate(int(compared[1]), int(compared[2]) / 1e9), int(compared[1]))


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("OpenJDK selectors", _selectors), Case("OpenJDK web server", _web)]
