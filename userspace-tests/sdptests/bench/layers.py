# SPDX-License-Identifier: MIT
"""Assigns processor time to layers, by the kernel's own symbol table.

The innermost function that has an owner decides: a spin lock taken by the module counts for
the module, a packet copied by the driver for the driver. So a layer's time includes its calls of
the kernel's general routines, but not the work of other layers. Two limits: the time of interrupt
handlers counts for their own layer, whichever layer they interrupt; and waiting takes no
processor time, so it does not appear at all.

The module is sdp.ko, or SMC, which has the same role. Copies are those of module and network; a
device's own copies count for the device.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sdptests.bench.sampler import Sample

APPLICATION = "application"
SYSTEM_CALL = "system call"
MODULE = "module"
COPY = "copies"
DRIVER = "driver"
CHECKSUM = "driver: CRC"
NETWORK = "network"
OTHER = "other"
LAYERS = (APPLICATION, SYSTEM_CALL, MODULE, COPY, DRIVER, CHECKSUM, NETWORK, OTHER)
_IDLE = "idle"

_IDLE_LEAF = re.compile(
    r"default_idle|safe_halt|mwait_idle|acpi_.*idle|pv_native_safe_halt|cpu_idle"
)
_COPY_LEAF = re.compile(
    r"copy_(?:to|from)_|copy_user|rep_movs|^_?_?memcpy|_copy_(?:to|from)_iter|copy_page_(?:to|from)"
)
_CHECKSUM_LEAF = re.compile(r"crc32")
_OWNERS = (
    (MODULE, re.compile(r"^(?:smcd?_|dibs_)")),
    (DRIVER, re.compile(r"^(?:rxe_|do_task$|do_complete|__?ib_|ib_|ibcm_|cm_|rdma_)")),
    (
        NETWORK,
        re.compile(
            r"^_?_?(?:tcp_|udp|unix_|ip_|ip6_|ipv6_|inet|dev_|netif_"
            r"|net_rx|process_backlog|napi_|skb_"
            r"|alloc_skb|kfree_skb|sk_|sock_def|veth_|eth_|neigh_|nf_|packet_|arp_|dst_|fib)"
        ),
    ),
    (SYSTEM_CALL, re.compile(r"^(?:do_syscall_64|entry_SYSCALL|__?x64_sys_|ret_from_fork_asm$)")),
)


class Symbols:
    """The kernel's functions by address."""

    def __init__(self, text: str | None = None) -> None:
        symbols = []
        for line in (text or Path("/proc/kallsyms").read_text()).splitlines():
            address, kind, name = line.split(None, 2)
            if kind in "tTwW":
                symbols.append((int(address, 16), name))
        symbols.sort()
        self._addresses = [address for address, _name in symbols]
        self._names = [name for _address, name in symbols]

    def name(self, address: int) -> str:
        """The function an address is in; those of modules end in "[module]"."""
        return self.place(address)[1]

    def place(self, address: int) -> tuple[int, str]:
        """The offset of an address in its function, and the function as `name` has it."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0:
            return address, ""
        return address - self._addresses[index], self._names[index]


def layer(sample: Sample, symbols: Symbols, module: str = "sdp") -> str:
    """The layer of one sample."""
    if sample.user:
        return APPLICATION
    names = [symbols.name(address) for address in sample.chain]
    if not names or _IDLE_LEAF.search(names[0]):
        return _IDLE
    owned = next((owner for owner in map(_owner(module), names) if owner), OTHER)
    if owned in (MODULE, NETWORK) and _COPY_LEAF.search(names[0]):
        return COPY
    if owned == DRIVER and any(map(_CHECKSUM_LEAF.search, names)):
        return CHECKSUM
    return owned


def _owner(module: str) -> Callable[[str], str | None]:
    tag = f"[{module}]"

    def owner(name: str) -> str | None:
        if name.endswith(tag):
            return MODULE
        # A driver that is a module; its copies are its own.
        if name.endswith("[rlo]"):
            return DRIVER
        # Requests of verbs that come only from the benchmark.
        if name.endswith("[sdp_verbs]"):
            return APPLICATION
        plain = name.split("\t", maxsplit=1)[0]
        return next((kind for kind, pattern in _OWNERS if pattern.search(plain)), None)

    return owner


@dataclass(frozen=True)
class Profile:
    """Processor time during an interval."""

    # Seconds by layer, without idle time.
    seconds: dict[str, float]
    # The functions with the most time: seconds, layer, innermost function, its caller.
    hottest: list[tuple[float, str, str, str]]


def profile(
    samples: Iterable[Sample],
    frequency: int,
    begin: float,
    end: float,
    symbols: Symbols | None = None,
) -> Profile:
    """The time between `begin` and `end` by layer, with the symbols of the running kernel."""
    symbols = symbols or Symbols()
    counts: Counter[str] = Counter()
    places: Counter[tuple[str, str, str]] = Counter()
    for sample in samples:
        if not begin <= sample.time <= end:
            continue
        found = layer(sample, symbols)
        if found == _IDLE:
            continue
        counts[found] += 1
        names = [symbols.name(address) for address in sample.chain[:2]]
        leaf, caller, *_ = [*names, "", ""]
        places[found, leaf, caller] += 1
    return Profile(
        {name: counts[name] / frequency for name in LAYERS},
        [(count / frequency, *place) for place, count in places.most_common()],
    )
