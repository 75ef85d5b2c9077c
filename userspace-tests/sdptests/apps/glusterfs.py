# SPDX-License-Identifier: MIT
"""GlusterFS: files of host a, mounted on host b; their contents are compared.

GlusterFS has its own address family for SDP, `inet-sdp`; with `inet` it is a TCP program.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path

from sdptests.twohosts.failure import check
from sdptests.twohosts.lab import APPS, Case, Lab, Measured, rate

PORT = "24107"
MIB = 1 << 20

SERVER = """
volume posix
  type storage/posix
  option directory {brick}
  option health-check-interval 0
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume brick
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type socket
  option transport.address-family {family}
  option transport.socket.bind-address {host}
  option transport.socket.listen-port {port}
  option auth.addr.brick.allow *
  subvolumes brick
end-volume
"""

CLIENT = """
volume remote
  type protocol/client
  option transport-type socket
  option transport.address-family {family}
  option remote-host {host}
  option remote-port {port}
  option remote-subvolume brick
end-volume
"""


def _content(name: str, size: int) -> bytes:
    return random.Random(name).randbytes(size)


def _files(lab: Lab) -> dict[str, int]:
    """Names and sizes: an empty one, single bytes, page limits, long ones."""
    long = lab.amount(16, 2) * MIB
    sizes = (0, 1, 4095, 4096, 4097, 131_072, 1_000_003, long, long + 1)
    return {f"of {size} bytes/{number}": size for number, size in enumerate(sizes)}


def _shared(lab: Lab, family: str, wrapped: Callable[..., list[str]]) -> Measured:
    place = lab.directory / f"glusterfs-{family}"
    brick, mount = place / "brick", place / "mount"
    for directory in (brick, mount):
        directory.mkdir(parents=True)
    Path("/run/gluster").mkdir(exist_ok=True)
    values = {"brick": brick, "family": family, "host": lab.a.ipv4, "port": PORT}
    for name, text in (("server", SERVER), ("client", CLIENT)):
        (place / f"{name}.vol").write_text(text.format(**values))
    files = _files(lab)
    listing = place / "files"
    listing.write_text("".join(f"{size} {name}\n" for name, size in files.items()))

    def daemon(program: str, role: str) -> list[str]:
        return wrapped(program, "-N", "-f", str(place / f"{role}.vol"), "-l", "-")

    with lab.a.start(daemon("glusterfsd", "server"), ready="Final graph"):
        start = time.monotonic()
        # Mounted again for reading, so that the bytes come from the other host. Each in one
        # command, because each command on a host has its own mounts.
        for what in ("write", "check"):
            lab.b.run(
                [str(APPS / "endpoints" / "mounted"), str(mount), what, str(listing)]
                + [*daemon("glusterfs", "client"), str(mount)]
            )
        seconds = time.monotonic() - start
    for name, size in files.items():
        kept = hashlib.sha256((brick / name).read_bytes()).digest()
        check(kept == hashlib.sha256(_content(name, size)).digest(), f"{name} is another file")
    total = 2 * sum(files.values())
    return Measured(rate(total, seconds), total)


def _own(lab: Lab) -> Measured:
    """With its own address family."""
    family = "inet-sdp" if lab.family == "sdp" else "inet"
    return _shared(lab, family, lambda *command: list(command))


def cases(lab: Lab) -> list[Case]:
    """The cases of this program."""
    switched = Case("glusterfs by the switch", lambda lab: _shared(lab, "inet", lab.wrapped))
    return [Case("glusterfs", _own)] + [switched] * (lab.family == "sdp")
