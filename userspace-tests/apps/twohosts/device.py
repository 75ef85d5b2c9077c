# SPDX-License-Identifier: MIT
"""Which RDMA device the hosts have: rxe, on packets, or rlo, in memory."""

from __future__ import annotations

import os

KINDS = ("rxe", "rlo")
KIND = os.environ.get("SDP_DEVICE", "rxe")


def sends_packets() -> bool:
    """Whether bytes travel as packets, which can be recorded, late and lost."""
    return KIND == "rxe"
