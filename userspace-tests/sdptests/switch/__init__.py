# SPDX-License-Identifier: MIT
"""Cases of sockets that may use SDP or TCP."""
