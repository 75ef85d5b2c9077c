# SPDX-License-Identifier: MIT
"""The instructions of a guest by function, from the counts of the harness (`qemu/vm -I FILE`)."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from sdptests.bench.layers import Symbols

PROGRAMS = "programs"
KERNEL = "kernel"
WAITS = "waits"
SDP = "sdp.ko"
DEVICE = "device"
PARTS = (PROGRAMS, WAITS, KERNEL, SDP, DEVICE)

# The drivers rlo and rxe, which may be built in. The packets that rxe sends are the kernel's work.
_OWNERS = (
    (SDP, re.compile(r"\[sdp\]$")),
    (DEVICE, re.compile(r"^(?:rxe_|do_task$|do_complete)|\[(?:rlo|rdma_rxe)\]$")),
)

# Loops that wait for another processor, which may have none of the machine's.
_WAITING = {
    "queued_spin_lock_slowpath",
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
    "osq_lock",
    "smp_call_function_many_cond",
}

# In a Rust symbol: a reference back or a number that tells crates apart, or the length of an
# identifier, with a separator where that begins with a digit.
_TOKEN = re.compile(r"[Bs][0-9A-Za-z]*_|([1-9][0-9]*)_?")


@dataclass
class Function:
    """What was counted for one function."""

    instructions: int = 0
    calls: int = 0


@dataclass
class Counts:
    """Instructions by part, and by function of the kernel and its modules."""

    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    functions: dict[str, Function] = field(default_factory=dict)
    # Of threads, on all processors.
    switches: int = 0


def read(text: str, symbols: Symbols) -> Counts:
    """The counts of a file: lines of an address, and of the instructions and executions of the
    block of code there. Address 0 stands for programs.
    """
    counts = Counts()
    for line in text.splitlines():
        words = line.split()
        address, length, executions = int(words[0], 16), int(words[1]), int(words[2])
        if not address:
            counts.parts[PROGRAMS] += length * executions
            continue
        offset, name = symbols.place(address)
        counts.parts[_part(name)] += length * executions
        function = counts.functions.setdefault(name, Function())
        function.instructions += length * executions
        if not offset:
            function.calls += executions
    return counts


def _part(name: str) -> str:
    if name in _WAITING:
        return WAITS
    return next((part for part, pattern in _OWNERS if pattern.search(name)), KERNEL)


def plain(name: str) -> str:
    """A short form of the name of a function: of a Rust symbol the last identifiers."""
    symbol, _tab, module = name.partition("\t")
    if symbol.startswith("_R"):
        symbol = "::".join(_identifiers(symbol)[-3:]) or symbol
    return f"{symbol} {module}".rstrip()


def _identifiers(symbol: str) -> list[str]:
    found = []
    at = 2
    while token := _TOKEN.search(symbol, at):
        at = token.end() + int(token[1] or 0)
        if token[1]:
            found.append(symbol[token.end() : at])
    return found


class Counter:
    """The files of counts, in the order of the calls that write them."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._number = 0
        self._switched = 0

    def begin(self) -> None:
        """What was executed before does not count."""
        self._next().unlink()
        self._switched = _switches()

    def end(self, symbols: Symbols) -> Counts:
        """What was executed since the beginning."""
        switches = _switches() - self._switched
        path = self._next()
        counts = read(path.read_text(encoding="ascii"), symbols)
        path.unlink()
        counts.switches = switches
        return counts

    def _next(self) -> Path:
        name = os.uname().nodename.encode()
        # For the call alone: the file is complete when it returns.
        if ctypes.CDLL(None, use_errno=True).setdomainname(name, len(name)):
            raise OSError(ctypes.get_errno(), "setdomainname")
        path = Path(f"{self._base}.{self._number}")
        self._number += 1
        return path


def _switches() -> int:
    """Switches of threads since the boot."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("ctxt "))
