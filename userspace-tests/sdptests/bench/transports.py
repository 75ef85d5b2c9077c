# SPDX-License-Identifier: MIT
"""What carries the connections of unchanged TCP programs, and the proof that it did."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from sdptests.consumers import smc
from sdptests.twohosts import counters
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.lab import Lab

TCP, SDP, SMCD, SMCR, RSOCKETS = "TCP", "SDP", "SMC-D", "SMC-R", "rsockets"
# Bytes that went that way: those sent, and those received, by both hosts.
Carried = Callable[[Lab], tuple[int, int]]


@dataclass(frozen=True)
class Transport:
    """A way for the bytes of TCP programs."""

    name: str
    # The environment of programs that use it.
    lab: Callable[[Lab], Lab]
    # What must be set up meanwhile.
    prepared: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    carried: Carried | None = None

    @contextlib.contextmanager
    def proven(self, lab: Lab, payload: Callable[[], int]) -> Iterator[None]:
        """At least so many bytes go that way meanwhile; a failure otherwise."""
        before = self.carried(lab) if self.carried else (0, 0)
        yield
        if carried := self.carried:

            def since() -> tuple[int, int]:
                (sent, received), (sent_before, received_before) = carried(lab), before
                return sent - sent_before, received - received_before

            sent, received = counters.settled(payload(), since)
            check(
                min(sent, received) >= payload(),
                f"the programs carried {payload()} bytes, {self.name} sent {sent} and received "
                f"{received}: they went another way",
            )


def _tcp(lab: Lab) -> Lab:
    return replace(lab, family="tcp", wrapper=())


def _sdp(lab: Lab) -> Lab:
    return replace(lab, family="sdp", wrapper=())


def _preloading(library: Callable[[], Path]) -> Callable[[Lab], Lab]:
    def of(lab: Lab) -> Lab:
        return replace(lab, family="tcp", wrapper=("env", f"LD_PRELOAD={library()}"))

    return of


def _smc_library() -> Path:
    """This checkout's, beside sdp_run."""
    found = Path(shutil.which("sdp_run") or "").parent / "libsmc_preload.so"
    if not found.exists():
        raise Failure(f"{found} is not there: build userspace-tests/smc-preload")
    return found


def _rsockets_library() -> Path:
    """librdmacm's."""
    found = sorted(Path("/usr/lib").glob("*/rsocket/librspreload.so*"))
    if not found:
        raise Failure("librspreload.so is not installed")
    return found[0]


def _by_sdp(lab: Lab) -> tuple[int, int]:
    found = [counters.read(host) for host in (lab.a, lab.b)]
    return sum(map(counters.sent_bytes, found)), sum(map(counters.received_bytes, found))


def _by_smcd(lab: Lab) -> tuple[int, int]:
    # One counter has both directions.
    both = sum(smc.counts(host.name).smcd_bytes for host in (lab.a, lab.b))
    return both // 2, both // 2


def _by_smcr(lab: Lab) -> tuple[int, int]:
    found = [smc.counts(host.name) for host in (lab.a, lab.b)]
    return sum(one.sent for one in found), sum(one.received for one in found)


def _by_rsockets(_lab: Lab) -> tuple[int, int]:
    """Only packets are counted; each has bytes of the device's MTU at most, and all are rxe's."""
    files = Path("/sys/class/infiniband").glob("rxe[ab]/ports/1/hw_counters/sent_pkts")
    most = sum(int(file.read_text()) for file in files) * 4096
    return most, most


BESIDE_RLO = (
    Transport(TCP, _tcp),
    Transport(SDP, _sdp, carried=_by_sdp),
    Transport(SMCD, _preloading(_smc_library), smc.over_memory, _by_smcd),
    Transport(SMCR, _preloading(_smc_library), smc.over_rdma, _by_smcr),
)
# There are no verbs for programs on rlo.
BESIDE_RXE = (
    *BESIDE_RLO[:2],
    Transport(RSOCKETS, _preloading(_rsockets_library), carried=_by_rsockets),
)
