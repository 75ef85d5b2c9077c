#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program sees of sockets that may use SDP or TCP. Emits KTAP.

Run under sdp_run, so that every socket of Python is such a socket; those that are to be SDP's or
TCP's alone are made by the system call itself. Arguments: an address of this host, and the names
of the cases to run (all without).
"""

from __future__ import annotations

import signal
import sys
import traceback

import checking
import connecting
import kinds
import listening
import ruling
import sandboxed
import using
from kinds import CASES

# The modules register their cases.
__all__ = ["checking", "connecting", "listening", "ruling", "sandboxed", "using"]


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {kinds.PATIENCE:.0f} s")


def main() -> None:
    """Runs the cases."""
    kinds.HOST = sys.argv[1]
    names = sys.argv[2:] or list(CASES)
    print(f"KTAP version 1\n1..{len(names)}", flush=True)
    failed = 0
    signal.signal(signal.SIGALRM, _too_late)
    for number, name in enumerate(names, 1):
        signal.alarm(int(kinds.PATIENCE))
        try:
            CASES[name]()
        except Exception:
            failed += 1
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} {name}", flush=True)
        else:
            print(f"ok {number} {name}", flush=True)
    print(f"# Totals: pass:{len(names) - failed} fail:{failed} skip:0")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
