# SPDX-License-Identifier: MIT
"""RNBD: block devices over RTRS, which keeps a crowd of queue pairs and writes into lent memory.

Its server is in the kernel and listens everywhere from the first RDMA device on.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path

import limits
from disk import MEMORY
from fabric import End
from register import Skip
from twohosts.failure import Failure

_CONTROL = Path("/sys/devices/virtual/rnbd-client/ctl")
_SESSIONS = Path("/sys/devices/virtual/rtrs-client")


def needed() -> None:
    """Skip where the kernel cannot do it."""
    if not _CONTROL.exists() or not MEMORY.exists():
        raise Skip("needs a kernel with RNBD and memory disks")
    if b"CONFIG_PREEMPT=y\n" in gzip.decompress(Path("/proc/config.gz").read_bytes()):
        # By default RTRS notes for each processor which path a request has chosen, and may be preempted
        # before it takes the note back: with one path the next request finds none, and fails. Its policy
        # round-robin calls smp_processor_id() where it may be preempted, which a debug kernel reports.
        raise Skip("RTRS does not choose paths safely where the kernel is preempted, whatever the device")


class Client:
    """A disk of the server that is mapped here."""

    def __init__(self, near: End, far: End, session: str) -> None:
        self.session = session
        words = (
            f"sessname={session}",
            f"path=ip:{near.seen_from(near)}@ip:{far.seen_from(near)}",
            f"device_path={MEMORY}",
        )
        before = set(Path("/sys/block").glob("rnbd*"))
        (_CONTROL / "map_device").write_text(" ".join(words))
        new = set(Path("/sys/block").glob("rnbd*")) - before
        if len(new) != 1:
            raise Failure(f"disks that came with the session: {new}")
        self._directory = new.pop() / "rnbd"
        self.disk = Path("/dev") / self._directory.parent.name
        limits.until("the disk", limits.seconds(10), self.disk.is_block_device)

    @property
    def there(self) -> bool:
        """Whether the kernel still has it."""
        return self._directory.exists()

    def state(self) -> str:
        """What it says of itself: open, or closed while there is no path."""
        return (self._directory / "state").read_text().strip()

    def paths(self) -> list[str]:
        """The states of the session's paths."""
        found = (_SESSIONS / self.session / "paths").glob("*/state")
        return [path.read_text().strip() for path in found]

    def unmap(self, how: str) -> None:
        """Have it go, `normal` or by `force`."""
        (self._directory / "unmap_device").write_text(how)
        limits.until("the end of the disk", limits.seconds(20), lambda: not self.there)


@contextlib.contextmanager
def client(near: End, far: End, session: str) -> Iterator[Client]:
    """One that is gone afterwards."""
    one = Client(near, far, session)
    try:
        yield one
    finally:
        if one.there:
            one.unmap("force")
