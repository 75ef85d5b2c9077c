# SPDX-License-Identifier: MIT
"""The scenarios: functions that return a remark for the report, or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable

from sdptests.twohosts.register import Entry, Register

Run = Callable[[], "str | None"]
Scenario = Entry[Run]


class Skip(Exception):
    """The scenario cannot run here; the text is the reason."""


SCENARIOS: Register[Run] = Register()

# Needs a device that sends packets, which can be lost; needs InfiniBand ports; needs the kernel's
# client for netlink specifications; needs a kernel that was booted with ipv6.disable=1; needs the
# exclusive mode of the RDMA core's namespaces.
PACKETS, INFINIBAND, YNL, NO_IPV6 = "packets", "infiniband", "ynl", "no ipv6"
EXCLUSIVE = "exclusive"

# Decorators that register scenarios: for every run, for long runs (SOAK=1), for devices that send
# packets, which rlo does not, for InfiniBand ports, for guests without IPv6, or with the client.
scenario = SCENARIOS.add
long_scenario = functools.partial(scenario, long=True)
packet_scenario = functools.partial(scenario, needs=(PACKETS,))
long_packet_scenario = functools.partial(scenario, long=True, needs=(PACKETS,))
infiniband_scenario = functools.partial(scenario, needs=(INFINIBAND,))
without_ipv6_scenario = functools.partial(scenario, needs=(NO_IPV6,))
ynl_scenario = functools.partial(scenario, needs=(YNL,))
exclusive_scenario = functools.partial(scenario, needs=(EXCLUSIVE,))
