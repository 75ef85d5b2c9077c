# SPDX-License-Identifier: MIT
"""Runs scenarios, each in a process that is ended in any case."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

from sdptests.scenarios import limits, network, ynl
from sdptests.scenarios.register import (
    EXCLUSIVE,
    INFINIBAND,
    NO_IPV6,
    PACKETS,
    SCENARIOS,
    YNL,
    Scenario,
    Skip,
)
from sdptests.twohosts import device
from sdptests.twohosts.failure import Failure

# Of mixed_load, an hour on the faster kernel.
LIMIT = 60 * (40 if limits.SOAK else 1)


@dataclass
class Outcome:
    """The result of a scenario's process."""

    reason: str = ""
    skipped: str = ""
    note: str = ""


def play(scenario: Scenario) -> Outcome:
    """Runs in the scenario's own process."""
    try:
        return Outcome(note=scenario.run() or "")
    except Skip as skip:
        return Outcome(skipped=str(skip))
    except Failure as failure:
        where = traceback.extract_tb(failure.__traceback__)
        lines = [frame.lineno for frame in where if "/cases/" in frame.filename]
        return Outcome(reason=f"{failure} (line {lines[-1] if lines else 0})")
    except BaseException:
        return Outcome(reason=traceback.format_exc())


def stacks(session: int) -> str:
    """The directories of all processes of a session."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            rest = (process / "stat").read_text().rsplit(")", 1)[1].split()
            if int(rest[3]) == session:
                found.append(
                    f"process {process.name} ({rest[0]}):\n{(process / 'stack').read_text()}"
                )
    return "\n".join(found)


def alive(session: int) -> bool:
    """Whether a process of the session still runs."""
    return any(
        part for part in stacks(session).split("process ")[1:] if "(Z)" not in part.splitlines()[0]
    )


def perform(scenario: Scenario) -> Outcome:
    """Runs it in a process and a session of its own, which is ended in any case."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(reader)
        outcome = play(scenario)
        os.write(writer, json.dumps(outcome.__dict__).encode()[:60000])
        os._exit(0)
    os.close(writer)
    limit = limits.seconds(LIMIT)
    outcome = Outcome(reason=f"not over after {limit:.0f} s")
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if poll.poll(limit * 1000):
        if data := os.read(reader, 65536):
            outcome = Outcome(**json.loads(data))
        else:
            outcome.reason = "the process of the scenario died"
    else:
        outcome.reason += "\n" + stacks(pid)
    os.close(reader)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    try:
        limits.until(
            "the end of the scenario",
            limits.seconds(15),
            lambda: os.waitpid(pid, os.WNOHANG)[0] == pid,
        )
        limits.until("the end of all actors", limits.seconds(15), lambda: not alive(pid))
    except Failure as failure:
        outcome.reason += f"\n{failure}\n{stacks(pid)}"
    return outcome


def selected(options: argparse.Namespace) -> list[Scenario]:
    """The scenarios to run."""
    there = {
        NO_IPV6: not network.HAS_IPV6,
        EXCLUSIVE: network.IS_EXCLUSIVE,
        PACKETS: device.sends_packets(),
        INFINIBAND: device.is_infiniband(),
        YNL: ynl.CLIENT.exists(),
    }
    return SCENARIOS.selected(options, [need for need, is_there in there.items() if is_there])
