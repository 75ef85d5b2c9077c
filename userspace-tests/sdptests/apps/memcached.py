# SPDX-License-Identifier: MIT
"""memcached with libmemcached's load generator and copying tools."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured

PORT = "11311"
SIZE = 1024


@contextlib.contextmanager
def serving(lab: Lab, *options: str) -> Iterator[None]:
    """A server meanwhile."""
    where = ("-u", "root", "-l", lab.b.ipv4, "-p", PORT, "-U", "0")
    command = lab.wrapped("memcached", *where, "-vv", *options)
    with lab.b.start(command, ready="server listening"):
        yield


def per_second(lab: Lab, operations: int, size: int, *options: str) -> int:
    """The rate of so many operations on values of that size; a tenth set one, the others get it."""
    done = lab.a.run(
        lab.wrapped("memcaslap", "-s", f"{lab.b.ipv4}:{PORT}", "-T", "2", "-c", "8")
        + ["-x", str(operations), "-X", str(size), *options]
    )
    text = done.stdout + done.stderr
    result = parsed(re.search(r"Ops: (\d+) TPS: (\d+)", text), text, "a result")
    check(int(result[1]) >= operations, f"{result[1]} of {operations} operations")
    for what in ("verify_misses", "verify_failed") if "-v" in options else ():
        found = parsed(re.search(rf"{what}: (\d+)", text), text, what)
        check(found[1] == "0", f"{what}: {found[1]}")
    return int(result[2])


def _load(lab: Lab) -> Measured:
    operations = lab.amount(20_000, 1000)
    with serving(lab):
        rate = per_second(lab, operations, SIZE, "-v", "1.0")
    # Keys and protocol overhead are not counted.
    return Measured(f"{rate} per s", operations * SIZE // 2)


def _copy(lab: Lab) -> Measured:
    content = bytes(range(251)) * 4000
    content = content[: 1 << 19]
    (lab.directory / "value").write_bytes(content)
    back = lab.directory / "back"
    servers = f"--servers={lab.b.ipv4}:{PORT}"
    with serving(lab):
        lab.a.run(lab.wrapped("memccp", servers, str(lab.directory / "value")))
        lab.a.run(lab.wrapped("memccat", servers, f"--file={back}", "value"))
    check(back.read_bytes().rstrip(b"\n") == content.rstrip(b"\n"), "another value came back")
    return Measured("the same", 2 * len(content))


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("memcached memcaslap", _load), Case("memcached copy", _copy)]
