# SPDX-License-Identifier: MIT
"""Allocations of the kernel that fail to order: fault injection of the debug kernel."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from register import Skip
from twohosts.failure import Failure, check

_DEBUGFS = Path("/sys/kernel/debug")
SLAB, PAGES = "failslab", "fail_page_alloc"
# What both know, at their values when nothing is to fail.
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
    """Skip where the kernel cannot do it."""
    if not (_DEBUGFS / SLAB).exists():
        raise Skip("needs the debug kernel")


def _set(kind: str, **values: object) -> None:
    for name, value in values.items():
        (_DEBUGFS / kind / name.replace("_", "-")).write_text(str(value))


def _prepare(kind: str, *, anywhere: bool = False) -> None:
    _set(kind, **_OFF)
    if not anywhere:
        # The way to the allocation leads through the module.
        start, end = _module_text()
        _set(kind, require_start=f"{start:#x}", require_end=f"{end:#x}")
    # vmalloc() complains of what it cannot have, and the RDMA drivers use it.
    start, end = _vmalloc_text()
    _set(kind, reject_start=f"{start:#x}", reject_end=f"{end:#x}")
    # Ours may sleep; that is no reason to be spared.
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
    # In order of addresses: a function ends where the next one begins.
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
    """Allocations of this kind on behalf of sdp.ko fail now and then, whoever makes them.

    Gives a function that tells how many have failed.
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

    `anywhere` adds small ones that others make for the call, such as those of its file.
    """

    def __init__(self, *, anywhere: bool = False) -> None:
        needed()
        _prepare(SLAB, anywhere=anywhere)
        # Pages of the process itself are no part of the call.
        _prepare(PAGES)
        self._fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def fails(self, number: int, call: Callable[[], object]) -> tuple[bool, int, object]:
        """Make the call; whether an allocation failed in it, its errno, its result."""
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
        """Nothing fails any more."""
        os.close(self._fd)
        for kind in (SLAB, PAGES):
            _set(kind, **_OFF)


# No call makes more allocations.
_ALLOCATIONS = 300


def each(
    call: Callable[[int], Callable[[], object]],
    judge: Callable[[int, object], None],
    *,
    anywhere: bool = False,
    least: int = 1,
) -> int:
    """Make a call again and again, with the first, second, ... allocation failing.

    `call` prepares one and gives what is to be called; `judge` looks at its errno and result. Ends
    with the call that makes fewer allocations than that; how many it makes, `least` or more.
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
