# SPDX-License-Identifier: MIT
"""OpenSSH: a file copied by scp."""

from __future__ import annotations

import contextlib
import hashlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

from sdptests.twohosts.failure import check
from sdptests.twohosts.lab import Case, Lab, Measured, rate

PORT = "2222"
MIB = 1 << 20


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _keys(lab: Lab) -> Path:
    """The keys of the server and of its user; made once."""
    keys = lab.directory / "keys"
    if not keys.exists():
        keys.mkdir(mode=0o700)
        for name in ("host", "user"):
            lab.a.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)])
    return keys


@contextlib.contextmanager
def serving(lab: Lab) -> Iterator[None]:
    """A server meanwhile."""
    keys = _keys(lab)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = lab.wrapped(
        *("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", PORT, "-h", str(keys / "host")),
        *("-o", f"ListenAddress={lab.b.ipv4}", "-o", "StrictModes=no", "-o", "UsePAM=no"),
        *("-o", f"AuthorizedKeysFile={keys / 'user.pub'}", "-o", "PermitRootLogin=yes"),
        *("-o", "Subsystem=sftp internal-sftp", "-o", "PidFile=none"),
    )
    with lab.b.start(server, ready="Server listening"):
        yield


def source(lab: Lab, size: int) -> Path:
    """A file with blocks that differ."""
    path = lab.directory / "source"
    block = random.Random("scp").randbytes(MIB)
    with path.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(4, "big") + block[4:])
    return path


def copy(lab: Lab, path: Path) -> tuple[Path, float]:
    """The copy of a file, and the seconds it took, including the connection's."""
    copied = lab.directory / "copied"
    start = time.monotonic()
    lab.a.run(
        lab.wrapped("scp", "-q", "-B", "-P", PORT, "-i", str(_keys(lab) / "user"))
        + ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        + [str(path), f"root@{lab.b.ipv4}:{copied}"]
    )
    return copied, time.monotonic() - start


def _copy(lab: Lab) -> Measured:
    size = lab.amount(256, 8) * MIB
    path = source(lab, size)
    with serving(lab):
        copied, seconds = copy(lab, path)
    check(_digest(copied) == _digest(path), "the copy is another file")
    return Measured(rate(size, seconds), size)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("scp", _copy)]
