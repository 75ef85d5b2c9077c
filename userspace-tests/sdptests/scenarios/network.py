# SPDX-License-Identifier: MIT
"""The devices and links of hosts that are network namespaces, and changes of them."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdptests.scenarios import limits
from sdptests.twohosts.device import KIND, is_infiniband
from sdptests.twohosts.failure import Failure, check

# Not with ipv6.disable=1.
HAS_IPV6 = Path("/proc/sys/net/ipv6").exists()
# The RDMA core's mode of namespaces: each device is in the namespace of its interface alone.
_MODE = Path("/sys/module/ib_core/parameters/netns_mode")
IS_EXCLUSIVE = _MODE.exists() and _MODE.read_text() == "N\n"


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
    """Runs a tool, on a host if one is named; returns its output."""
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
    """A tool that runs in the background."""

    def __init__(self, words: Sequence[str], limit: float) -> None:
        self._words = " ".join(words)
        self._limit = limit
        self._begin = time.monotonic()
        self._took = 0.0
        self._process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def ended(self) -> bool:
        """Whether it has ended successfully; a failure after its time limit."""
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
        """Waits for it; returns the seconds it took."""
        limits.until(self._words, self._limit * 2, self.ended)
        return self._took


# A removal waits for connections to be taken down, but not for peers.
REMOVAL = 10


def removal(device: str) -> Background:
    """Starts the removal of an RDMA device."""
    return Background(["rdma", "link", "del", device], limits.seconds(REMOVAL))


def remove(device: str) -> float:
    """Removes an RDMA device; returns the seconds it took."""
    return removal(device).end()


def _make(end: End) -> None:
    words = ["rdma", "link", "add", end.device, "type", KIND, "netdev", end.link]
    command(*words, host=end.host)


def add(end: End) -> None:
    """Makes the host's RDMA device, with its addresses."""
    _make(end)
    await_gids(end)


def _gids(device: str) -> set[str]:
    table = Path(f"/sys/class/infiniband/{device}/ports/1/gids")
    found = set()
    # The table has a thousand entries; used ones come first.
    for index in range(12):
        with contextlib.suppress(OSError):
            found.add((table / str(index)).read_text().strip())
    return found


def await_gids(end: End) -> None:
    """Waits until the device has the GIDs of the host's addresses."""
    four = f"0000:0000:0000:0000:0000:ffff:0a00:{end.network:02x}{end.number:02x}"
    six = f"fd00:{end.network:04x}:0000:0000:0000:0000:0000:{end.number:04x}"
    wanted = {four, six} if HAS_IPV6 else {four}
    limits.until(
        f"the GIDs of {end.device}", limits.seconds(10), lambda: wanted <= _gids(end.device)
    )


def exists(device: str) -> bool:
    """Whether this RDMA device exists."""
    return Path(f"/sys/class/infiniband/{device}").exists()


@contextlib.contextmanager
def device_afterwards(end: End) -> Iterator[None]:
    """Afterwards the host has a new device, whatever happened to the old one."""
    try:
        yield
    finally:
        if not exists(end.device):
            add(end)


@contextlib.contextmanager
def device_gone(end: End) -> Iterator[None]:
    """The host has no device meanwhile, and gets a new one."""
    with device_afterwards(end):
        remove(end.device)
        yield


# A link that goes down loses its IPv6 addresses and its neighbours.
def _address_lines(end: End, peer: End) -> str:
    lines = [f"link set {end.link} up"]
    for version, length in ((4, 24), (6, 64))[: 2 if HAS_IPV6 else 1]:
        nodad = " nodad" if version == 6 else ""
        lines += [
            f"addr replace {end.address(version)}/{length} dev {end.link}{nodad}",
            f"neigh replace {peer.address(version)} lladdr {peer.hardware} nud reachable "
            f"dev {end.link}",
        ]
    return "\n".join(lines) + "\n"


def take_down(end: End) -> None:
    """Takes the link down: no packet passes, in either direction."""
    command("ip", "-n", end.host, "link", "set", end.link, "down")


def bring_up(end: End, peer: End) -> None:
    """Brings the link up again."""
    command("ip", "-n", end.host, "-batch", "-", text=_address_lines(end, peer))
    command("ip", "-n", peer.host, "-batch", "-", text=_address_lines(peer, end))
    for one in (end, peer):
        if exists(one.device):
            await_gids(one)
            await_port(one)


def await_port(end: End) -> None:
    """Waits until the device's port is active."""
    state = Path(f"/sys/class/infiniband/{end.device}/ports/1/state")
    limits.until(
        f"the port of {end.device}", limits.seconds(10), lambda: "ACTIVE" in state.read_text()
    )


def _has_lost_management(end: End) -> bool:
    pairs = json.loads(command("rdma", "-j", "res", "show", "qp"))
    mine = [pair for pair in pairs if pair["ifname"] == end.device and pair["type"] == "GSI"]
    return any(pair["state"] != "RTS" for pair in mine)


