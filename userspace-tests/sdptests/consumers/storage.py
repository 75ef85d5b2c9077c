# SPDX-License-Identifier: MIT
"""Common tests of block devices over RDMA."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from sdptests.consumers import disk, fabric
from sdptests.consumers.disk import MIB
from sdptests.consumers.fabric import End
from sdptests.scenarios import limits

WRITERS = 4
REQUESTS = 3000 if limits.SOAK else limits.amount(600, 60)
FILES = 200 if limits.SOAK else limits.amount(100, 20)


class Session(Protocol):
    """A remote disk, as long as the kernel has it."""

    disk: Path

    @property
    def there(self) -> bool:
        """Whether the kernel still has it."""


def await_disk(candidates: Callable[[], Iterable[Path]]) -> Path:
    """Waits for a disk that can be opened; its name appears earlier."""
    found: list[Path] = []

    def can_be_opened() -> bool:
        for path in candidates():
            with contextlib.suppress(OSError):
                device = Path("/dev") / path.name
                if disk.size(device) > 0:
                    found.append(device)
                return bool(found)
        return False

    limits.until("the disk", limits.seconds(10), can_be_opened)
    return found[0]


def state(directory: Path) -> str:
    """The state that the kernel reports."""
    try:
        return (directory / "state").read_text().strip()
    except OSError:
        return "gone"


AnySession = TypeVar("AnySession", bound=Session)


@contextlib.contextmanager
def gone_afterwards(session: AnySession, leave: Callable[[], None]) -> Iterator[AnySession]:
    """Deletes a session that is left at the end."""
    try:
        yield session
    finally:
        if session.there:
            leave()


def exchange(device: Path, requests: int, seed: int) -> int:
    """Writes and reads back pieces of all shapes; returns the bytes written."""
    pieces = disk.Pieces(device, MIB, seed)
    total = pieces.exchange(requests, disk.size(device))
    pieces.close()
    return total


def exchange_many(device: Path, seed: int) -> str:
    """The same, with its duration."""
    begin = time.monotonic()
    total = exchange(device, REQUESTS, seed)
    took = time.monotonic() - begin
    return f"{total / MIB:.1f} MiB there and back in {took:.1f} s"


def carry_files(device: Path) -> str:
    """A file system, with concurrent writers."""
    disk.make_file_system(device)
    begin = time.monotonic()
    with disk.mounted(device) as directory:
        files = disk.Files(directory)
        total = files.write_many(FILES, MIB // 4, 4)
        files.compare()
    took = time.monotonic() - begin
    # Caches are dropped, so the bytes come from the target.
    with disk.mounted(device) as directory:
        files.compare()
    disk.check_file_system(device)
    return f"{total / MIB:.1f} MiB in {FILES} files, written and read in {took:.1f} s"


def end_under_load(device: Path, end: Callable[[], None], seconds: int) -> str:
    """Writers get errors within so many seconds after the end."""
    writers = disk.Writers(device, WRITERS)
    try:
        writers.await_progress(20)
        end()
        took = writers.await_end(limits.seconds(seconds))
    finally:
        writers.end()
    return f"the last request was over after {took:.1f} s"


def lose_device(
    end: End,
    leaving: Callable[[], AbstractContextManager[Session]],
    anew: Callable[[], AbstractContextManager[Session]],
    seed: int,
) -> str:
    """The device of an end is removed under load; with a new one everything works as before."""
    with fabric.device_afterwards(end):
        with leaving() as session:
            took = end_under_load(session.disk, lambda: fabric.remove_device(end), 20)
            limits.until("the end of the session", limits.seconds(20), lambda: not session.there)
        fabric.add_device(end)
        with anew() as session:
            exchange(session.disk, 10, seed)
    return took
