# SPDX-License-Identifier: MIT
"""OpenSSH: a file copied by scp."""

from __future__ import annotations

import hashlib
import random
import time
from pathlib import Path

from twohosts.failure import check
from twohosts.lab import Case, Lab, Measured, rate

PORT = "2222"
MIB = 1 << 20


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(lab: Lab) -> Measured:
    keys = lab.directory / "keys"
    keys.mkdir(mode=0o700)
    for name in ("host", "user"):
        lab.a.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)])
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    source, copied = lab.directory / "source", lab.directory / "copied"
    size = lab.amount(256, 8) * MIB
    block = random.Random("scp").randbytes(MIB)
    with source.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(4, "big") + block[4:])
    server = lab.wrapped(
        *("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", PORT, "-h", str(keys / "host")),
        *("-o", f"ListenAddress={lab.b.ipv4}", "-o", "StrictModes=no", "-o", "UsePAM=no"),
        *("-o", f"AuthorizedKeysFile={keys / 'user.pub'}", "-o", "PermitRootLogin=yes"),
        *("-o", "Subsystem=sftp internal-sftp", "-o", "PidFile=none"),
    )
    with lab.b.start(server, ready="Server listening"):
        start = time.monotonic()
        lab.a.run(
            lab.wrapped("scp", "-q", "-B", "-P", PORT, "-i", str(keys / "user"))
            + ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
            + [str(source), f"root@{lab.b.ipv4}:{copied}"]
        )
        seconds = time.monotonic() - start
    check(_digest(copied) == _digest(source), "the copy is another file")
    return Measured(rate(size, seconds), size)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("scp", _copy)]
