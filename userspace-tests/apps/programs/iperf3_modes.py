# SPDX-License-Identifier: MIT
"""iperf3 with many streams, backwards, both ways, and from a file that is not copied."""

from __future__ import annotations

from programs.iperf3 import stream
from twohosts.lab import Case, Lab, Measured

MODES = (
    ("-P", "8"),
    ("-R",),
    ("--bidir",),
    ("-Z",),
    ("-Z", "-R", "-P", "2"),
)


def _case(mode: tuple[str, ...]) -> Case:
    def run(lab: Lab) -> Measured:
        return stream(lab, *mode)

    return Case(f"iperf3 {' '.join(mode)}", run)


def cases(_lab: Lab) -> list[Case]:
    """What this program is run for."""
    return [_case(mode) for mode in MODES]
