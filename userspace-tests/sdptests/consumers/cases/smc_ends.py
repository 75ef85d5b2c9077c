# SPDX-License-Identifier: MIT
"""SMC-R between the hosts: the other end, or the device, disappears during transfers."""

from __future__ import annotations

import socket
import struct

from sdptests.consumers import fabric, smc, streams
from sdptests.consumers.fabric import A, B, End
from sdptests.consumers.streams import GONE, connect, exchange, only_rdma
from sdptests.scenarios import limits, network
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import Failure, check

MIB = 1 << 20
# More than can be sent in the time.
ENDLESS = 1 << 40


@scenario
def smc_ends_abruptly() -> None:
    """An end that closes with unread bytes, and one that shuts down without any."""
    with smc.over_rdma(), only_rdma():
        for how in ("unread", "linger"):
            pair = connect(1)[0]
            pair.client.sendall(bytes(100_000))
            pair.server.recv(1)
            if how == "linger":
                pair.server.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            pair.server.close()
            pair.client.settimeout(limits.seconds(10))
            try:
                while pair.client.recv(1 << 16):
                    pass
            except OSError as error:
                check(error.errno in GONE, f"{how}: {error}")
            pair.close()
        # Other connections on the same queue pairs are not affected.
        pairs = connect(2)
        exchange(pairs, MIB, limits.seconds(10))
        for pair in pairs:
            pair.close()


def _end_of(pairs: list[streams.Pair], ways: list[streams.Way]) -> str:
    took = limits.until(
        "the end of all transfers",
        limits.seconds(15),
        lambda: not any(way.alive() for way in ways),
    )
    for way in ways:
        for error in way.errors:
            number = error.errno if isinstance(error, OSError) else None
            ended = isinstance(error, Failure) and "the end after" in str(error)
            check(number in GONE or ended, f"a transfer ended with {error!r}")
    for pair in pairs:
        pair.close()
    return f"{took:.1f} s"


def _removed(end: End) -> str:
    with smc.over_rdma(), fabric.device_afterwards(end):
        with only_rdma():
            pairs = connect(limits.amount(8, 4))
            ways = streams.flow(pairs, ENDLESS)
            limits.until(
                "some traffic",
                limits.seconds(10),
                lambda: all(way.received > 100_000 for way in ways),
            )
        # The removal waits for the programs, because links live as long as sockets that used them.
        removal = network.removal(end.device)
        took = _end_of(pairs, ways)
        removal.end()
        # Without a device TCP carries the bytes.
        before = smc.counts("a")
        pair = connect(1)[0]
        exchange([pair], MIB, limits.seconds(10))
        pair.close()
        check(smc.counts("a").since(before).sent == 0, "SMC-R carried without a device")
        fabric.add_device(end)
        smc.name_device(end)
        with only_rdma():
            pair = connect(1)[0]
            exchange([pair], MIB, limits.seconds(10))
            pair.close()
    return f"all was over after {took}"


@scenario
def smc_loses_the_device_of_the_client() -> str:
    """Its connections end, later ones use TCP, and with a new device SMC-R again."""
    return _removed(A)


@scenario
def smc_loses_the_device_of_the_server() -> str:
    """The same at the other end."""
    return _removed(B)


def _carries() -> bool:
    try:
        return streams.carries()
    except TimeoutError:
        return False


@scenario
def smc_loses_a_device_with_nothing_on_it() -> None:
    """Links outlive the connections for which they were made, but not the device.

    The client does not tell the server, so its link group of the old device is used for the next
    connections, and fails them or has them fall back to TCP. So SMC-R is not demanded of them.
    """
    with smc.over_rdma(), fabric.device_afterwards(A):
        with only_rdma():
            check(streams.carries(), "nothing was carried")
        fabric.remove_device(A)
        fabric.add_device(A)
        smc.name_device(A)
        check(any(_carries() for _ in range(4)), "four connections failed")
