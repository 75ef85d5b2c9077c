# SPDX-License-Identifier: MIT
"""The scenarios: functions that return what is worth a line in the report, or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable

from twohosts.register import Entry, Register

Run = Callable[[], "str | None"]
Scenario = Entry[Run]


class Skip(Exception):
    """The scenario cannot be played here, and why."""


SCENARIOS: Register[Run] = Register()

# Only where bytes travel as packets, which can be lost; only where ports are of InfiniBand.
PACKETS, INFINIBAND = "packets", "infiniband"

# Make a function a scenario: of every run, of long runs (SOAK=1), and of devices that send packets,
# which rlo does not; or of ports of InfiniBand.
scenario = SCENARIOS.add
long_scenario = functools.partial(scenario, long=True)
packet_scenario = functools.partial(scenario, needs=(PACKETS,))
long_packet_scenario = functools.partial(scenario, long=True, needs=(PACKETS,))
infiniband_scenario = functools.partial(scenario, needs=(INFINIBAND,))
