# SPDX-License-Identifier: MIT
"""The environment of a program: the hosts, the family, the amount of work."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sdptests import checkout
from sdptests.twohosts import uapi
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import Host

APPS = checkout.TESTS / "apps"


@dataclass(frozen=True)
class Lab:
    """The environment of programs."""

    a: Host
    b: Host
    # "sdp", or "tcp" to try the programs themselves without SDP.
    family: str
    # Less work, for a kernel that checks each access.
    small: bool
    # For temporary files of the run.
    directory: Path
    # Words before the command of a TCP program that make it use another transport.
    wrapper: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The address family as programs are told it."""
        return uapi.AF_INET_SDP if self.family == "sdp" else socket.AF_INET

    def amount(self, full: int, small: int) -> int:
        """One of the two values, by the amount of work."""
        return small if self.small else full

    def endpoint(self, *arguments: str) -> list[str]:
        """The command of this project's own sender and receiver."""
        return [str(APPS / "endpoints" / "stream"), *arguments, "--family", self.family]

    def wrapped(self, *command: str) -> list[str]:
        """A TCP program with its sockets over SDP."""
        if self.family == "tcp":
            return [*self.wrapper, *command]
        return [*sdp_run(), *command]

    def switched(self, *command: str) -> list[str]:
        """A TCP program with its sockets over SDP, for every kind of program."""
        if self.family == "tcp":
            return list(command)
        return [*sdp_run(), "--bpf", *command]


def sdp_run() -> list[str]:
    """sdp_run, with options or without: from the environment, the installation, or this checkout."""
    if words := os.environ.get("SDP_RUN"):
        return shlex.split(words)
    if installed := shutil.which("sdp_run"):
        return [installed]
    for profile in ("release", "debug"):
        built = checkout.TOP / "rust" / "target" / profile / "sdp_run"
        if built.exists() and (built.parent / "libsdp.so").exists():
            return [str(built)]
    raise Failure(
        "sdp_run is not built: cargo build --release --manifest-path rust/Cargo.toml, "
        "or set SDP_RUN to its path"
    )


@dataclass(frozen=True)
class Measured:
    """The result of a successful case."""

    # For readers: "41.2 MB/s", "310 us".
    figure: str
    # The number of bytes that the programs report as sent.
    payload: int


@dataclass(frozen=True)
class Case:
    """One use of one program."""

    name: str
    run: Callable[[Lab], Measured]
    # Its purpose, for the list of cases.
    about: str = field(default="")


def rate(payload: int, seconds: float) -> str:
    """A rate in megabytes per second, for output."""
    return f"{payload / seconds / 1e6:.1f} MB/s"


def microseconds(seconds: float) -> str:
    """A latency in microseconds, for output."""
    return f"{seconds * 1e6:.0f} us"
