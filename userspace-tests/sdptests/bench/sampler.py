# SPDX-License-Identifier: MIT
"""Samples all processors some hundred times a second, by the kernel's own sampling.

A sample is the call chain at a tick of the processor's clock. That works on every machine, real
or emulated, and without a further program. Code that runs with interrupts disabled is sampled at
the place where it enables them.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

# perf_event_open(2)
_SYSCALL = {"x86_64": 298, "aarch64": 241}
_TYPE_SOFTWARE = 1
_CPU_CLOCK = 0
_SAMPLE_IP, _SAMPLE_TIME, _SAMPLE_CALLCHAIN = 1, 4, 32
_DISABLED, _EXCLUDE_CALLCHAIN_USER, _USE_CLOCKID = 1 << 0, 1 << 22, 1 << 25
# The offset of the clock's number in the attributes, and the number of time.monotonic().
_CLOCKID_AT, _CLOCK_MONOTONIC = 92, 1
_ATTR_SIZE = 112
_ENABLE, _DISABLE = 0x2400, 0x2401
_RECORD_SAMPLE = 9
_MISC_MODE, _MISC_USER = 7, 2
_HEAD_AT = 1024
# Markers in a chain, not addresses: the following ones are kernel, or user, addresses.
_CONTEXTS = 1 << 63, (1 << 64) - 4096
# Room for the samples of half a minute.
_PAGES = 2048


@dataclass(frozen=True)
class Sample:
    """One sample of one processor."""

    # On the clock of time.monotonic().
    time: float
    user: bool
    # Kernel addresses, innermost first.
    chain: tuple[int, ...]


class Sampler:
    """Samples between start and stop, or inside a with block."""

    def __init__(self, frequency: int = 200) -> None:
        self.frequency = frequency
        self._events: list[tuple[int, mmap.mmap]] = []
        libc = ctypes.CDLL(None, use_errno=True)
        attributes = bytearray(_ATTR_SIZE)
        struct.pack_into(
            "=IIQQQQQ",
            attributes,
            0,
            _TYPE_SOFTWARE,
            _ATTR_SIZE,
            _CPU_CLOCK,
            10**9 // frequency,
            _SAMPLE_IP | _SAMPLE_TIME | _SAMPLE_CALLCHAIN,
            0,
            _DISABLED | _EXCLUDE_CALLCHAIN_USER | _USE_CLOCKID,
        )
        struct.pack_into("=i", attributes, _CLOCKID_AT, _CLOCK_MONOTONIC)
        number = _SYSCALL[os.uname().machine]
        for cpu in sorted(os.sched_getaffinity(0)):
            fd = libc.syscall(number, bytes(attributes), -1, cpu, -1, 0)
            if fd < 0:
                error = ctypes.get_errno()
                raise OSError(error, f"perf_event_open: {os.strerror(error)}")
            size = (1 + _PAGES) * mmap.PAGESIZE
            self._events.append((fd, mmap.mmap(fd, size)))

    def __enter__(self) -> Sampler:
        self._control(_ENABLE)
        return self

    def __exit__(self, *_error: object) -> None:
        self._control(_DISABLE)

    def _control(self, request: int) -> None:
        for fd, _ring in self._events:
            fcntl.ioctl(fd, request, 0)

    def samples(self) -> Iterator[Sample]:
        """The samples; the sampler cannot be used afterwards."""
        for fd, ring in self._events:
            (head,) = struct.unpack_from("=Q", ring, _HEAD_AT)
            # Nothing is read while it fills, so the data begins at the ring's start.
            data = ring[mmap.PAGESIZE : mmap.PAGESIZE + head]
            ring.close()
            os.close(fd)
            yield from self._records(data)
        self._events = []

    def _records(self, data: bytes) -> Iterator[Sample]:
        at = 0
        while at + 8 <= len(data):
            kind, misc, size = struct.unpack_from("=IHH", data, at)
            if size == 0:
                break
            if kind == _RECORD_SAMPLE:
                ip, nanoseconds, count = struct.unpack_from("=QQQ", data, at + 8)
                chain = struct.unpack_from(f"={count}Q", data, at + 32)
                inside = tuple(
                    address
                    for address in chain
                    if address >= _CONTEXTS[0] and address < _CONTEXTS[1]
                )
                user = misc & _MISC_MODE == _MISC_USER
                yield Sample(nanoseconds / 1e9, user, () if user else inside or (ip,))
            at += size
