# SPDX-License-Identifier: MIT
"""All cases, in the order in which they are played."""

from cases import smc_streams, smc_ends, nvme_files, nvme_ends, rnbd_files, rnbd_ends  # noqa: I001

__all__ = ["nvme_ends", "nvme_files", "rnbd_ends", "rnbd_files", "smc_ends", "smc_streams"]
