# SPDX-License-Identifier: GPL-2.0
"""The frequency of this processor's time stamp counter.

Under TCG a guest's TSC is the host's. The guest would calibrate it with an
emulated interval timer. On a busy host that fails, and every clock in the guest
would fall back to 4 ms ticks. So the host measures the frequency.
"""

import ctypes
import mmap
import platform
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
CODE = bytes.fromhex("0f3148c1e2204809d0c3")

SECONDS = 0.1


def sample(rdtsc):
    """A counter value and its time of reading, from the most precise of several tries."""
    best = None
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        ticks = rdtsc()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if best is None or after - before < best[0]:
            best = (after - before, ticks, (before + after) / 2)
    return best[1], best[2]


def frequency_khz():
    """In kHz, or None if it cannot be read."""
    if platform.machine() not in ("x86_64", "amd64"):
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(CODE)
    holder = ctypes.c_char.from_buffer(code)
    rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(holder))
    ticks, start = sample(rdtsc)
    time.sleep(SECONDS)
    ticks_later, end = sample(rdtsc)
    del rdtsc, holder
    code.close()
    return round((ticks_later - ticks) * 1e6 / (end - start))
