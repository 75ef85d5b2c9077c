# SPDX-License-Identifier: MIT
"""The numbers of include/uapi/linux/sdp.h, by their names there: `uapi.SDP_TRANSPORT`."""

from __future__ import annotations

import re

from sdptests import checkout

HEADER = checkout.TOP / "include/uapi/linux/sdp.h"

_DEFINE = re.compile(r"#define\s+(\w+)\s+(0x[0-9a-fA-F]+|\d+)\b")


def numbers(text: str) -> dict[str, int]:
    """The numbers that a header defines."""
    found = (_DEFINE.match(line) for line in text.splitlines())
    return {match[1]: int(match[2], 0) for match in found if match}


_NUMBERS = numbers(HEADER.read_text())


def __getattr__(name: str) -> int:
    try:
        return _NUMBERS[name]
    except KeyError:
        raise AttributeError(f"{HEADER} has no number {name}") from None
