#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Reads a guest's kernel log and prints every report of a fault in it.

  qemu/judge.py LOG [--leaks FILE] [--faults FILE]

LOG is the serial console. FILE of --leaks is kmemleak's report, FILE of
--faults has the faults that the guest itself found, a line each. The exit status is
1 if there is any report, 0 if there is none.
"""

import argparse
import bisect
import re
import sys

# The kernel's own words. Every complaint counts: there is no list of allowed ones, because a clean
# run prints none of them.
REPORTS = re.compile("|".join((
    r"BUG:", r"kernel BUG at", r"\bOops\b", r"general protection fault", r"Unable to handle kernel",
    r"unable to handle (?:kernel|page fault)", r"invalid opcode", r"double fault", r"stack segment",
    r"WARNING:", r"KASAN:", r"UBSAN:", r"KCSAN:", r"ODEBUG:", r"refcount_t:", r"Kernel panic",
    r"possible (?:circular|recursive) locking", r"inconsistent lock state", r"bad unlock balance",
    r"held lock freed", r"lock held when returning to user space", r"suspicious RCU usage",
    r"invalid wait context", r"irq lock inversion", r"lockdep is turned off", r"non-static key",
    r"MAX_LOCK\w* too low", r"MAX_STACK_TRACE_ENTRIES too low",
    r"scheduling while atomic", r"sleeping function called from invalid context",
    r"INFO: task .* blocked", r"soft lockup", r"hard LOCKUP", r"workqueue lockup",
    r"rcu: INFO:", r"INFO: rcu", r"detected stalls?\b", r"self-detected stall",
    r"list_(?:add|del)\S* corruption", r"corruption\b.*\bdetected", r"Poison overwritten",
    r"Object already free", r"Bad page state", r"Bad rss-counter", r"non-zero pgtables",
    r"still has locks held", r"unregister_netdevice: waiting",
    # Without memory for its own books it says so, too.
    r"ref_tracker:(?! memory allocation failure)",
    r"^ *not ok \d+ ", r"kmemleak: .*(?:disabled|too small)",
    r"Out of memory", r"page allocation failure", r"rust_kernel: panicked", r"panicked at",
    r"Attempt to kill init", r"Objects remaining", r"virtual memory leak", r"Call Trace:",
)))

# Faults of a program, in words that the kernel also uses for its own faults
# (arch/x86/kernel/traps.c). The program's test decides about them.
OF_A_PROGRAM = re.compile(r"traps: .+\[\d+\] (?:trap .+|general protection fault) ip:")

# Reports that a test causes on purpose are not faults: the stack dump of an injected failure, and
# the allocator's report for a too small cgroup. The report for the whole machine has other words.
REQUESTED = re.compile(r"FAULT_INJECTION: forcing a failure|invoked oom-killer: gfp_mask")
EXPECTED_THEN = re.compile(r"Call Trace:|page allocation failure")

HEAD = re.compile(r"[=-]{5,}|-+\[ cut here \]-+")
STAMP = re.compile(r"\[ *(\d+\.\d{6})\](?:\[ *[TC]\d+\])? ?")

# The details of a report follow its first line within this many lines; lines closer than this
# belong to one report.
DETAIL_LINES = 45


def kernel_lines(text):
    """The log's lines without time stamps; output of programs is left out."""
    for line in text.splitlines():
        stamp = STAMP.search(line)
        if stamp:
            yield float(stamp.group(1)), line[stamp.end():].rstrip()


def reports(text):
    """A list of reports, each a list of lines."""
    lines = list(kernel_lines(text))
    found = []
    requested_until = -1
    covered = -1
    for i, (_, line) in enumerate(lines):
        if REQUESTED.search(line):
            requested_until = i + DETAIL_LINES
        if i <= covered or not REPORTS.search(line) or OF_A_PROGRAM.match(line):
            continue
        if i <= requested_until and EXPECTED_THEN.search(line):
            continue
        # Above the line with its kind, a report has a line of signs and sometimes one line with
        # more words.
        start = next((j for j in range(i - 1, max(covered, i - 4), -1) if HEAD.fullmatch(lines[j][1])), i)
        end = report_end(lines, i)
        found.append([line for _, line in lines[start:end]])
        covered = end - 1
    return found


def report_end(lines, start):
    limit = min(len(lines), start + DETAIL_LINES)
    for i in range(start + 1, limit):
        line = lines[i][1]
        if "end trace" in line or re.fullmatch(r"={5,}", line) and i > start + 2:
            return i + 1
        # A line a second later belongs to another report.
        if lines[i][0] - lines[start][0] > 1.0 and not line.startswith(" "):
            return i
    return limit


# The kernel loses eight bytes of its own first root when it switches to the real one. Leaks from
# before the first program do not count.
# A native kernel has no names of functions that run at boot only; their task is the later idle one, which
# allocates nothing.
BEFORE_PROGRAMS = re.compile(r'\bstart_kernel\+|comm "swapper/0", pid 0,')


def leak_reports(text, symbols=""):
    """kmemleak's list, one entry per place of allocation; bare addresses are named with kallsyms lines."""
    table = sorted((int(address, 16), f"{name} {module}") for address, _, name, module in
                   (line.split() for line in symbols.splitlines() if line.count("\t") == 1))
    starts = [address for address, _ in table]

    def name(match):
        address = int(match.group(), 16)
        i = bisect.bisect_right(starts, address) - 1
        return f"{table[i][1]}+{address - starts[i]:#x}" if i >= 0 and address - starts[i] < 1 << 20 else match.group()

    first = {}
    for block in re.split(r"(?m)^(?=unreferenced object)", text):
        if not block.startswith("unreferenced object") or BEFORE_PROGRAMS.search(block):
            continue
        lines = re.sub(r"(?m)(?<=^    )0x[0-9a-f]+$", name, block.rstrip()).splitlines()
        trace = tuple(line for line in lines if line.startswith("    "))
        first.setdefault(trace, []).append(lines)
    return [blocks[0] + ([f"  and {len(blocks) - 1} more from the same place"] if len(blocks) > 1 else [])
            for blocks in first.values()]


def judge(log, leaks="", faults="", symbols=""):
    """All reports, in this order: log, leaks, the guest's own findings."""
    return reports(log) + leak_reports(leaks, symbols) + ([faults.splitlines()] if faults.strip() else [])


def read(path):
    if path is None:
        return ""
    with open(path, errors="replace") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--leaks")
    parser.add_argument("--faults")
    arguments = parser.parse_args()
    found = judge(read(arguments.log), read(arguments.leaks), read(arguments.faults))
    for report in found:
        print("\n".join(report), end="\n\n")
    if found:
        print(f"{len(found)} report{'s' if len(found) > 1 else ''}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
