# SPDX-License-Identifier: MIT
"""The script's side of sdp_kernel_sockets.ko."""
