# SPDX-License-Identifier: MIT
"""A device without free memory regions: bytes are copied, and no call fails."""

from __future__ import annotations

from sdptests.scenarios import network
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.scenarios.uncopied import (
    MIB,
    lending,
    regions,
    regions_of_the_machine,
    stats,
    transfer,
)
from sdptests.twohosts import counters
from sdptests.twohosts.failure import check

LENGTH = 4 * MIB
SENT = ("zcopy_bytes_sent", "written_bytes_sent")
RECEIVED = ("zcopy_bytes_received", "written_bytes_received")
USED = ("region_hits", "region_misses")


def _moved(host: str, before: counters.Counters, *names: str) -> int:
    now = stats(host)
    return sum(now[name] - before[name] for name in names)


@scenario
def bytes_are_copied_without_regions() -> None:
    """With new devices without regions, and then with the usual number."""
    for end in (A, B):
        with network.device_gone(end):
            pass
    data = bytes(range(256)) * (LENGTH // 256)
    with regions(0), lending():
        writer, reader = stats("a"), stats("b")
        transfer(data, LENGTH, 20)
        check(_moved("a", writer, "region_shortages") > 0, "the writer has found none")
        check(_moved("a", writer, *SENT, *USED) == 0, "all that is sent is copied")
        check(_moved("b", reader, *RECEIVED, *USED) == 0, "all that is received is copied")
    with lending():
        reader = stats("b")
        transfer(data, LENGTH, 20)
        check(_moved("b", reader, *RECEIVED) > 0, "nothing came without a copy")


@scenario
def a_namespace_cannot_raise_the_regions_of_a_device() -> None:
    """The first namespace's limit counts, whatever another one writes to its own."""
    for end in (A, B):
        with network.device_gone(end):
            pass
    data = bytes(range(256)) * (LENGTH // 256)
    with regions_of_the_machine(0), regions(65536), lending():
        writer, reader = stats("a"), stats("b")
        transfer(data, LENGTH, 20)
        check(_moved("a", writer, *SENT, *USED) == 0, "all that is sent is copied")
        check(_moved("b", reader, *RECEIVED, *USED) == 0, "all that is received is copied")
