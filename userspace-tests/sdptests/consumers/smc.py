# SPDX-License-Identifier: MIT
"""Shared memory communications over RDMA (SMC-R): setup of the kernel, and proof of its use.

A connection begins with TCP, and both ends negotiate something better if they can. Between the
hosts of one machine that would be the loopback device of SMC-D, so it is assigned to a physical
network that no host uses. SMC-R version 1 has no routable addresses, which neither rxe nor rlo
supports. Version 2 needs a common name of an enterprise at both ends. Each RDMA device
gets a physical network of its own, so that no link uses the other host's device, because the
hosts' devices are visible to each other.

The first connection needs several attempts, on rxe as on rlo. The client drops the message that
confirms the link if it comes before the client has started to wait for it, and the server then
falls back to TCP after two seconds. A client that loses its device does not tell the server, which
uses the dead link group for the next connections. `streams.only_rdma()` makes the link group before
it begins to count, and accepts no other reason of a fallback.

With version 2 alone, the listening end never learns the hardware address of
the other (only the proposal of version 1 has it), and connects its queue pair to
00:00:00:00:00:00. So a device has to find the address by the GID, as rxe does.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from sdptests.consumers.fabric import HOSTS, End
from sdptests.consumers.netlink import Attributes, Family, attributes
from sdptests.peer.peer import namespace

AF_SMC = 43
IPPROTO_SMC = 256
_EID = b"SDP-CONSUMERS"
_NOWHERE = b"NOWHERE"

# See include/uapi/linux/smc.h.
_PNETS, _SMC = "SMC_PNETID", "SMC_GEN_NETLINK"
_PNET_ADD, _PNET_FLUSH = 2, 4
_PNET_NAME, _PNET_ETHERNET, _PNET_IB, _PNET_PORT = 1, 2, 3, 4
_LINKS, _STATS, _FALLBACKS = 3, 7, 8
_ADD_EID, _FLUSH_EIDS, _EID_ENTRY = 10, 12, 1
_LINK_NEST, _STATS_NEST, _FALLBACK_NEST = 3, 7, 8
_SMCD, _SMCR = 1, 2
_V2_CLIENTS, _V2_SERVERS, _RECEIVED, _SENT = 8, 10, 16, 17
_LINK_DEVICE = 2
_REASON, _REASON_COUNT = 4, 5
# The reasons of a server's fallback, from net/smc/smc_clc.h: no peer confirmed its link, and its link
# did not register memory.
NOT_CONFIRMED, NOT_REGISTERED = "0x02010000", "0x09990003"


@contextlib.contextmanager
def _family(name: str, host: str | None = None) -> Iterator[Family]:
    with namespace(host) if host else contextlib.nullcontext():
        family = Family(name)
        try:
            yield family
        finally:
            family.close()


def _add_network(name: bytes, host: str | None, *kinds: tuple[int, bytes]) -> None:
    values = {_PNET_NAME: name + b"\0"}
    for kind, value in kinds:
        values[kind] = value
    with _family(_PNETS, host) as family:
        try:
            family.tell(_PNET_ADD, values)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise


def name_device(end: End) -> None:
    """Assigns a device to its host's network; that is lost when the device is removed."""
    name = f"NET{end.host.upper()}".encode()
    _add_network(name, end.host, (_PNET_ETHERNET, end.link.encode() + b"\0"))
    _add_network(name, None, (_PNET_IB, end.device.encode() + b"\0"), (_PNET_PORT, b"\1"))


@contextlib.contextmanager
def over_rdma() -> Iterator[None]:
    """Connections between the hosts use SMC-R meanwhile."""
    with _family(_SMC) as family:
        family.tell(_ADD_EID, {_EID_ENTRY: _EID.ljust(32) + b"\0"})
    try:
        _add_network(_NOWHERE, None, (_PNET_IB, b"lo\0"), (_PNET_PORT, b"\1"))
        for end in HOSTS:
            name_device(end)
        yield
    finally:
        with _family(_SMC) as family:
            family.tell(_FLUSH_EIDS, {})
        for host in (None, *(end.host for end in HOSTS)):
            with contextlib.suppress(OSError), _family(_PNETS, host) as family:
                family.tell(_PNET_FLUSH, {})


@contextlib.contextmanager
def over_memory() -> Iterator[None]:
    """Connections between the hosts use SMC-D meanwhile, by the loopback device."""
    with _family(_SMC) as family:
        family.tell(_ADD_EID, {_EID_ENTRY: _EID.ljust(32) + b"\0"})
    try:
        yield
    finally:
        with _family(_SMC) as family:
            family.tell(_FLUSH_EIDS, {})


def make(address: str, *, by_protocol: bool = False) -> socket.socket:
    """A stream socket for addresses like this one.

    Its addresses are TCP's. Python is given TCP's family, because it cannot write addresses
    otherwise.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if by_protocol:
        return socket.socket(family, socket.SOCK_STREAM, IPPROTO_SMC)
    raw = socket.socket(AF_SMC, socket.SOCK_STREAM, int(family == socket.AF_INET6))
    return socket.socket(family, socket.SOCK_STREAM, 0, fileno=raw.detach())


@dataclass
class Counts:
    """A host's counters since its creation."""

    smcd_bytes: int = 0
    sent: int = 0
    received: int = 0
    connections: int = 0
    # The reasons of fallbacks to TCP, by the numbers of net/smc/smc_clc.h, and their counts.
    reasons: tuple[tuple[str, int], ...] = ()

    def since(self, before: Counts) -> Counts:
        """The difference."""
        return Counts(
            self.smcd_bytes - before.smcd_bytes,
            self.sent - before.sent,
            self.received - before.received,
            self.connections - before.connections,
            tuple(reason for reason in self.reasons if reason not in before.reasons),
        )


def _value(found: Attributes, number: int) -> int:
    return int.from_bytes(found.get(number, b""), "little")


def counts(host: str) -> Counts:
    """The counters of a host."""
    with _family(_SMC, host) as family:
        stats = attributes(family.dump(_STATS)[0][_STATS_NEST])
        fallbacks = [attributes(one[_FALLBACK_NEST]) for one in family.dump(_FALLBACKS)]
    loopback, rdma = attributes(stats[_SMCD]), attributes(stats[_SMCR])
    reasons = [(f"{_value(one, _REASON):#010x}", _value(one, _REASON_COUNT)) for one in fallbacks]
    return Counts(
        _value(loopback, _SENT) + _value(loopback, _RECEIVED),
        _value(rdma, _SENT),
        _value(rdma, _RECEIVED),
        _value(rdma, _V2_CLIENTS) + _value(rdma, _V2_SERVERS),
        tuple(sorted(reasons)),
    )


def links() -> list[str]:
    """The devices of all links, which are queue pairs that connections share, of all hosts."""
    with _family(_SMC) as family:
        found = family.dump(_LINKS)
    nests = [attributes(one[_LINK_NEST]) for one in found if _LINK_NEST in one]
    return [nest[_LINK_DEVICE].rstrip(b"\0").decode() for nest in nests if _LINK_DEVICE in nest]
