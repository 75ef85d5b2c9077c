# SPDX-License-Identifier: GPL-2.0
"""The lists of tests in guests: suite.list, soak.list and apps.list of userspace-tests.

A line is NAME TOPOLOGY DEVICE NEEDS COMMAND.

TOPOLOGY   netns or two
DEVICE     rxe, rlo, or rlo_ib, which is rlo with InfiniBand ports
NEEDS      separated by commas, or a dash:
           PACKAGE      a Debian package for the guest
           @NAME        a set of packages in packages.list
           module:DIR   modules that are built from a directory of userspace-tests
           built:FILE   programs that a script there builds from a source package
           append:WORD  a word of the kernel's command line
           kernel:stock the distribution's own kernel; kernel:stock-7.2.12 its release of that number
           kernel:KIND  in `qemu/suite all`, this kernel of qemu/kernel; otherwise the kernel of -k
           time:simulated  waiting takes no time, on native kernels
COMMAND    runs in a shell in the guest, in userspace-tests/ of the checkout, and prints KTAP

Each COMMAND accepts --list, and patterns of test names: `make test-vm T=NAME A='PATTERN...'`.
A line `+ NAME DEVICE COMMAND` runs in the same guest as the line before it. Both share one boot, one
unloading and one scan for leaks.
"""

import os
from dataclasses import dataclass, replace

TOPOLOGIES = ("netns", "two")
DEVICES = ("rxe", "rlo", "rlo_ib")
# The kernels of this repository, which a call may replace by another one.
OWN_KERNELS = ("kernel:base", "kernel:debug", "kernel:native", "kernel:native-debug", "time:simulated")


class Wrong(Exception):
    """A list that cannot be read, or that lacks a requested entry."""


@dataclass(frozen=True)
class Entry:
    """One test program."""

    name: str
    topology: str
    device: str
    needs: tuple
    command: str
    # The name of the first entry in its guest.
    guest: str


def parse_sets(lines):
    """Sets of packages, by name."""
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {row[0]: tuple(row[1:]) for row in rows if row}


def parse(lines, where, sets=None):
    """The entries of a list; `name` is for messages."""
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("+"):
            words = line[1:].split(None, 2)
            if len(words) != 3 or not entries:
                raise Wrong(f"{where}:{number}: expected + NAME rxe|rlo|rlo_ib COMMAND, behind another line")
            first = entries[-1]
            entry = Entry(words[0], first.topology, words[1], first.needs, words[2].strip(), first.guest)
        else:
            words = line.split(None, 4)
            if len(words) != 5:
                raise Wrong(f"{where}:{number}: expected NAME netns|two rxe|rlo|rlo_ib NEEDS COMMAND")
            needs = () if words[3] == "-" else tuple(words[3].split(","))
            unknown = [need for need in needs if need.startswith("@") and need[1:] not in (sets or {})]
            if unknown:
                raise Wrong(f"{where}:{number}: packages.list has no set {unknown[0][1:]}")
            needs = tuple(one for need in needs for one in (sets[need[1:]] if need.startswith("@") else (need,)))
            entry = Entry(*words[:3], needs, words[4].strip(), words[0])
        if entry.topology not in TOPOLOGIES or entry.device not in DEVICES:
            raise Wrong(f"{where}:{number}: expected netns|two and rxe|rlo|rlo_ib")
        if entry.topology == "two" and entry.device != "rxe":
            raise Wrong(f"{where}:{number}: rlo joins interfaces of one machine only")
        if entry.name in {other.name for other in entries}:
            raise Wrong(f"{where}:{number}: a second {entry.name}")
        entries.append(entry)
    return entries


def read(directory, *names):
    """The entries of these lists in a directory."""
    found = []
    with open(os.path.join(directory, "packages.list")) as file:
        sets = parse_sets(file)
    for name in names:
        path = os.path.join(directory, name)
        with open(path) as file:
            found += parse(file, path, sets)
    return found


def picked(entries, wanted):
    """The wanted entries; all, if none is named."""
    unknown = set(wanted) - {entry.name for entry in entries}
    if unknown:
        raise Wrong(f"not in the lists: {', '.join(sorted(unknown))}")
    return [entry for entry in entries if not wanted or entry.name in wanted]


def on_kernel_of_call(entries):
    """The entries for the kernel that the call names, instead of that of the lists."""
    return [replace(entry, needs=tuple(need for need in entry.needs if need not in OWN_KERNELS)) for entry in entries]


def on_emulated_kernels(entries):
    """The entries for a host where native kernels do not run."""
    native = ("kernel:native", "kernel:native-debug", "time:simulated")
    return [replace(entry, needs=tuple(need for need in entry.needs if need not in native)) for entry in entries]


def kernel(entries, default):
    """The kernel of a guest for these entries."""
    named = [need.removeprefix("kernel:") for need in entries[0].needs if need.startswith("kernel:")]
    return named[0] if named else default


def guests(entries):
    """The entries by guest, in the order of the list."""
    found = {}
    for entry in entries:
        found.setdefault(entry.guest, []).append(entry)
    return list(found.values())


def device(entries):
    """The device of a guest for these entries, as an argument of qemu/vm. An exchange of the devices takes a
    minute, so the guest begins with that of the first entry."""
    kinds = [entry.device for entry in entries]
    return "both" if kinds[0] == "rxe" and set(kinds) != {"rxe"} else kinds[0]
