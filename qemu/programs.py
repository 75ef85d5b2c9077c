# SPDX-License-Identifier: GPL-2.0
"""Running test programs: their logs, their results, and their shown output."""

import os
import re
import subprocess
import time

from results import Ktap, Results

SHOWN_AFTER_FAILURE = 40
# The markers of qemu/guest/entries.
MARK = re.compile(r"\[entry\] (?P<what>begin|end) (?P<name>\S+)(?: (?P<status>\d+))?$")


class Account:
    """One test program, from its first line of output to its results."""

    def __init__(self, name, reader, logs, stage):
        self.name = name
        self.reader = reader
        self.log = os.path.join(logs, name)
        self.file = open(self.log, "w", buffering=1)
        # "SECONDS RESULT" for each result, since the one before.
        self.times = open(self.log + ".times", "w", buffering=1)
        self.piece = stage.piece()
        self.start = self.before = time.monotonic()
        # KTAP diagnostics come before the test's result.
        self.said = []
        self.piece.say(f"=== {name} (log: {self.log})")

    def hear(self, line):
        """Handles a line of the program's output."""
        self.file.write(line + "\n")
        result = self.reader.feed(line)
        if result:
            now = time.monotonic()
            self.times.write(f"{now - self.before:.1f} {result[1]}\n")
            self.before = now
            if result[0] == "not ok":
                self.piece.say(*self.said)
            self.said.clear()
            self.piece.say(f"  {result[0]:7}{result[1]}")
        elif line.lstrip().startswith("#"):
            self.said.append(line)
        elif line.startswith("[sdp]"):
            self.piece.say(f"  {line}")

    def end(self, status):
        """Its results, once its exit status is known."""
        self.file.close()
        self.times.close()
        results = self.reader.finish(status)
        if results.failures:
            self.piece.say(f"--- the end of {self.log}", *tail(self.log))
        self.piece.say(f"=== {self.name}: {results.summary()} in {time.monotonic() - self.start:.0f} s")
        self.piece.close()
        return results


def tail(log):
    with open(log, errors="replace") as file:
        return file.read().splitlines()[-SHOWN_AFTER_FAILURE:]


# The commands that run.
RUNNING = set()


def end_all():
    """Ends the commands that run; qemu/vm ends its guest then."""
    for child in list(RUNNING):
        child.terminate()


def lines_of(command, directory, environment=()):
    """Runs a command; yields its lines of output, progress included, and finally its exit status."""
    child = subprocess.Popen(command, cwd=directory, text=True, errors="replace", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=dict(os.environ, **dict(environment)))
    RUNNING.add(child)
    try:
        for line in child.stdout:
            yield line.rstrip("\n")
        yield child.wait()
    finally:
        RUNNING.discard(child)


class Guest:
    """A guest and its entries, from the markers of qemu/guest/entries."""

    def __init__(self, entries, logs, stage):
        self.waiting = [entry.name for entry in entries]
        self.title = "+".join(self.waiting)
        self.logs = logs
        self.stage = stage
        self.account = None
        self.results = Results()
        self.start = time.monotonic()
        self.testing = 0.0
        self.log = os.path.join(logs, f"{self.waiting[0]}.guest")

    def run(self, lines):
        """Handles all lines of qemu/vm and its status; returns whether a guest ran at all."""
        status = None
        begun = False
        with open(self.log, "a", buffering=1) as file:
            for line in lines:
                if isinstance(line, int):
                    status = line
                    continue
                mark = MARK.search(line)
                if mark and mark["what"] == "begin":
                    begun = True
                    self.waiting.remove(mark["name"])
                    self.account = Account(mark["name"], Ktap(mark["name"]), self.logs, self.stage)
                elif mark:
                    self.end(int(mark["status"]))
                elif self.account and not line.startswith("[sdp]"):
                    self.account.hear(line)
                else:
                    file.write(line + "\n")
        cut_off = self.account is not None
        if cut_off:
            self.end(status or 1)
        self.judge(status, cut_off)
        return begun

    def end(self, status):
        """Ends an entry."""
        self.testing += time.monotonic() - self.account.start
        self.results.add(self.account.end(status))
        self.account = None

    def judge(self, status, cut_off):
        """Faults outside the entries: kernel reports, leaks, a module that cannot be unloaded."""
        took = time.monotonic() - self.start
        piece = self.stage.piece()
        if status:
            if not cut_off:
                self.results.failures.append(f"guest of {self.title}: exit status {status}")
            piece.say(f"--- the end of {self.log}", *tail(self.log))
        piece.say(f"    guest of {self.title}: {took:.0f} s, of which {took - self.testing:.0f} s beside the tests")
        piece.close()
