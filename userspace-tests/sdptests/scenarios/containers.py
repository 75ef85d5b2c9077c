# SPDX-License-Identifier: MIT
"""Network namespaces on a bridge, as container engines make them, and the daemon rlo_bridge."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener
from sdptests.scenarios import limits
from sdptests.scenarios.network import command
from sdptests.twohosts.failure import Failure, check

SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
IFF_UP = 1
BRIDGE = "br0"
COUNT = 100_000


@dataclass(frozen=True)
class Container:
    """A namespace with the interface eth0. The other end of that is a port of the bridge."""

    number: int
    bridge: str = BRIDGE

    @property
    def host(self) -> str:
        """The namespace's name."""
        return f"c{self.number}"

    @property
    def port(self) -> str:
        """The port of the bridge."""
        return f"p{self.number}"

    @property
    def index(self) -> int:
        """The number of the port."""
        return 1000 + self.number

    @property
    def address(self) -> str:
        """The address of eth0."""
        return f"10.5.0.{self.number}"

    @property
    def hardware(self) -> str:
        """The address of the link."""
        return f"52:54:00:00:05:{self.number:02x}"

    @property
    def guid(self) -> str:
        """The GUID of a device on the interface, whatever the names of both are."""
        return f"5054:00ff:fe00:05{self.number:02x}"


def _batch(lines: list[str]) -> None:
    command("ip", "-batch", "-", text="\n".join(lines) + "\n")


def start(*containers: Container) -> None:
    """Makes the namespaces, and puts them on their bridge."""
    lines = []
    for one in containers:
        lines += [
            f"netns add {one.host}",
            f"link add {one.port} index {one.index} type veth "
            f"peer name eth0 address {one.hardware} netns {one.host}",
            f"link set {one.port} master {one.bridge} up",
        ]
    _batch(lines)
    for one in containers:
        configure(one)


def configure(container: Container, host: str = "") -> None:
    """Gives eth0 its address, in the container's namespace or another one, and takes it up.

    Not by ip(8): starting a program is most of the time of these tests.
    """
    mask = "255.255.255.0"
    with namespace(host or container.host), socket.socket(type=socket.SOCK_DGRAM) as sock:
        for call, address in ((SIOCSIFADDR, container.address), (SIOCSIFNETMASK, mask)):
            where = struct.pack("=16sHH4s8x", b"eth0", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(sock, call, where)
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("=16sH14x", b"eth0", IFF_UP))


def stop(*containers: Container) -> None:
    """Ends the namespaces, and waits until their ports are gone: the kernel does that later."""
    _batch([f"netns del {one.host}" for one in containers])
    ports = [Path("/sys/class/net", one.port) for one in containers]
    limits.until(
        f"the end of {len(ports)} ports",
        limits.seconds(20),
        lambda: not any(port.exists() for port in ports),
    )


def devices() -> dict[str, tuple[str, int]]:
    """The name of each RDMA device and a number that no later one has, by GUID."""
    found = {}
    for path in Path("/sys/class/infiniband").iterdir():
        # One may go meanwhile.
        with contextlib.suppress(OSError):
            guid = path / "node_guid"
            found[guid.read_text().strip()] = path.name, guid.stat().st_ino
    return found


def device(container: Container) -> tuple[str, int] | None:
    """The name and number of the container's device."""
    return devices().get(container.guid)


def await_devices(*containers: Container) -> float:
    """Waits until each of these has a device; returns the seconds it took."""
    wanted = {one.guid for one in containers}
    what = f"devices of {len(wanted)} containers"
    return limits.until(what, limits.seconds(20), lambda: wanted <= devices().keys())


def await_none(*containers: Container) -> float:
    """Waits until none of these has a device; returns the seconds it took."""
    gone = {one.guid for one in containers}
    what = f"no devices of {len(gone)} containers"
    return limits.until(what, limits.seconds(20), lambda: not gone & devices().keys())


# The answers while a device does not have the address of its interface yet.
NOT_YET = (errno.EADDRNOTAVAIL, errno.ENETUNREACH)


def _connection(client: Container, server: Container) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            with namespace(server.host):
                listener = stack.enter_context(contextlib.closing(Listener(server.address)))
            with namespace(client.host):
                connecting = Connecting(server.address, listener.port)
        except OSError as error:
            if error.errno in NOT_YET:
                return False
            raise
        stack.callback(connecting.close)
        if connecting.outcome(limits.seconds(30)):
            return False
        end = stack.enter_context(contextlib.closing(listener.accept(limits.seconds(10))))
        connecting.stream().send(bytes(COUNT))
        check(end.receive(COUNT) == bytes(COUNT), "other bytes")
    return True