def manage(end: End) -> None:
    """Makes sure that the device can make connections.

    rxe treats every error of the network stack about a datagram as a fault of the queue pair, also
    of the management queue pair, which the RDMA core does not repair. After a connection
    manager has sent something without a route, the device makes no more connections; only a
    new device does.
    """
    if exists(end.device) and _has_lost_management(end):
        remove(end.device)
        add(end)


@contextlib.contextmanager
def unplugged(end: End) -> Iterator[None]:
    """The link is down meanwhile."""
    take_down(end)
    try:
        yield
    finally:
        bring_up(end, PEER[end.host])
        for one in (end, PEER[end.host]):
            manage(one)


def receive_in_order(end: End) -> None:
    """Keeps the order of packets that arrive at the host, as on a wire.

    Without NAPI a veth interface has a queue on each processor. A packet goes to the queue of the
    processor that dequeues it from the queueing discipline, which may differ from packet to
    packet. In rxe a late acknowledgement within the response to a Read ends the queue pair, and
    completes the Read as if it were whole. With GRO the interface has NAPI and one queue; packets
    sent with TSO bypass it.
    """
    if KIND == "rxe":
        command("ethtool", "-K", end.link, "tso", "off", "gro", "on", host=end.host)


# More packets than are ever in flight.
_QUEUE = "1000000"


def emulate(end: End, *netem: str) -> None:
    """Emulates the named faults, and no others, on packets that the host sends.

    The link has the same queueing discipline from the start. While one is replaced, packets
    are dropped with an error, which rxe treats as a fault of the queue pair (see `manage`). So is
    the error of a full queue.
    """
    words = ("qdisc", "replace", "dev", end.link, "root", "netem", "limit", _QUEUE)
    command("tc", "-n", end.host, *words, *netem)


@contextlib.contextmanager
def silent(end: End) -> Iterator[None]:
    """All packets of the host are lost without an error."""
    emulate(end, "loss", "100%")
    try:
        yield
    finally:
        emulate(end)


def interrupt(end: End, peer: End) -> None:
    """A short outage of the link between the hosts.

    The link of rxe loses packets instead of going down, because a queue pair that sends into a link
    that is down ends (see `manage`), however short the outage is.
    """
    if KIND == "rxe":
        with silent(end), silent(peer):
            time.sleep(0.3)
        return
    lines = f"link set {end.link} down\nlink set {end.link} up\n"
    command("ip", "-n", end.host, "-batch", "-", text=lines)
    bring_up(end, peer)


@contextlib.contextmanager
def disturbed(*netem: str) -> Iterator[None]:
    """Emulates faults in both directions."""
    try:
        for end in (A, B):
            emulate(end, *netem)
        yield
    finally:
        for end in (A, B):
            emulate(end)


def make_hosts(left: End, right: End) -> None:
    """Two more hosts, joined by a separate link."""
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


@contextlib.contextmanager
def another_link(left: End, right: End) -> Iterator[None]:
    """Joins existing hosts by one more link, with separate devices."""
    command(
        "ip",
        "-batch",
        "-",
        text=f"link add {left.link} address {left.hardware} mtu 4400 netns {left.host} type veth "
        f"peer name {right.link} address {right.hardware} mtu 4400 netns {right.host}\n",
    )
    try:
        for end, peer in ((left, right), (right, left)):
            command("ip", "-n", end.host, "-batch", "-", text=_address_lines(end, peer))
        for end in (left, right):
            emulate(end)
            add(end)
        yield
    finally:
        for end in (left, right):
            if exists(end.device):
                remove(end.device)
        command("ip", "-n", left.host, "link", "del", left.link)


@contextlib.contextmanager
def configured(host: str, *lines: str) -> Iterator[None]:
    """Adds objects with ip(8), and deletes them afterwards in reverse order."""
    done: list[str] = []
    try:
        for line in lines:
            command("ip", "-n", host, *line.split())
            done.append(line)
        yield
    finally:
        for line in reversed(done):
            command("ip", "-n", host, *line.replace(" add ", " del ").split())


def await_address(end: End, address: str) -> None:
    """Waits until the device has the GID of a further address."""
    bytes_of = ipaddress.ip_address(address).packed
    digits = bytes_of.rjust(6, b"\xff").rjust(16, b"\0").hex()
    wanted = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
    limits.until(
        f"{address} among the GIDs of {end.device}",
        limits.seconds(10),
        lambda: wanted in _gids(end.device),
    )


def repair() -> None:
    """Restores hosts a and b, whatever was done to them."""
    check(Path("/run/netns/a").exists(), "host a is gone")
    if IS_EXCLUSIVE:
        # Its scenarios have other hosts, and files of a and b are not here.
        return
    if is_infiniband():
        command("topology", "device", KIND)
        return
    for end in (A, B):
        emulate(end)
        if not exists(end.device):
            _make(end)
    bring_up(A, B)
