# SPDX-License-Identifier: MIT
"""Actions on a remote block device: pieces, files, and their checksums."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

from sdptests.scenarios import limits
from sdptests.scenarios.network import command
from sdptests.twohosts.failure import Failure, check

_SECTOR = 512
KIB, MIB = 1024, 1 << 20
# The errors of calls on a device that is gone; a device of size zero has no room.
GONE = {
    errno.EIO,
    errno.ENODEV,
    errno.ENXIO,
    errno.EROFS,
    errno.ETIMEDOUT,
    errno.ENOLINK,
    errno.ENOSPC,
}
_MOUNTS = Path("/run/consumers")
# The memory behind the devices.
MEMORY = Path("/dev/ram0")


def size(device: Path) -> int:
    """Bytes of a block device."""
    fd = os.open(device, os.O_RDONLY)
    try:
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


class Pieces:
    """A buffer, and requests that begin and end at any byte, not only at pages."""

    def __init__(self, device: Path, length: int, seed: int) -> None:
        self._fd = os.open(device, os.O_RDWR | os.O_DIRECT)
        self._length = length
        self._memory = mmap.mmap(-1, length + mmap.PAGESIZE)
        self._random = random.Random(seed)

    def _cut(self) -> list[memoryview]:
        # A request from several memory areas, with gaps between them.
        view, parts, at = memoryview(self._memory), [], 0
        for _ in range(self._random.randint(1, 6)):
            at += self._random.randrange(8) * _SECTOR
            length = self._random.choice((1, 3, 7, 8, 9, 16, 37, 64)) * _SECTOR
            if at + length > self._length:
                break
            parts.append(view[at : at + length])
            at += length
        return parts

    def exchange(self, requests: int, end: int) -> int:
        """Writes and reads back at random places before `end`; returns the bytes written."""
        done = 0
        for _ in range(requests):
            parts = self._cut()
            length = sum(map(len, parts))
            offset = self._random.randrange((end - length) // _SECTOR) * _SECTOR
            for part in parts:
                part[:] = self._random.randbytes(len(part))
            want = b"".join(parts)
            wrote = os.pwritev(self._fd, parts, offset)
            check(wrote == length, f"{wrote} of {length} bytes written")
            for part in parts:
                part[:] = bytes(len(part))
            got = os.preadv(self._fd, parts, offset)
            check(got == length, f"{got} of {length} bytes read")
            have = b"".join(parts)
            if have != want:
                first = next(i for i in range(length) if have[i] != want[i])
                wrong = sum(a != b for a, b in zip(have, want, strict=True))
                sizes = [len(part) for part in parts]
                raise Failure(
                    f"{length} bytes at {offset} in parts of {sizes}: {wrong} are not what was "
                    f"written, the first at {first}: {have[first : first + 16].hex()} "
                    f"instead of {want[first : first + 16].hex()}"
                )
            done += length
        return done

    def close(self) -> None:
        """Closes the device."""
        os.close(self._fd)


def make_file_system(device: Path) -> None:
    """A file system that detects damage of its own blocks."""
    command("mkfs.ext4", "-q", "-F", "-O", "metadata_csum", "-E", "nodiscard", str(device))


def check_file_system(device: Path) -> None:
    """Its own checker finds it consistent."""
    command("e2fsck", "-f", "-n", str(device))


@contextlib.contextmanager
def mounted(device: Path) -> Iterator[Path]:
    """Its directory."""
    where = _MOUNTS / device.name
    where.mkdir(parents=True, exist_ok=True)
    command("mount", "-t", "ext4", "-o", "errors=remount-ro", str(device), str(where))
    try:
        yield where
    finally:
        command("umount", str(where))


class Files:
    """Files of random content, and their expected checksums."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sums: dict[str, str] = {}

    def write(self, name: str, length: int) -> None:
        """Writes one and flushes it to the device."""
        data = os.urandom(length)
        with open(self._directory / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._sums[name] = hashlib.sha256(data).hexdigest()

    def write_many(self, count: int, most: int, writers: int) -> int:
        """Writes files of all sizes, several concurrently; returns the total of bytes."""
        lengths = [random.randint(1, most) for _ in range(count)]
        failures: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for index in range(first, count, writers):
                    self.write(f"file-{index}", lengths[index])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return sum(lengths)

    def compare(self) -> None:
        """All files have their written contents when read from the device."""
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        for name, want in self._sums.items():
            with open(self._directory / name, "rb") as file:
                have = hashlib.file_digest(file, "sha256").hexdigest()
            check(have == want, f"{name} is not what was written to it")


class Writers:
    """Threads that write pieces to a device until a write fails."""

    def __init__(self, device: Path, count: int) -> None:
        self._fd = os.open(device, os.O_RDWR | os.O_DIRECT)
        self._end = size(device)
        self.done = 0
        self.errors: list[int] = []
        self._stop = False
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        buffer = mmap.mmap(-1, 64 * KIB)
        buffer[:] = bytes([number]) * len(buffer)
        own = random.Random(number)
        while not self._stop:
            try:
                offset = own.randrange(self._end // len(buffer)) * len(buffer)
                if own.random() < 0.3:
                    os.preadv(self._fd, [buffer], offset)
                else:
                    os.pwrite(self._fd, buffer, offset)
            except OSError as error:
                self.errors.append(error.errno or 0)
                return
            self.done += 1

    def await_progress(self, requests: int) -> None:
        """Waits until so many more requests are complete."""
        goal = self.done + requests
        limits.until("requests", limits.seconds(10), lambda: self.done >= goal)

    def alive(self) -> bool:
        """Whether any of them still writes."""
        return any(thread.is_alive() for thread in self._threads)

    def await_end(self, limit: float) -> float:
        """Waits until all writes have failed, with errors of a removed device."""
        try:
            took = limits.until("the end of all writers", limit, lambda: not self.alive())
        except Failure:
            # A thread that still writes would delay the process, and with it the report.
            self._stop = True
            raise
        strange = set(self.errors) - GONE
        check(not strange, f"errors {[errno.errorcode.get(one, one) for one in strange]}")
        return took

    def end(self) -> None:
        """Stops the threads and waits for them."""
        self._stop = True
        for thread in self._threads:
            thread.join(limits.seconds(20))
        os.close(self._fd)
