# SPDX-License-Identifier: MIT
"""iperf3 with many streams, in reverse, in both directions, and from a file without copies."""

from __future__ import annotations

from sdptests.apps.iperf3 import stream
from sdptests.twohosts.lab import Case, Lab, Measured

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
    """The cases of this program."""
    return [_case(mode) for mode in MODES]
