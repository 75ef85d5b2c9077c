# SPDX-License-Identifier: MIT
"""This project's own sender and receiver: one long stream, compared by its sha256."""

from __future__ import annotations

import json

from sdptests.twohosts.failure import check
from sdptests.twohosts.hosts import PATIENCE, Host
from sdptests.twohosts.lab import Case, Lab, Measured, rate

MIB = 1 << 20


def stream(lab: Lab, source: Host, sink: Host, address: str, total: int, *how: str) -> Measured:
    """Sends `total` bytes to `address` of `sink`, and compares the received bytes."""
    # A slow transfer is not a hang: a busy host that emulates both ends may need so long.
    timeout = PATIENCE + total / MIB
    with sink.start(
        lab.endpoint("receive", "--address", address, *how), ready=r"listening (\d+)"
    ) as receiver:
        sent = json.loads(
            source.run(
                lab.endpoint(
                    *("send", "--address", address, "--port", str(receiver.number())),
                    *("--bytes", str(total), *how),
                ),
                timeout=timeout,
            ).stdout
        )
        received = json.loads(receiver.finish().splitlines()[-1])
    check(sent["bytes"] == total, f"{sent['bytes']} of {total} bytes were sent")
    check(received["bytes"] == total, f"{received['bytes']} of {total} bytes arrived")
    check(sent["sha256"] == received["sha256"], "the bytes that arrived are not those sent")
    check(sent["own"] == received["peer"], f"names differ: {sent['own']} {received['peer']}")
    check(sent["peer"] == received["own"], f"names differ: {sent['peer']} {received['own']}")
    return Measured(rate(total, received["seconds"]), total)


def _even(lab: Lab) -> Measured:
    return stream(lab, lab.a, lab.b, lab.b.ipv4, lab.amount(1024 * MIB, 16 * MIB))


def _odd(lab: Lab) -> Measured:
    return stream(lab, lab.b, lab.a, lab.a.ipv4, 64 * MIB, "--odd")


def _ipv6(lab: Lab) -> Measured:
    return stream(lab, lab.a, lab.b, lab.b.ipv6, lab.amount(64 * MIB, 4 * MIB), "--odd")


def cases(lab: Lab) -> list[Case]:
    """The cases of this program."""
    size = "16 MiB" if lab.small else "1 GiB"
    return [
        Case(f"transfer {size}, sha256", _even),
        Case("transfer 64 MiB, odd sizes", _odd),
        Case("transfer IPv6, odd sizes", _ipv6),
    ]
