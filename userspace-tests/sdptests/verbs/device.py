# SPDX-License-Identifier: MIT
"""The script's side of /dev/sdp_verbs: a command has ended when it returns, and has one answer."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DEVICE = "/dev/sdp_verbs"
MODULES = (os.environ.get("SDP_VERBS_MODULE"), "/run/vm/sdp_verbs.ko", "/mnt/share/sdp_verbs.ko")
# Longer than any answer of the module.
LONGEST = 1 << 20


def load() -> None:
    """Loads the module."""
    if Path(DEVICE).exists():
        return
    for file in filter(None, MODULES):
        if Path(file).exists():
            subprocess.run(["insmod", file], check=True)
            return
    sys.exit("sdp_verbs.ko is not there: set SDP_VERBS_MODULE")


def command(*words: object) -> str:
    """Runs one command; several threads may run one each."""
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(fd, " ".join(str(word) for word in words).encode())
        return os.read(fd, LONGEST).decode()
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Verdict:
    """The result of a command."""

    # "pass", "fail" or "absent": the device does not have it, or is excused.
    result: str
    why: str
    # The lines before the verdict.
    lines: tuple[str, ...]


def verdict(answer: str) -> Verdict:
    """The last line is the verdict."""
    *lines, last = answer.splitlines() or [""]
    result, _, rest = last.partition(" ")
    if not result.startswith("result="):
        return Verdict("fail", f"no verdict: {last}", tuple(lines))
    line, _, why = rest.partition("why=")
    place = f" (line {line.strip().removeprefix('line=')})" if line.startswith("line=") else ""
    return Verdict(result.removeprefix("result="), why + place, tuple(lines))


def figures(answer: str) -> dict[str, str]:
    """The words NAME=VALUE of the first line."""
    first = answer.splitlines()[0] if answer else ""
    return dict(word.split("=", 1) for word in first.split() if "=" in word)


def devices() -> list[str]:
    """The two devices of the namespaces; a machine with one device uses it twice."""
    names = sorted(path.name for path in Path("/sys/class/infiniband").glob("*[ab]"))
    return [names[0], names[-1]] if names else []
