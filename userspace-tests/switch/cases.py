#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sockets that may use SDP or TCP, as a program sees them. Emits KTAP.

Run under sdp_run, so that every socket of Python may use both. Sockets for SDP or
TCP alone are made by the system call itself.
"""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sdptests.switch import checking, connecting, crate, kinds, listening, ruling, sandboxed, using
from sdptests.switch.kinds import CASES
from sdptests.twohosts import register
from sdptests.twohosts.ktap import Ktap

# The modules register their cases.
__all__ = ["checking", "connecting", "crate", "listening", "ruling", "sandboxed", "using"]


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {kinds.PATIENCE:.0f} s")


def main() -> int:
    """Runs the cases."""
    parser = register.parser(__doc__)
    parser.add_argument("--address", default=kinds.HOST, help="an address of this host")
    options = parser.parse_args()
    kinds.HOST = options.address
    cases = CASES.picked(options.pattern)
    register.chosen(options, [case.name for case in cases])
    report = Ktap(len(cases))
    signal.signal(signal.SIGALRM, _too_late)
    for case in cases:
        signal.alarm(int(kinds.PATIENCE))
        try:
            case.run()
        except kinds.Skip as reason:
            report.add(case.name, True, skipped=str(reason))
        except Exception:
            report.add(case.name, False, traceback.format_exc())
        else:
            report.add(case.name, True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
