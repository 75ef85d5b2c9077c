# SPDX-License-Identifier: MIT
"""Functions of a kernel and of its modules, by address, with readable names."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

# In a name of Rust's scheme: a reference to an earlier part, or the length of a part, behind what tells apart
# those of the same name.
_PART = re.compile(r"B[0-9A-Za-z]*_|(?:s[0-9A-Za-z]*_)?(\d+)_?")
# Behind the last function there is nothing; so far from its beginning no address is in a function.
_FAR = 1 << 16
# Functions with an owner of their own, whichever module calls them.
_COPY = re.compile(r"memcpy|copy_(to|from)_|_copy_(to|from)_iter|rep_movs")
_LOCK = re.compile(r"_(raw_)?(spin|read|write)_(un|try)?lock|mutex_|(down|up)_(read|write)")
_HELPER = re.compile(r"rust_helper_|rust_")


def readable(name: str) -> str:
    """The path of a Rust function, without the crate's hash; other names as they are."""
    if not name.startswith("_R"):
        return name
    parts, at = [], 0
    while found := _PART.search(name, at):
        at = begin = found.end()
        if not found[1]:
            continue
        length = int(found[1])
        part = name[begin : begin + length]
        if len(part) < length:
            break
        parts.append(part)
        at = begin + length
    return "::".join(parts) or name


class Places:
    """The functions in a list of symbols as /proc/kallsyms and System.map have it."""

    def __init__(self, text: str) -> None:
        found = []
        for line in text.splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                shown = readable(name)
                found.append((int(address, 16), f"{shown} {module[0]}" if module else shown))
        found.sort()
        self._addresses = [address for address, _name in found]
        self._names = [name for _address, name in found]

    def name(self, address: int) -> str:
        """The function that an address is in."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0 or address - self._addresses[index] > _FAR:
            return "unknown"
        return self._names[index]


def owner(chain: Sequence[str]) -> str:
    """The owner of a sample: copies, locks, or the module of the innermost function that has one; a helper
    that the compiler did not inline belongs to its caller."""
    leaf = chain[-1]
    if _COPY.search(leaf):
        return "copies"
    if _LOCK.match(leaf):
        return "locks"
    for name in reversed(chain[-3:]):
        if name.endswith("]"):
            return name.rsplit(" ", 1)[1]
        if not _HELPER.match(name):
            break
    return "kernel"
