# SPDX-License-Identifier: MIT
"""Runs a case and takes the path of its bytes from the module's counters, not from the program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sdptests.twohosts import counters
from sdptests.twohosts.device import kind
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import PATIENCE, Host
from sdptests.twohosts.lab import Case, Lab, Measured

NOTHING_LEFT = "no connection left"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    name: str
    ok: bool
    # "SDP", "TCP" or "-": the path of the bytes.
    path: str
    figure: str
    counters: str
    # The reason of the failure; empty after success.
    reason: str
    # The RDMA device that transferred the bytes, if one did.
    device: str = "-"


def run(case: Case, lab: Lab) -> Outcome:
    """Runs a case; over SDP it passes only if the counters of both hosts confirm it."""
    hosts = (lab.a, lab.b)
    changes: list[counters.Counters] = []
    figure, path = "-", "-"
    device = kind() if lab.family == "sdp" else "-"
    try:
        before = [counters.read(host) for host in hosts] if lab.family == "sdp" else []
        by_tcp = -sum(map(counters.accepted_by_tcp, hosts))
        measured = case.run(lab)
        by_tcp += sum(map(counters.accepted_by_tcp, hosts))
        figure = measured.figure
        path = "TCP" if measured.payload else "-"
        if lab.family == "sdp":

            def carried() -> tuple[int, int]:
                changes[:] = _changes(hosts, before)
                return _carried(changes)

            sent, received = counters.settled(measured.payload, carried)
            if measured.payload:
                _went_over_sdp(measured, sent, received)
                if wrong := counters.rather_by_tcp(by_tcp, changes):
                    raise Failure(wrong)
                path = "SDP"
    except Failure as failure:
        reason = str(failure)
        return Outcome(case.name, False, path, figure, counters.summary(changes), reason, device)
    return Outcome(case.name, True, path, figure, counters.summary(changes), "", device)


def _changes(hosts: Sequence[Host], before: list[counters.Counters]) -> list[counters.Counters]:
    after = [counters.read(host) for host in hosts]
    return [counters.difference(*pair) for pair in zip(before, after, strict=True)]


def _carried(changes: list[counters.Counters]) -> tuple[int, int]:
    sent = sum(map(counters.sent_bytes, changes))
    return sent, sum(map(counters.received_bytes, changes))


# The longest advertisements of some connections, in bytes.
UNREPORTED = 8 << 20


def _went_over_sdp(measured: Measured, sent: int, received: int) -> None:
    # Each host has its own counters: bytes sent by one are received by the other. A peer that closes while
    # its last RDMA Read is not yet reported keeps these bytes from being counted as sent.
    unreported = min(UNREPORTED, measured.payload // 100)
    if received < measured.payload or sent < measured.payload - unreported:
        raise Failure(
            f"the programs carried {measured.payload} bytes, SDP sent {sent} "
            f"and received {received}: they went another way"
        )


def nothing_left(lab: Lab) -> Outcome:
    """Waits for the connections of ended programs, which close within seconds."""
    name = NOTHING_LEFT
    left: list[str] = []
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            left = counters.open_sockets(lab.a) + counters.open_sockets(lab.b)
            if not left:
                return Outcome(name, True, "-", "-", "", "", kind())
            if time.monotonic() > deadline:
                raise Failure("\n".join(["still in the table:", *left]))
            time.sleep(0.2)
    except Failure as failure:
        return Outcome(name, False, "-", "-", "", str(failure), kind())
