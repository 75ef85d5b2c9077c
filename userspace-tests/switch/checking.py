# SPDX-License-Identifier: MIT
"""What sdp_chk says of a host that can use SDP, and of one that cannot; sdp_run --bpf as well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kinds import BOTH, HOST, PATIENCE, SDP_TRANSPORT, case, equal

# The other host of the topology.
OTHER = "10.0.0.2"


def _check(*arguments: str, before: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """Status and lines of a run that no library has changed."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [*before, "sdp_chk", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def _bad(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("BAD")]


@case
def sdp_chk_finds_nothing_bad_on_a_host_with_a_device() -> None:
    status, lines = _check()
    equal(_bad(lines), [])
    equal(status, 0)
    assert any(line.startswith("ok") for line in lines), lines


@case
def sdp_chk_is_quiet_about_what_is_good() -> None:
    equal(_check("-q"), (0, []))


@case
def sdp_chk_reaches_this_host_and_another() -> None:
    for host in (HOST, OTHER):
        status, lines = _check(host)
        equal((host, _bad(lines), status), (host, [], 0))


@case
def sdp_chk_says_what_to_do_about_a_host_that_is_not_there() -> None:
    status, lines = _check("10.0.0.99")
    equal(status, 1)
    assert _bad(lines), lines
    assert any(line.lstrip().startswith("->") for line in lines), lines


@case
def sdp_chk_says_what_to_do_where_there_is_no_device() -> None:
    status, lines = _check(before=("unshare", "--net"))
    equal(status, 1)
    assert _bad(lines), lines
    assert any(line.lstrip().startswith("->") for line in lines), lines


@case
def sdp_chk_takes_no_arguments_without_sense() -> None:
    status, _ = _check("--no-such-option")
    equal(status, 125)


# Says what a socket of TCP's may use: nothing else is known to one of TCP's own.
SOCKET = f"""
import socket
try:
    print(socket.socket().getsockopt(socket.IPPROTO_TCP, {SDP_TRANSPORT}))
except OSError:
    print("TCP")
"""


@case
def sdp_run_bpf_does_it_or_says_what_the_kernel_lacks() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [os.environ.get("SDP_RUN", "sdp_run"), "--bpf", "python3", "-c", SOCKET],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    if Path("/sys/kernel/btf/vmlinux").exists():
        equal((done.stdout, done.stderr), (f"{BOTH}\n", ""))
    else:
        lacks = "this kernel does not say what its functions are (CONFIG_DEBUG_INFO_BTF)"
        wanted = ("TCP\n", f"sdp_run: TCP, without --bpf: {lacks}\n")
        equal((done.stdout, done.stderr), wanted)
