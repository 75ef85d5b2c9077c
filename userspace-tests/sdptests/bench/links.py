# SPDX-License-Identifier: MIT
"""The links that a bench measures: rxe, rlo, and rlo with a modelled link, see rlo(4)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.twohosts import counters, device
from sdptests.twohosts.hosts import namespaces

_MODEL = Path("/sys/kernel/debug/rlo")
_STATS = "/proc/thread-self/net/sdpstats"
# The receiver's counters of bytes received with zero copy.
_UNCOPIED = ("zcopy_bytes_received", "written_bytes_received")
HOSTS = tuple(host.name for host in namespaces())
# One way, with a rate; about that of one switch.
LATENCY_US = 2


@dataclass(frozen=True)
class Link:
    """A device, and the rate of its modelled link."""

    name: str
    device: str
    # 0: none is modelled.
    mbps: int = 0

    @property
    def has_tcp(self) -> bool:
        """Whether TCP is comparable: packets of the interfaces do not use a modelled link."""
        return not self.mbps


LINKS = {
    "rxe": Link("rxe", "rxe"),
    "rlo": Link("rlo", "rlo"),
    "rlo10": Link("rlo 10 Gb/s", "rlo", 10_000),
    "rlo100": Link("rlo 100 Gb/s", "rlo", 100_000),
}


def available() -> list[str]:
    """The keys of those whose device is there."""
    return [key for key, link in LINKS.items() if link.device in device.available()]


def use(link: Link) -> None:
    """Switches the hosts to it. Existing queue pairs keep their link."""
    device.use(link.device)
    for end in HOSTS if link.device == "rlo" else ():
        directory = _MODEL / f"rlo{end}"
        (directory / "rate_mbps").write_text(str(link.mbps))
        (directory / "latency_us").write_text(str(LATENCY_US if link.mbps else 0))


class Uncopied:
    """A host's sum of bytes received with zero copy, without a program for each look."""

    def __init__(self, host: str) -> None:
        with namespace(host):
            # The file belongs to the namespace in which it was opened.
            self._file = os.open(_STATS, os.O_RDONLY | os.O_CLOEXEC)

    def bytes(self) -> int:
        """The sum now."""
        os.lseek(self._file, 0, os.SEEK_SET)
        text = b""
        while more := os.read(self._file, 1 << 16):
            text += more
        found = counters.parse(text.decode())
        return sum(found.get(name, 0) for name in _UNCOPIED)

    def close(self) -> None:
        """Ends the use of the namespace."""
        os.close(self._file)


def knob(host: str, name: str) -> str:
    """The value of a knob of SDP on a host."""
    with namespace(host):
        return Path(f"/proc/sys/net/sdp/{name}").read_text().strip()


def set_knob(name: str, value: int | str) -> None:
    """Sets a knob of SDP on both hosts."""
    for host in HOSTS:
        _set(host, name, value)


@contextlib.contextmanager
def knob_kept(name: str) -> Iterator[None]:
    """A knob of SDP has its old values on both hosts afterwards."""
    before = {host: knob(host, name) for host in HOSTS}
    try:
        yield
    finally:
        for host, value in before.items():
            _set(host, name, value)


def _set(host: str, name: str, value: int | str) -> None:
    with namespace(host):
        Path(f"/proc/sys/net/sdp/{name}").write_text(str(value))
