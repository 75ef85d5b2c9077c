# SPDX-License-Identifier: MIT
"""The RDMA device of the hosts: rxe, on packets, or rlo, in memory.

rlo_ib is rlo with ports of InfiniBand.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from twohosts.failure import Failure

# A module of this repository, which the harness loads when it is told to; rxe is the kernel's.
RLO = Path("/sys/module/rlo")


def kind() -> str:
    """The one that the hosts have now."""
    return os.environ.get("SDP_DEVICE", "rxe")


KIND = kind()


def available() -> list[str]:
    """Those that they could have."""
    return ["rxe", "rlo"] if RLO.exists() else ["rxe"]


def sends_packets() -> bool:
    """Whether bytes travel as packets, which can be recorded, late and lost."""
    return KIND == "rxe"


def is_infiniband() -> bool:
    """Whether ports are of InfiniBand, and addresses those of IPoIB."""
    return KIND == "rlo_ib"


def use(one: str) -> None:
    """Have the hosts use this one, on the same interfaces."""
    if one == kind():
        return
    done = subprocess.run(["topology", "device", one], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"the devices cannot be exchanged: {done.stderr.strip()}")
    os.environ["SDP_DEVICE"] = one