def connect(client: Container, server: Container) -> None:
    """Sends bytes over SDP. A device gets its addresses a moment after it was made."""
    limits.until(
        f"a connection of {client.host} and {server.host}",
        limits.seconds(30),
        lambda: _connection(client, server),
    )


def are_apart(client: Container, server: Container) -> bool:
    """Whether no connection over SDP is possible, although both devices are ready."""
    for one in (client, server):
        connect(one, one)
    return not _connection(client, server)


def _says(sock: socket.socket, word: bytes) -> bool:
    try:
        return sock.recv(64) == word
    except TimeoutError:
        return False


class Service:
    """A program that tells systemd when it is ready, and ends by SIGTERM."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self._log = tempfile.TemporaryFile()
        self.begin()

    def begin(self) -> None:
        """Starts the process, or the next one, and waits until it is ready, as systemd does."""
        with contextlib.ExitStack() as stack:
            path = stack.enter_context(tempfile.TemporaryDirectory()) + "/notify"
            sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            sock.bind(path)
            sock.settimeout(1)
            environment = os.environ | {"NOTIFY_SOCKET": path}
            self._process = subprocess.Popen(self._words, stderr=self._log, env=environment)
            limits.until(
                "readiness",
                limits.seconds(20),
                lambda: not self.runs() or _says(sock, b"READY=1"),
            )

    def said(self) -> str:
        """Its messages."""
        # The program writes at the place that the file's two descriptors share.
        return os.pread(self._log.fileno(), 65536, 0).decode()

    def await_word(self, word: str) -> None:
        """Waits until it has said this."""
        limits.until(word, limits.seconds(10), lambda: word in self.said())

    def holds(self) -> dict[str, int]:
        """Its descriptors, threads and KiB of memory."""
        process = Path(f"/proc/{self._process.pid}")
        lines = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return {
            "descriptors": len(list((process / "fd").iterdir())),
            "threads": int(lines["Threads"]),
            "KiB": int(lines["VmRSS"].split()[0]),
        }

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Its exit status."""
        return self._process.wait(limits.seconds(20))

    def kill(self) -> None:
        """As a crash would end it."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """As systemd stops it."""
        if self.runs():
            self._process.send_signal(signal.SIGTERM)
        status = self.wait()
        check(status == 0, f"{self._words} ended with {status}: {self.said()}")
        check("panicked" not in self.said(), self.said())


class Daemon(Service):
    """A process of rlo_bridge, in a namespace if one is named."""

    def __init__(self, bridge: str = BRIDGE, host: str | None = None) -> None:
        enter = ("ip", "netns", "exec", host) if host else ()
        inode = f"{Path('/run/netns', host).stat().st_ino}-" if host else ""
        # Of its devices and files.
        self._prefix = f"rlo-{inode}{bridge}-"
        super().__init__(*enter, "rlo_bridge", bridge)

    def end(self) -> None:
        """As systemd stops it; nothing is left."""
        super().end()
        # The kernel takes devices of namespaces that have ended away by itself, and later.
        with contextlib.suppress(Failure):
            limits.until("no device", limits.seconds(20), lambda: not self._left())
        check(not self._left(), f"left: {self._left()}")

    def _left(self) -> list[str]:
        """Devices and files of the daemon."""
        left = [name for name, _ in devices().values() if name.startswith(self._prefix)]
        return left + [str(path) for path in Path("/run").glob(f"{self._prefix}*")]


@contextlib.contextmanager
def bridge(name: str = BRIDGE, host: str | None = None) -> Iterator[Daemon]:
    """A bridge with its daemon; nothing of them and of containers is left afterwards."""
    enter = ("-n", host) if host else ()
    command("ip", *enter, "link", "add", name, "up", "type", "bridge")
    daemon = Daemon(name, host)
    try:
        yield daemon
        daemon.end()
    except Failure as failure:
        raise Failure(f"{failure}\n{daemon.said()}") from None
    finally:
        if daemon.runs():
            daemon.kill()
        for path in Path("/run/netns").glob("c*"):
            command("ip", "netns", "del", path.name)
        with contextlib.suppress(Failure):
            command("ip", *enter, "link", "del", name)
