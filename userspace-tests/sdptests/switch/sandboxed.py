# SPDX-License-Identifier: MIT
"""Sockets of programs in a sandbox: its rules about TCP hold for every way to get a socket.

Landlock has rules for the ports of TCP sockets, but none for SDP. The cases test whether it
controls the TCP half of a socket.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sdptests import checkout
from sdptests.switch.checking import check, without_library
from sdptests.switch.kinds import (
    BOTH,
    HOST,
    IP_TRANSPARENT,
    PATIENCE,
    SDP,
    TCP,
    case,
    equal,
    fails,
    listener_of,
    need_bpf,
    raw_tcp,
    switched,
    transport,
)

SANDBOX = checkout.TESTS / "switch/sandbox.py"
KNOB = Path("/proc/sys/net/sdp/companion")
NEVER, UNCONFINED, ALWAYS = "0", "1", "2"

# no_new_privs is the only property of a sandbox that a shell can set.
CONFINED = ("setpriv", "--no-new-privs")

REFUSED = ["ECONNREFUSED", "ECONNREFUSED"]


@contextlib.contextmanager
def _allowed_to(value: str) -> Iterator[None]:
    """Sets the knob that decides which processes may use TCP beside SDP."""
    before = KNOB.read_text()
    KNOB.write_text(value)
    try:
        yield
    finally:
        KNOB.write_text(before)


@contextlib.contextmanager
def _two_servers() -> Iterator[list[int]]:
    """The ports of two servers that have TCP only."""
    with listener_of(raw_tcp(), backlog=64) as one, listener_of(raw_tcp()) as other:
        yield [one.getsockname()[1], other.getsockname()[1]]


def _refusals() -> int:
    for line in Path("/proc/net/sdpstats").read_text().splitlines():
        name, value = line.split()
        if name == "tcp_refused":
            return int(value)
    raise AssertionError("no tcp_refused")


def _tried(
    doors: list[str],
    ports: list[int],
    *,
    allowed: list[int] | None = None,
    early: bool = False,
    before: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> list[object]:
    """The results of these calls in a separate program."""
    wanted = {"doors": doors, "ports": ports, "allowed": allowed, "early": early}
    done = subprocess.run(
        [*before, sys.executable, str(SANDBOX), json.dumps(wanted)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@case
def a_program_in_a_sandbox_has_tcp_by_its_rules() -> None:
    """Through the library: socket() returns a TCP socket."""
    with _two_servers() as ports:
        seen = _tried(["program", "program, later"], ports, allowed=ports[:1])
    equal(seen, [[None, "EACCES"]] * 2)


@case
def a_program_in_a_sandbox_has_tcp_by_its_rules_under_the_switch() -> None:
    """Through sdp_run --bpf."""
    need_bpf()
    switch = (os.environ.get("SDP_RUN", "sdp_run"), "--bpf")
    with _two_servers() as ports:
        for knob, used in ((UNCONFINED, None), (ALWAYS, TCP)):
            with _allowed_to(knob):
                seen = _tried(
                    ["program", "program, later"],
                    ports,
                    allowed=ports[:1],
                    before=switch,
                    environment=without_library(),
                )
            equal((knob, seen), (knob, [[used, "EACCES"]] * 2))


@case
def no_socket_for_both_is_made_in_a_sandbox() -> None:
    """Family 27 is SDP only, IPPROTO_SDP is refused."""
    doors = ["both", "tcp", "protocol"]
    before = _refusals()
    with _two_servers() as ports:
        equal(_tried(doors, ports, allowed=ports[:1]), ["EPERM"] * 3)
        # Even without sandbox rules, because the kernel checks no_new_privs only.
        equal(_tried(doors, ports, before=CONFINED), ["EPERM"] * 3)
        equal(_tried(doors, ports), [[TCP, TCP]] * 3)
    equal(_refusals() - before, 6)


@case
def a_socket_for_both_that_comes_into_a_sandbox_is_sdps() -> None:
    """Made before the sandbox: it connects and binds over SDP only; calls over TCP fail."""
    doors = ["both", "both, later", "protocol", "tcp", "tcp, fast", "tcp, bind"]
    with _two_servers() as ports:
        seen = _tried(doors, ports, allowed=ports[:1], early=True)
        equal(seen, [REFUSED] * 3 + [["EPERM", "EPERM"]] * 3)
        # The port is free in SDP, and the TCP half is not involved.
        equal(_tried(["both, bind"], ports, allowed=[], early=True), [[SDP, SDP]])


@case
def an_option_for_tcp_needs_leave_for_tcp() -> None:
    with switched() as sock:
        option = (socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        with _allowed_to(NEVER):
            before = _refusals()
            fails(errno.ENOPROTOOPT, sock.setsockopt, *option)
            equal((transport(sock), _refusals() - before), (BOTH, 1))
        sock.setsockopt(*option)
        equal(transport(sock), TCP)


@case
def security_modules_are_asked_about_the_tcp_half() -> None:
    """If the knob allows it, the sandbox's rules for connect() hold, also if a worker connects."""
    doors = ["program", "both", "both, later", "tcp", "tcp, fast", "protocol", "protocol, later"]
    with _two_servers() as ports, _allowed_to(ALWAYS):
        for early in (False, True):
            seen = _tried(doors, ports, allowed=ports[:1], early=early)
            equal((early, seen), (early, [[TCP, "EACCES"]] * len(doors)))


@case
def a_namespace_may_have_no_sockets_for_both() -> None:
    with _two_servers() as ports, _allowed_to(NEVER):
        seen = _tried(["both", "tcp", "protocol", "program"], ports)
        equal(seen, ["EPERM", "EPERM", "EPERM", [None, None]])
        status, lines = check()
        equal(status, 1)
        assert any("net.sdp.companion=0" in line for line in lines), lines


@case
def sdp_chk_says_why_a_sandbox_has_no_sockets_for_both() -> None:
    status, lines = check(before=CONFINED)
    equal(status, 1)
    assert any("no_new_privs" in line for line in lines), lines
    assert any("net.sdp.companion=2" in line for line in lines), lines


@case
def the_library_says_why_a_sandbox_is_on_tcp() -> None:
    with _two_servers() as ports:
        program = f"import socket; socket.create_connection(('{HOST}', {ports[0]}))"
        done = subprocess.run(
            [*CONFINED, sys.executable, "-c", program],
            env={**os.environ, "SDP_DEBUG": "1"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert "net.sdp.companion" in done.stderr, done.stderr
