# SPDX-License-Identifier: MIT
"""All scenarios, in the order in which they are played."""

from cases import (
    bad_network,
    connects_during_removal,
    device_addition,
    device_removal,
    failing_both,
    failing_calls,
    failing_load,
    idle_connections,
    keepalive,
    killed_processes,
    lent_memory,
    link_down,
    memory_cgroup,
    module_removal,
    namespace_deletion,
    region_shortage,
    taking_over,
    tight_cgroup,
)

__all__ = [
    "bad_network",
    "connects_during_removal",
    "device_addition",
    "device_removal",
    "failing_both",
    "failing_calls",
    "failing_load",
    "idle_connections",
    "keepalive",
    "killed_processes",
    "lent_memory",
    "link_down",
    "memory_cgroup",
    "module_removal",
    "namespace_deletion",
    "region_shortage",
    "taking_over",
    "tight_cgroup",
]
