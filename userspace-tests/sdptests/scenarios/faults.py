# SPDX-License-Identifier: MIT
"""Failing allocations of the kernel: fault injection of the debug kernel."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from sdptests.scenarios.register import Skip
from sdptests.twohosts.failure import Failure, check

_DEBUGFS = Path("/sys/kernel/debug")
SLAB, PAGES = "failslab", "fail_page_alloc"
# The common settings, with their values when no allocation shall fail.
_OFF = {
    "probability": 0,
    "times": 1,
    "interval": 1,
    "space": 0,
    "verbose": 0,
    "task-filter": "N",
    "require-start": 0,
    "require-end": "0xffffffffffffffff",
    "reject-start": 0,
    "reject-end": 0,
    "stacktrace-depth": 32,
}
_MOST = 1_000_000


def needed() -> None:
    """Skips if the kernel does not support it."""
    if not (_DEBUGFS / SLAB).exists():
        raise Skip("needs the debug kernel")


def _set(kind: str, **values: object) -> None:
    for name, value in values.items():
        (_DEBUGFS / kind / name.replace("_", "-")).write_text(str(value))


def _prepare(kind: str, *, anywhere: bool = False) -> None:
    _set(kind, **_OFF)
    if not anywhere:
        # Only allocations with the module in their call stack fail.
        start, end = _module_text()
        _set(kind, require_start=f"{start:#x}", require_end=f"{end:#x}")
    # vmalloc() logs its failures, and the RDMA drivers use it.
    start, end = _vmalloc_text()
    _set(kind, reject_start=f"{start:#x}", reject_end=f"{end:#x}")
    # The module's allocations may sleep; they shall fail nevertheless.
    _set(kind, ignore_gfp_wait="N")
    if kind == PAGES:
        _set(kind, min_order=0)


def _module_text() -> tuple[int, int]:
    for line in Path("/proc/modules").read_text().splitlines():
        words = line.split()
        if words[0] == "sdp":
            return int(words[5], 16), int(words[5], 16) + int(words[1])
    raise Failure("sdp is not in /proc/modules")


@functools.cache
def _vmalloc_text() -> tuple[int, int]:
    start = 0
    # Sorted by address: a function ends where the next one begins.
    with open("/proc/kallsyms") as file:
        for line in file:
            address, _type, name = line.split()[:3]
            if start and int(address, 16) > start:
                return start, int(address, 16)
            if name == "__vmalloc_node_range_noprof":
                start = int(address, 16)
    raise Failure("vmalloc() is not in /proc/kallsyms")


@contextlib.contextmanager
def random(kind: str, percent: int) -> Iterator[Callable[[], int]]:
    """Allocations of this kind on behalf of sdp.ko fail sometimes, in any process.

    Yields a function that returns the number of failures.
    """
    _prepare(kind)
    times = _DEBUGFS / kind / "times"
    _set(kind, times=_MOST, probability=percent)
    try:
        yield lambda: _MOST - int(times.read_text())
    finally:
        _set(kind, **_OFF)


class Nth:
    """One allocation on behalf of sdp.ko in a call of this thread fails, the first or any other.

    `anywhere` adds small allocations outside the module, such as the socket's file.
    """

    def __init__(self, *, anywhere: bool = False) -> None:
        needed()
        _prepare(SLAB, anywhere=anywhere)
        # Pages of the process itself do not belong to the call.
        _prepare(PAGES)
        self._fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def fails(self, number: int, call: Callable[[], object]) -> tuple[bool, int, object]:
        """Makes the call; returns whether an allocation failed in it, its errno, and its result."""
        error, result = 0, None
        word = str(number).encode()
        os.pwrite(self._fd, word, 0)
        try:
            result = call()
        except OSError as raised:
            error = raised.errno or 0
        left = int(os.pread(self._fd, 32, 0))
        os.pwrite(self._fd, b"0", 0)
        return left == 0, error, result

    def close(self) -> None:
        """Ends the failures."""
        os.close(self._fd)
        for kind in (SLAB, PAGES):
            _set(kind, **_OFF)


# The limit of allocations in a call.
_ALLOCATIONS = 300


def each(
    call: Callable[[int], Callable[[], object]],
    judge: Callable[[int, object], None],
    *,
    anywhere: bool = False,
    least: int = 1,
) -> int:
    """Makes a call repeatedly, with the first, second, ... allocation failing.

    `call` prepares it and returns the function to call; `judge` checks its errno and result. Ends
    with the first call that makes fewer allocations. Returns their number, `least` or more.
    """
    nth = Nth(anywhere=anywhere)
    try:
        for number in range(1, _ALLOCATIONS):
            failed, error, result = nth.fails(number, call(number))
            judge(error, result)
            if not failed:
                check(number > least, "no allocation could be made to fail")
                return number - 1
    finally:
        nth.close()
    raise Failure(f"a call with {_ALLOCATIONS} allocations")
