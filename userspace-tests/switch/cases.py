#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sockets that may use SDP or TCP, as a program sees them. Emits KTAP.

Run under sdp_run, so that every socket of Python may use both. Sockets for SDP or
TCP alone are made by the system call itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sdptests.switch import checking, connecting, crate, kinds, listening, ruling, sandboxed, using
from sdptests.switch.kinds import CASES
from sdptests.twohosts import loop, register
from sdptests.twohosts.ktap import Ktap

# The modules register their cases.
__all__ = ["checking", "connecting", "crate", "listening", "ruling", "sandboxed", "using"]


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {kinds.PATIENCE:.0f} s")


def _in_time(test: Callable[[], None]) -> loop.Result:
    signal.alarm(int(kinds.PATIENCE))
    return loop.tried(test, skip=(kinds.Skip,))


def main() -> int:
    """Runs the cases."""
    parser = register.parser(__doc__)
    parser.add_argument("--address", default=kinds.HOST, help="an address of this host")
    options = parser.parse_args()
    kinds.HOST = options.address
    cases = CASES.selected(options)
    report = Ktap(len(cases))
    signal.signal(signal.SIGALRM, _too_late)
    loop.run(report, ((case.name, partial(_in_time, case.run)) for case in cases))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
