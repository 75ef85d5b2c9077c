# SPDX-License-Identifier: MIT
"""The script's side of /dev/sdp_kernel_sockets: a load has ended when its command returns."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import namespaces

DEVICE = Path("/dev/sdp_kernel_sockets")
MODULE = "sdp_kernel_sockets"
FILES = (
    os.environ.get("SDP_KERNEL_SOCKETS_MODULE"),
    f"/run/vm/{MODULE}.ko",
    f"/mnt/share/{MODULE}.ko",
)
KINDS = ("tcp", "sdp", "smc", "unix")
LOADS = ("ping", "stream", "connections")
# Longer than any answer of the module.
LONGEST = 1 << 12


def load_module() -> None:
    """Loads the module, if it is not there."""
    if DEVICE.exists():
        return
    for file in filter(None, FILES):
        if Path(file).exists():
            subprocess.run(["insmod", file], check=True)
            return
    raise Failure(f"{MODULE}.ko is not there: set SDP_KERNEL_SOCKETS_MODULE")


@dataclass(frozen=True)
class Spent:
    """The work of a load, and its time, in ns."""

    count: int
    # The bytes of all messages one way.
    bytes: int
    wall: int
    # Of the kernel's process, measured by its host; 0 where the kernel is no process.
    outside: int
    # Of all processors, by the kernel's own account.
    busy: int
    # The threads of client and server.
    client: int
    server: int

    @property
    def processor(self) -> int:
        """The best measure of processor time that there is."""
        return self.outside or self.busy


def parsed(answer: str) -> Spent:
    """The figures of an answer, or a failure with the module's reason."""
    first, _, last = answer.strip("\n").rpartition("\n")
    if last != "result=pass":
        raise Failure(last.partition("why=")[2] or f"no result: {answer!r}")
    words = dict(word.split("=", 1) for word in first.split())
    names = ("count", "bytes", "ns", "outside_ns", "busy_ns", "a_ns", "b_ns")
    return Spent(*(int(words[name]) for name in names))


def command(text: str) -> str:
    """Runs one command; several threads may run one each."""
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
        return os.read(fd, LONGEST).decode()
    finally:
        os.close(fd)


def run(load: str, kind: str, size: int, *, hosts: str = "ab", **words: int | str) -> Spent:
    """One load from the first of these hosts to the second."""
    addresses = {host.name: host.ipv4 for host in namespaces()}
    fds = [os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in hosts]
    words = {"a": fds[0], "b": fds[1], "address": addresses[hosts[1]], **words}
    text = " ".join(f"{name}={value}" for name, value in words.items())
    try:
        return parsed(command(f"{load} {kind} size={size} {text}"))
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, str(error.errno))
        raise Failure(f"{load} {kind} size={size} {text}: {reason}") from error
    finally:
        for fd in fds:
            os.close(fd)
