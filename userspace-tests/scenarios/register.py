# SPDX-License-Identifier: MIT
"""The scenarios, in the order in which they are written down."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[], str | None]


class Skip(Exception):
    """The scenario cannot be played here, and why."""


@dataclass(frozen=True)
class Scenario:
    """A function that returns what is worth a line in the report, or nothing."""

    name: str
    run: Run
    # Only in long runs.
    long: bool
    # Only where bytes travel as packets, which can be lost.
    packets: bool
    # Only where ports are of InfiniBand.
    infiniband: bool

    def names(self) -> tuple[str, str]:
        """What it can be picked by: its own name, and that of the file it is in."""
        return self.name, self.run.__module__.rpartition(".")[2]


SCENARIOS: dict[str, Scenario] = {}


def _register(
    run: Run, *, long: bool = False, packets: bool = False, infiniband: bool = False
) -> Run:
    name = run.__name__
    if name in SCENARIOS:
        raise ValueError(f"two scenarios are called {name}")
    SCENARIOS[name] = Scenario(name, run, long, packets, infiniband)
    return run


# Make a function a scenario: of every run, of long runs (SOAK=1), and of devices that send packets,
# which rlo does not; or of ports of InfiniBand.
scenario = _register
long_scenario = functools.partial(_register, long=True)
packet_scenario = functools.partial(_register, packets=True)
long_packet_scenario = functools.partial(_register, long=True, packets=True)
infiniband_scenario = functools.partial(_register, infiniband=True)
