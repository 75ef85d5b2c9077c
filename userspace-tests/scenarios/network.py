# SPDX-License-Identifier: MIT
"""The devices and links of hosts that are network namespaces, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import limits
from twohosts.device import KIND, is_infiniband
from twohosts.failure import Failure, check


@dataclass(frozen=True)
class End:
    """A host: its namespace, its end of the veth pair, its device, its addresses."""

    host: str
    link: str
    device: str
    number: int
    network: int = 0

    def address(self, version: int) -> str:
        """The IPv4 or IPv6 address."""
        if version == 4:
            return f"10.0.{self.network}.{self.number}"
        return f"fd00:{self.network or ''}::{self.number}".replace(":::", "::")

    @property
    def hardware(self) -> str:
        """The address of the link."""
        return f"52:54:00:00:{self.network:02x}:{self.number:02x}"


A = End("a", "va", f"{KIND}a", 1)
B = End("b", "vb", f"{KIND}b", 2)
PEER = {"a": B, "b": A}


def command(*words: str, host: str | None = None, text: str | None = None) -> str:
    """Run a tool, on a host if one is named; what it prints."""
    prefix = ("ip", "netns", "exec", host) if host else ()
    limit = limits.seconds(20)
    try:
        done = subprocess.run(
            [*prefix, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words)} did not end within {limit:.0f} s") from None
    if done.returncode:
        raise Failure(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Background:
    """A tool that runs while something else goes on."""

    def __init__(self, words: Sequence[str], limit: float) -> None:
        self._words = " ".join(words)
        self._limit = limit
        self._begin = time.monotonic()
        self._took = 0.0
        self._process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def ended(self) -> bool:
        """Whether it has, in order; a failure when it should have by now."""
        status = self._process.poll()
        took = time.monotonic() - self._begin
        if status is None:
            if took > self._limit:
                stack = Path(f"/proc/{self._process.pid}/stack").read_text()
                raise Failure(f"{self._words} hangs after {took:.0f} s, in\n{stack}")
            return False
        self._took = self._took or took
        if status:
            assert self._process.stderr is not None
            raise Failure(f"{self._words} ended with {status}: {self._process.stderr.read()}")
        return True

    def end(self) -> float:
        """Wait for it; the seconds it took."""
        limits.until(self._words, self._limit * 2, self.ended)
        return self._took


# A removal waits for connections to be taken down, not for any peer.
REMOVAL = 10


def removal(device: str) -> Background:
    """Begin to remove an RDMA device."""
    return Background(["rdma", "link", "del", device], limits.seconds(REMOVAL))


def remove(device: str) -> float:
    """Remove an RDMA device; the seconds it took."""
    return removal(device).end()


def _make(end: End) -> None:
    words = ["rdma", "link", "add", end.device, "type", KIND, "netdev", end.link]
    command(*words, host=end.host)


def add(end: End) -> None:
    """Have the host's RDMA device, with its addresses."""
    _make(end)
    await_gids(end)


def _gids(device: str) -> set[str]:
    table = Path(f"/sys/class/infiniband/{device}/ports/1/gids")
    found = set()
    # The table has a thousand entries; those in use come first.
    for index in range(6):
        with contextlib.suppress(OSError):
            found.add((table / str(index)).read_text().strip())
    return found


def await_gids(end: End) -> None:
    """Wait until the device is known by the host's addresses."""
    four = f"0000:0000:0000:0000:0000:ffff:0a00:{end.network:02x}{end.number:02x}"
    six = f"fd00:{end.network:04x}:0000:0000:0000:0000:0000:{end.number:04x}"
    limits.until(
        f"the GIDs of {end.device}", limits.seconds(10), lambda: {four, six} <= _gids(end.device)
    )


def exists(device: str) -> bool:
    """Whether there is such an RDMA device."""
    return Path(f"/sys/class/infiniband/{device}").exists()


@contextlib.contextmanager
def device_afterwards(end: End) -> Iterator[None]:
    """Whatever happens to the host's device, it has a new one afterwards."""
    try:
        yield
    finally:
        if not exists(end.device):
            add(end)


@contextlib.contextmanager
def device_gone(end: End) -> Iterator[None]:
    """The host is without its device, and gets a new one."""
    with device_afterwards(end):
        remove(end.device)
        yield


# What a link forgets when it is down: its IPv6 addresses and its neighbours.
def _address_lines(end: End, peer: End) -> str:
    lines = [f"link set {end.link} up"]
    for version, length in ((4, 24), (6, 64)):
        nodad = " nodad" if version == 6 else ""
        lines += [
            f"addr replace {end.address(version)}/{length} dev {end.link}{nodad}",
            f"neigh replace {peer.address(version)} lladdr {peer.hardware} nud reachable "
            f"dev {end.link}",
        ]
    return "\n".join(lines) + "\n"


