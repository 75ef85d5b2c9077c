# SPDX-License-Identifier: MIT
"""SMC-R between the hosts: received bytes are the sent ones, and used SMC-R only."""

from __future__ import annotations

from pathlib import Path

from sdptests.consumers import smc, streams
from sdptests.consumers.fabric import A, B, add_device, remove_device
from sdptests.consumers.streams import connect, exchange, only_rdma
from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.scenarios.register import long_scenario, scenario

MIB = 1 << 20
AMOUNT = 64 * MIB if limits.SOAK else limits.amount(32, 4) * MIB


def _carried(count: int, length: int, *, by_protocol: bool = False) -> str:
    with smc.over_rdma(), only_rdma(count * length):
        pairs = connect(count, by_protocol=by_protocol)
        told = exchange(pairs, length, limits.seconds(15))
        for pair in pairs:
            pair.close()
    return told


@scenario
def smc_carries_a_stream_both_ways() -> str:
    """Tens of MiB, in pieces of all sizes."""
    return _carried(1, AMOUNT)


@scenario
def smc_carries_twenty_connections() -> str:
    """All on the same queue pairs."""
    return _carried(20, AMOUNT // 20)


@scenario
def smc_carries_small_messages() -> None:
    """One at a time, so that each wakes the other end."""
    with smc.over_rdma(), only_rdma(1):
        pair = connect(1)[0]
        streams.ping_pong(pair, limits.amount(2000, 100), 300)
        pair.close()


@scenario
def smc_is_a_protocol_of_the_internet_too() -> str:
    """The same with sockets made by protocol."""
    return _carried(2, MIB, by_protocol=True)


def _with_buffers(kind: int) -> str:
    # A link group keeps the kind of buffers it began with, and ends with its device.
    for end in (A, B):
        remove_device(end)
        add_device(end)
        with namespace(end.host):
            Path("/proc/sys/net/smc/smcr_buf_type").write_text(str(kind))
    try:
        return _carried(4, AMOUNT // 8)
    finally:
        for end in (A, B):
            with namespace(end.host):
                Path("/proc/sys/net/smc/smcr_buf_type").write_text("0")
            remove_device(end)
            add_device(end)


@scenario
def smc_carries_with_scattered_buffers() -> str:
    """Regions of many pages that are not contiguous."""
    return _with_buffers(1)


@long_scenario
def smc_carries_with_either_kind_of_buffers() -> str:
    """Contiguous pages are used as long as there are any."""
    return _with_buffers(2)
