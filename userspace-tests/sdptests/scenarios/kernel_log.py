# SPDX-License-Identifier: MIT
"""The kernel's reports during a scenario.

The harness judges the whole log after the run. The check here assigns a report to the
scenario that caused it.
"""

from __future__ import annotations

import os

from sdptests import harness

try:
    reports = harness.module("judge").reports
except FileNotFoundError:

    def reports(_text: str) -> list[list[str]]:
        """Without the harness there is no parser for reports."""
        return []


class KernelLog:
    """The messages from now on."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)

    def _lines(self) -> list[str]:
        lines = []
        while True:
            try:
                record = os.read(self._fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                # Older messages were overwritten.
                continue
            head, _, text = record.partition(";")
            priority, _, stamp = head.split(",")[:3]
            # Messages of programs are not the kernel's.
            if int(priority) < 8:
                lines.append(f"[{int(stamp) / 1e6:13.6f}] {text.splitlines()[0]}")

    def complaints(self) -> list[str]:
        """The lines of all reports since the last call."""
        return [line for report in reports("\n".join(self._lines())) for line in report]
