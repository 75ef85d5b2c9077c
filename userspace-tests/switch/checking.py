# SPDX-License-Identifier: MIT
"""What sdp_chk says of a host that can use SDP, and of one that cannot."""

from __future__ import annotations

import os
import subprocess

from kinds import HOST, PATIENCE, case, equal

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