def take_down(end: End) -> None:
    """Unplug the link: no packet passes, in neither direction."""
    command("ip", "-n", end.host, "link", "set", end.link, "down")


def bring_up(end: End, peer: End) -> None:
    """Plug it in again."""
    command("ip", "-n", end.host, "-batch", "-", text=_address_lines(end, peer))
    command("ip", "-n", peer.host, "-batch", "-", text=_address_lines(peer, end))
    for one in (end, peer):
        if exists(one.device):
            await_gids(one)
            await_port(one)


def await_port(end: End) -> None:
    """Wait until the device says that it is connected."""
    state = Path(f"/sys/class/infiniband/{end.device}/ports/1/state")
    limits.until(
        f"the port of {end.device}", limits.seconds(10), lambda: "ACTIVE" in state.read_text()
    )


def _has_lost_management(end: End) -> bool:
    pairs = json.loads(command("rdma", "-j", "res", "show", "qp"))
    mine = [pair for pair in pairs if pair["ifname"] == end.device and pair["type"] == "GSI"]
    return any(pair["state"] != "RTS" for pair in mine)


def manage(end: End) -> None:
    """Have a device that makes connections.

    rxe takes whatever the network stack says about a datagram for a fault of the queue pair, that
    of the device's management included, and the RDMA core does not repair that: after a connection
    manager had something to say while there was no route, the device makes no connections any more,
    and only a new one does.
    """
    if exists(end.device) and _has_lost_management(end):
        remove(end.device)
        add(end)


@contextlib.contextmanager
def unplugged(end: End) -> Iterator[None]:
    """The link is down."""
    take_down(end)
    try:
        yield
    finally:
        bring_up(end, PEER[end.host])
        manage(end)


def receive_in_order(end: End) -> None:
    """Have the packets that come to the host stay in their order, as on a wire.

    Without NAPI a veth interface has a queue on each processor, and a packet goes to that of the
    processor that takes it from the queueing discipline, which need not be the one that takes the
    next. For rxe a late acknowledgement within the response to a Read ends the queue pair, and the
    Read as if all of it had come. With GRO the interface has NAPI and one queue; what is sent with
    TSO passes it by.
    """
    if KIND == "rxe":
        command("ethtool", "-K", end.link, "tso", "off", "gro", "on", host=end.host)


# More packets than are ever on their way.
_QUEUE = "1000000"


def emulate(end: End, *netem: str) -> None:
    """Have the packets that the host sends suffer from what is named, and from nothing else.

    The link has the same queueing discipline from the start. While one is being exchanged packets
    are dropped with a notice, which rxe takes for a fault of the queue pair (see `manage`), and it
    takes the one of a queue that is full for that as well.
    """
    words = ("qdisc", "replace", "dev", end.link, "root", "netem", "limit", _QUEUE)
    command("tc", "-n", end.host, *words, *netem)


@contextlib.contextmanager
def silent(end: End) -> Iterator[None]:
    """Whatever the host sends gets lost, and it does not know."""
    emulate(end, "loss", "100%")
    try:
        yield
    finally:
        emulate(end)


@contextlib.contextmanager
def disturbed(*netem: str) -> Iterator[None]:
    """Packets suffer on their way, in both directions."""
    try:
        for end in (A, B):
            emulate(end, *netem)
        yield
    finally:
        for end in (A, B):
            emulate(end)


def make_hosts(left: End, right: End) -> None:
    """Two more hosts, joined by a link of their own."""
    command(
        "ip",
        "-batch",
        "-",
        text=f"netns add {left.host}\nnetns add {right.host}\n"
        f"link add {left.link} address {left.hardware} mtu 4400 netns {left.host} type veth "
        f"peer name {right.link} address {right.hardware} mtu 4400 netns {right.host}\n",
    )
    for end, peer in ((left, right), (right, left)):
        lines = "link set lo up\n" + _address_lines(end, peer)
        command("ip", "-n", end.host, "-batch", "-", text=lines)
    for end in (left, right):
        receive_in_order(end)
        emulate(end)
        add(end)


def repair() -> None:
    """Bring hosts a and b back to what they are to be, whatever was done to them."""
    check(Path("/run/netns/a").exists(), "host a is gone")
    if is_infiniband():
        command("topology", "device", KIND)
        return
    for end in (A, B):
        emulate(end)
        if not exists(end.device):
            _make(end)
    bring_up(A, B)
