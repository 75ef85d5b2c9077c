# SPDX-License-Identifier: MIT
"""Whether a task sleeps in a system call."""

from __future__ import annotations

from pathlib import Path

# System calls of x86-64.
CALLS = {
    "close": 3,
    "poll": 7,
    "connect": 42,
    "accept": 43,
    "sendto": 44,
    "recvfrom": 45,
    "epoll_wait": 232,
}


def sleeps_in(task: Path, *calls: str) -> bool:
    """Whether the task of this directory of /proc sleeps in one of these system calls."""
    state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    call = (task / "syscall").read_text().split()[0]
    return state == "S" and call in [str(CALLS[name]) for name in calls]
