# SPDX-License-Identifier: MIT
"""The RDMA devices that consumers use: of one kind, on all interfaces.

The hosts a and b are network namespaces. The kernel's block targets know only the
first namespace of the machine. So there are two more ends in that one, `near` and `far`, on a
separate veth pair. They have link-local addresses only, because every other address of the machine
is routed to its own device, without a wire.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.scenarios import leftovers, limits
from sdptests.scenarios.network import command
from sdptests.twohosts.failure import check

_DEVICES = Path("/sys/class/infiniband")
_MTU = 4400


def _present_kind() -> str:
    kinds = {re.sub(r"\d*[a-z]?$", "", path.name) for path in _DEVICES.glob("*")}
    return "rlo" if any(kind.startswith("rlo") for kind in kinds) else "rxe"


KIND = os.environ.get("SDP_DEVICE") or _present_kind()


@dataclass(frozen=True)
class End:
    """An interface with an RDMA device, and its address."""

    # None: the machine itself.
    host: str | None
    link: str
    suffix: str
    address: str
    hardware: str = ""

    @property
    def device(self) -> str:
        """The name of its device."""
        return KIND + self.suffix

    def seen_from(self, end: End) -> str:
        """The address as it is written there."""
        local = ipaddress.ip_address(self.address).is_link_local
        return f"{self.address}%{end.link}" if local else self.address

    @property
    def address_in_full(self) -> str:
        """The address with all its digits, if it is an IPv6 address."""
        return ipaddress.ip_address(self.address).exploded

    @property
    def has_device(self) -> bool:
        """Whether it is there."""
        return (_DEVICES / self.device).exists()


HOSTS = (End("a", "va", "a", "10.0.0.1"), End("b", "vb", "b", "10.0.0.2"))
A, B = HOSTS
NEAR = End(None, "near", "n", "fe80::701", "52:54:00:00:07:01")
FAR = End(None, "far", "f", "fe80::702", "52:54:00:00:07:02")
# An end that connects to itself. It is not on lo, where rdma_cm accepts no Ethernet device except
# rxe, which it knows by name.
SELF = End(None, "self", "s", "10.0.7.9", "52:54:00:00:07:09")
_OWN = (SELF, NEAR, FAR)
_ALL = (A, B, *_OWN)


def _gid(address: str) -> str:
    six = address if ":" in address else f"::ffff:{address}"
    digits = ipaddress.IPv6Address(six).packed.hex()
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))


def _has_gid(end: End) -> bool:
    table = _DEVICES / end.device / "ports/1/gids"
    for index in range(8):
        with contextlib.suppress(OSError):
            if (table / str(index)).read_text().strip() == _gid(end.address):
                return True
    return False


def add_device(end: End) -> None:
    """Makes the end's device, with the GID of the end's address."""
    if end.has_device:
        return
    words = ("rdma", "link", "add", end.device, "type", KIND, "netdev", end.link)
    command(*words, host=end.host)
    limits.until(f"the GID of {end.device}", limits.seconds(10), lambda: _has_gid(end))


def remove_device(end: End) -> None:
    """Removes it; that must not depend on timeouts of peers."""
    if not end.has_device:
        return
    command("rdma", "link", "del", end.device)


@contextlib.contextmanager
def device_afterwards(end: End) -> Iterator[None]:
    """Afterwards the end has a device, whatever happened to the old one."""
    try:
        yield
    finally:
        add_device(end)


def _load() -> None:
    if KIND == "rxe" or Path(f"/sys/module/{KIND}").exists():
        return
    path = os.environ.get("SDP_DEVICE_MODULE", f"/run/vm/{KIND}.ko")
    check(Path(path).exists(), f"no module for devices of the kind {KIND}: {path}")
    command("insmod", path, *os.environ.get("SDP_DEVICE_PARAMETERS", "").split())


def _take_others_away() -> None:
    for link in json.loads(command("rdma", "-j", "link")):
        if not str(link["ifname"]).startswith(KIND):
            command("rdma", "link", "del", str(link["ifname"]))


def _join() -> None:
    lines = [
        f"link add near address {NEAR.hardware} mtu {_MTU} type veth "
        f"peer name far address {FAR.hardware} mtu {_MTU}",
        f"link add self address {SELF.hardware} mtu {_MTU} type dummy",
        "link set self up",
        f"addr add {SELF.address}/32 dev self",
    ]
    for end, peer in ((NEAR, FAR), (FAR, NEAR)):
        lines += [
            f"link set {end.link} up",
            f"addr add {end.address}/64 dev {end.link} nodad",
            f"neigh replace {peer.address} lladdr {peer.hardware} nud permanent dev {end.link}",
        ]
    command("ip", "-batch", "-", text="\n".join(lines) + "\n")


def set_up() -> None:
    """All ends get a device of the kind."""
    _load()
    _take_others_away()
    if not Path("/sys/class/net/near").exists():
        _join()
    for end in _ALL:
        add_device(end)


def take_down() -> None:
    """Removes everything that `set_up` has made."""
    for end in _OWN:
        remove_device(end)
    for link in (NEAR.link, SELF.link):
        command("ip", "link", "del", link)


def resources() -> dict[str, int]:
    """The counts of the RDMA core for devices of the machine's own ends.

    SMC-R keeps its links for minutes, but not on these devices. The RDMA core keeps the remains of
    completion queues for the next user.
    """
    devices = {end.device for end in _OWN}
    found = {}
    for device in json.loads(command("rdma", "-j", "res", "show")):
        if device["ifname"] in devices:
            for kind in ("pd", "qp", "mr", "cm_id"):
                found[f"{device['ifname']} {kind}"] = int(device.get(kind, 0))
    return found


def await_resources(before: dict[str, int]) -> None:
    """Waits until there are no more of them in use than before."""
    leftovers.await_resources(before, resources, 5)


def check_joined(one: End, other: End) -> None:
    """There are queue pairs of connections on both ends."""
    pairs = json.loads(command("rdma", "-j", "res", "show", "qp"))
    found = {pair["ifname"] for pair in pairs if pair.get("type") == "RC"}
    check(
        {one.device, other.device} <= found,
        f"queue pairs on {sorted(found)}, not on {one.device} and {other.device}",
    )
