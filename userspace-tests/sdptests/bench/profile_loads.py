# SPDX-License-Identifier: MIT
"""The loads whose kernel time bench/profile shows; bench/profiled runs them in the guest."""

from __future__ import annotations

from functools import partial

from sdptests.bench import pairs

KINDS = {
    "sdp": partial(pairs.sdp, None),
    "sdp-copies": partial(pairs.sdp, 0),
    "sdp-zcopy": partial(pairs.sdp, 4096),
    "tcp": pairs.tcp,
    "unix": pairs.unix,
    "smcd": pairs.smcd,
}

STREAM, BACK, CONNECT = "stream", "back", "connect"
WAYS = (STREAM, BACK, CONNECT)
