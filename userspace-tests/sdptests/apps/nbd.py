# SPDX-License-Identifier: MIT
"""A disk over the network: nbdkit exports memory; nbdcopy and fio, with its nbd engine, use it.

Not a kernel's NBD disk: the kernel accepts no sockets for that but TCP's and Unix sockets.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured, rate

PORT = "10809"
MIB = 1 << 20
# The requests of a file system to its disk: small pieces of metadata and files, and runs of large files.
FILE_SYSTEM = ("--rw=randrw", "--rwmixread=70", "--bssplit=4k/50:16k/30:128k/20", "--iodepth=16")


def _url(lab: Lab) -> str:
    return f"nbd://{lab.b.ipv4}:{PORT}"


@contextlib.contextmanager
def serving(lab: Lab, size: int) -> Iterator[None]:
    """A disk of that size meanwhile."""
    options = ("--foreground", "--verbose", "--no-fork", "--ipaddr", lab.b.ipv4, "--port", PORT)
    command = lab.wrapped("nbdkit", *options, "memory", str(size))
    with lab.b.start(command, ready="bound to IP address"):
        yield


def written(lab: Lab, path: Path) -> float:
    """The seconds in which nbdcopy copies a file to the disk."""
    start = time.monotonic()
    lab.a.run(lab.wrapped("nbdcopy", str(path), _url(lab)))
    return time.monotonic() - start


def read(lab: Lab, to: str = "null:") -> float:
    """The seconds in which nbdcopy reads the disk, including its zeroes."""
    start = time.monotonic()
    # Without this the server tells which parts are zero, and no program reads them.
    lab.a.run(lab.wrapped("nbdcopy", "--no-extents", _url(lab), to))
    return time.monotonic() - start


def fio(lab: Lab, seconds: int, *options: str) -> tuple[float, float]:
    """Operations per second, and bytes per second."""
    done = lab.a.run(
        lab.wrapped("fio", "--name=disk", "--ioengine=nbd", f"--uri={_url(lab)}", "--thread")
        + ["--time_based", f"--runtime={seconds}", "--output-format=json", *options]
    )
    # Warnings may come before it.
    report = parsed(re.search(r"^{.*", done.stdout, re.M | re.S), done.stdout, "a report")
    job = json.loads(report[0])["jobs"][0]
    check(job["error"] == 0, f"fio ended with error {job['error']}")
    ways = (job["read"], job["write"])
    return sum(way["iops"] for way in ways), sum(way["bw_bytes"] for way in ways)


def _copies(lab: Lab) -> Measured:
    size = lab.amount(64, 8) * MIB
    path, back = lab.directory / "disk", lab.directory / "disk.back"
    with Path("/dev/urandom").open("rb") as random:
        path.write_bytes(random.read(size))
    with serving(lab, size):
        seconds = written(lab, path) + read(lab, str(back))
    check(path.read_bytes() == back.read_bytes(), "what was read is not what was written")
    return Measured(rate(2 * size, seconds), 2 * size)


def _file_system(lab: Lab) -> Measured:
    size, seconds = lab.amount(64, 8) * MIB, lab.amount(5, 2)
    with serving(lab, size):
        # Whatever is read was written before, and is compared.
        verify = ("--verify=crc32c", "--rw=randwrite", "--bs=64k", "--do_verify=1", "--iodepth=8")
        fio(lab, seconds, *verify, f"--size={size}")
        operations, bytes_ = fio(lab, seconds, *FILE_SYSTEM, f"--size={size}")
    check(operations > 0, "no operation was done")
    return Measured(f"{operations:.0f} per s", round(bytes_))


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("nbdcopy", _copies), Case("fio nbd", _file_system)]
