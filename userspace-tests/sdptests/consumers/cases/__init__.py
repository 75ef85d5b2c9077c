# SPDX-License-Identifier: MIT
"""All cases, in the order in which they are played."""

from sdptests.consumers.cases import (  # noqa: I001
    smc_streams,
    smc_ends,
    nvme_files,
    nvme_ends,
    srp_files,
    srp_ends,
)

__all__ = ["nvme_ends", "nvme_files", "smc_ends", "smc_streams", "srp_ends", "srp_files"]
