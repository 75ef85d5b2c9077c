# SPDX-License-Identifier: MIT
"""The performance of the device for programs: RDMA Reads of the verbs, by stock perftest."""

from __future__ import annotations

import re
from pathlib import Path

from twohosts.failure import Failure, parsed
from twohosts.hosts import Host

DEVICES = Path("/sys/class/infiniband")


def gid_index(host: Host) -> tuple[str, int]:
    """The device that has the host's IPv4 address as a GID, and the index of that GID."""
    a, b, c, d = map(int, host.ipv4.split("."))
    wanted = f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    for device in sorted(DEVICES.iterdir()):
        port = device / "ports" / "1"
        for entry in (port / "gids").iterdir():
            if entry.read_text().strip() != wanted:
                continue
            kind = port / "gid_attrs" / "types" / entry.name
            if "v2" in kind.read_text():
                return device.name, int(entry.name)
    raise Failure(f"no RDMA device has {host.ipv4} as a GID")


def _run(tool: str, a: Host, b: Host, *options: str) -> str:
    """A perftest program from a to b; returns the client's output."""

    def command(host: Host) -> list[str]:
        device, index = gid_index(host)
        # Line buffered, so that "waiting" is printed at once.
        return ["stdbuf", "-oL", tool, "-F", "-d", device, "-x", str(index), *options]

    with b.start(command(b), ready=r"Waiting for client") as server:
        done = a.run([*command(a), b.ipv4])
        server.finish()
        return done.stdout


def _row(size: int, output: str) -> list[float]:
    """The numbers in the line for messages of that size."""
    row = parsed(re.search(rf"^\s*{size}\s+(\d.*)$", output, re.M), output, f"the line of {size}")
    return [float(cell) for cell in row[1].split()]


def read_bandwidth(a: Host, b: Host, size: int, pairs: int, total: int) -> float:
    """MiB/s of that many bytes in RDMA Reads of `size`, on so many concurrent queue pairs."""
    count = max(5, total // size // pairs)
    options = ("-e", "-s", str(size), "-n", str(count), "-q", str(pairs))
    _iterations, _peak, average, *_ = _row(size, _run("ib_read_bw", a, b, *options))
    return average
