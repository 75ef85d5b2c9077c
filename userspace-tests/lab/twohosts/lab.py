# SPDX-License-Identifier: MIT
"""What a program needs to know to run: the hosts, the family, how much to do."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from twohosts import uapi
from twohosts.failure import Failure
from twohosts.hosts import Host

REPOSITORY = Path(__file__).resolve().parents[3]
APPS = REPOSITORY / "userspace-tests/apps"


@dataclass(frozen=True)
class Lab:
    """The place where programs run."""

    a: Host
    b: Host
    # "sdp", or "tcp" to try the programs themselves where there is no SDP.
    family: str
    # Less of everything, for a kernel that checks each access.
    small: bool
    # For files of the run; removed after it.
    directory: Path

    @property
    def number(self) -> int:
        """The address family as programs are told it."""
        return uapi.AF_INET_SDP if self.family == "sdp" else socket.AF_INET

    def amount(self, full: int, small: int) -> int:
        """One of the two, by how much there is to do."""
        return small if self.small else full

    def endpoint(self, *arguments: str) -> list[str]:
        """The command of this project's own sender and receiver."""
        return [str(APPS / "endpoints" / "stream"), *arguments, "--family", self.family]

    def wrapped(self, *command: str) -> list[str]:
        """A TCP program with its sockets over SDP."""
        if self.family == "tcp":
            return list(command)
        return [str(sdp_run()), *command]

    def switched(self, *command: str) -> list[str]:
        """A TCP program with its sockets over SDP, whatever it is made of."""
        if self.family == "tcp":
            return list(command)
        return [str(sdp_run()), "--bpf", *command]


def sdp_run() -> Path:
    """The wrapper: as the environment says, as installed, or from this checkout."""
    if named := os.environ.get("SDP_RUN"):
        return Path(named)
    if installed := shutil.which("sdp_run"):
        return Path(installed)
    for profile in ("release", "debug"):
        built = REPOSITORY / "rust" / "target" / profile / "sdp_run"
        if built.exists() and (built.parent / "libsdp.so").exists():
            return built
    raise Failure(
        "sdp_run is not built: cargo build --release --manifest-path rust/Cargo.toml, "
        "or set SDP_RUN to where it is"
    )


@dataclass(frozen=True)
class Measured:
    """What a case has seen when it went well."""

    # For a person: "41.2 MB/s", "310 us".
    figure: str
    # Bytes that the programs themselves say they have sent.
    payload: int


@dataclass(frozen=True)
class Case:
    """One program doing one thing."""

    name: str
    run: Callable[[Lab], Measured]
    # What it shows, for the list of cases.
    about: str = field(default="")


def rate(payload: int, seconds: float) -> str:
    """Megabytes per second, as everything here prints it."""
    return f"{payload / seconds / 1e6:.1f} MB/s"


def microseconds(seconds: float) -> str:
    """A latency, as everything here prints it."""
    return f"{seconds * 1e6:.0f} us"
