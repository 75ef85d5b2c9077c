# SPDX-License-Identifier: MIT
"""The kernel's own users of verbs: SMC-R, NVMe over RDMA and SRP."""
