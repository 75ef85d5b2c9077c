# SPDX-License-Identifier: MIT
"""What the kernel complains of while a scenario is played.

The harness judges the whole log after the run; by looking here a complaint gets the name of the
scenario it belongs to.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HARNESS = Path(__file__).resolve().parent.parent.parent / "qemu"

if (_HARNESS / "judge.py").exists():
    sys.path.append(str(_HARNESS))
    from judge import reports
else:

    def reports(_text: str) -> list[list[str]]:
        """Without the harness nobody here knows what a complaint looks like."""
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
            # What programs write there is not the kernel's.
            if int(priority) < 8:
                lines.append(f"[{int(stamp) / 1e6:13.6f}] {text.splitlines()[0]}")

    def complaints(self) -> list[str]:
        """All lines of all reports since the last look."""
        return [line for report in reports("\n".join(self._lines())) for line in report]
