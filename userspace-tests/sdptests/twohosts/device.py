# SPDX-License-Identifier: MIT
"""The RDMA device of the hosts: rxe, which sends packets, or rlo, which copies memory.

rlo_ib is rlo with InfiniBand ports.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sdptests.twohosts.failure import Failure

# rlo is a module of this repository, loaded by the harness on request; rxe is the kernel's.
RLO = Path("/sys/module/rlo")


def kind() -> str:
    """The current device of the hosts."""
    return os.environ.get("SDP_DEVICE", "rxe")


KIND = kind()


def available() -> list[str]:
    """The possible devices."""
    return ["rxe", "rlo"] if RLO.exists() else ["rxe"]


def sends_packets() -> bool:
    """Whether bytes travel as packets, which can be recorded, delayed and lost."""
    return KIND == "rxe"


def is_infiniband() -> bool:
    """Whether ports are InfiniBand ports, and addresses are on IPoIB interfaces."""
    return KIND == "rlo_ib"


def use(one: str) -> None:
    """Switches the hosts to this device, on the same interfaces."""
    if one != kind():
        _make(one)


def renew() -> None:
    """New devices of the same kind, with the options of now."""
    _make(kind())


def _make(one: str) -> None:
    done = subprocess.run(["topology", "device", one], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"the devices cannot be exchanged: {done.stderr.strip()}")
    os.environ["SDP_DEVICE"] = one
