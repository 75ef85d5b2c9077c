# SPDX-License-Identifier: MIT
"""sdp_ss --all-namespaces: which container has which connection."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from sdptests.scenarios import limits, traffic
from sdptests.scenarios.network import command
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import check


@scenario
def sdp_ss_lists_all_namespaces() -> None:
    """Both ends of a connection, each with its namespace; a process in it names the container."""
    pair = traffic.connect(1)[0]
    # A process of a, as a container has one.
    with subprocess.Popen(["ip", "netns", "exec", "a", "sleep", "1000"]) as sleeper:
        limits.until(
            "a process in a",
            limits.seconds(10),
            lambda: Path(f"/proc/{sleeper.pid}/comm").read_text() == "sleep\n",
        )
        rows = json.loads(command("sdp_ss", "-AJ", "state", "established"))
        text = command("sdp_ss", "-An")
        sleeper.kill()
    found = sorted(row["namespace"] for row in rows)
    names = {host: Path(f"/run/netns/{host}").stat().st_ino for host in "ab"}
    check(found == sorted(names.values()), f"{found}, not {names}")
    group = Path("/proc/self/cgroup").read_text().partition("0::")[2].split("\n")[0]
    for line in (f'net:[{names["a"]}] pid {sleeper.pid} "sleep" {group}', f'net:[{names["b"]}] b'):
        check(line.rstrip() in map(str.rstrip, text.splitlines()), f"no {line} in\n{text}")
    check(str(os.stat("/proc/self/ns/net").st_ino) not in text, f"the machine's own:\n{text}")
    traffic.finish([pair], limits.seconds(20))
    pair.close()
