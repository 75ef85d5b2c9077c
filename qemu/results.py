# SPDX-License-Identifier: GPL-2.0
"""Counts results of test programs: KTAP, cargo and Python's unittest.

A program that ends early, or that fails without naming a failed test,
counts as one more failure: silence is never success.
"""

import re
from dataclasses import dataclass, field


@dataclass
class Results:
    """The numbers of passed, failed and skipped tests, and the names of failed ones."""

    passed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)

    @property
    def failed(self):
        return len(self.failures)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def summary(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


RESULT = re.compile(r"(?P<not>not )?ok\b(?: +(?P<number>\d+))?(?: +-)? *(?P<name>[^#]*?) *(?:#\s*(?P<directive>\w+)\b.*)?$")
PLAN = re.compile(r"1\.\.(\d+)\b(?:\s*#\s*(?P<directive>SKIP)\b.*)?", re.IGNORECASE)


class Level:
    """One plan and its results."""

    def __init__(self, indent):
        self.indent = indent
        self.plan = None
        self.numbers = 0
        self.failures = 0

    def complete(self):
        return self.plan is not None and self.plan == self.numbers


class Ktap:
    """Parses KTAP line by line. Only leaves count: the result of a test with subtests is
    their sum. It counts as a failure of its own only if no subtest failed."""

    def __init__(self, name):
        self.name = name
        self.results = Results()
        self.levels = []
        self.finished_child = None
        self.bailed = False

    def feed(self, line):
        """Handles a line; returns the kind of its result ("ok", "not ok", "skip") and the name, or None."""
        text = line.strip()
        indent = len(line) - len(line.lstrip(" \t"))
        if text.startswith("Bail out!"):
            self.bailed = True
            self.results.failures.append(f"{self.name}: {text}")
            return None
        plan = PLAN.fullmatch(text)
        result = None if plan else RESULT.fullmatch(text)
        if not plan and not result:
            return None
        self.settle(indent)
        if not self.levels or self.levels[-1].indent < indent:
            self.levels.append(Level(indent))
        level = self.levels[-1]
        if plan:
            if level.plan is not None:
                self.results.failures.append(f"{self.name}: a second plan")
            level.plan = int(plan.group(1))
            if plan.group("directive"):
                self.results.skipped += 1
            return None
        return self.count(level, result)

    def settle(self, indent):
        """Ends all levels with a larger indentation."""
        while self.levels and self.levels[-1].indent > indent:
            child = self.levels.pop()
            self.check(child)
            self.finished_child = child

    def check(self, level):
        if level.complete():
            return
        planned = "no plan" if level.plan is None else f"{level.plan} planned"
        self.results.failures.append(f"{self.name}: {planned}, {level.numbers} reported")
        level.failures += 1

    def count(self, level, result):
        child, self.finished_child = self.finished_child, None
        level.numbers += 1
        name = result.group("name") or f"test {level.numbers}"
        full = f"{self.name}: {name}"
        number = result.group("number")
        if number and int(number) != level.numbers:
            self.results.failures.append(f"{full}: number {number} where {level.numbers} was due")
        directive = (result.group("directive") or "").upper()
        if result.group("not"):
            level.failures += 1
            if child is None or not child.failures:
                self.results.failures.append(full)
            return "not ok", name
        if child is not None and child.failures:
            level.failures += 1
        if directive == "SKIP":
            self.results.skipped += 1
            return "skip", name
        if child is None:
            self.results.passed += 1
        return "ok", name

    def finish(self, status):
        """Handles the program's exit status."""
        self.settle(-1)
        if self.finished_child is None and not self.bailed:
            self.results.failures.append(f"{self.name}: no results")
        if status and not self.results.failures:
            self.results.failures.append(f"{self.name}: exit status {status}")
        return self.results


CARGO_TEST = re.compile(r"test (?P<name>\S.*?) \.\.\. (?P<result>ok|FAILED|ignored)\b")
CARGO_SUM = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")


class Cargo:
    """Parses the output of `cargo test`."""

    def __init__(self, name):
        self.name = name
        self.results = Results()
        self.sums = [0, 0, 0]

    def feed(self, line):
        total = CARGO_SUM.match(line.strip())
        if total:
            self.sums = [a + int(b) for a, b in zip(self.sums, total.groups())]
            return None
        test = CARGO_TEST.match(line.strip())
        if not test:
            return None
        if test.group("result") == "FAILED":
            self.results.failures.append(f"{self.name}: {test.group('name')}")
        return {"ok": "ok", "FAILED": "not ok", "ignored": "skip"}[test.group("result")], test.group("name")

    def finish(self, status):
        passed, failed, ignored = self.sums
        self.results.passed = passed
        self.results.skipped = ignored
        # Output of a test may separate its name from its result, so the sums decide.
        for _ in range(failed - self.results.failed):
            self.results.failures.append(f"{self.name}: a test")
        if status and not self.results.failures:
            self.results.failures.append(f"{self.name}: cargo's exit status {status}")
        if not status and not sum(self.sums):
            self.results.failures.append(f"{self.name}: no results")
        return self.results


UNITTEST = re.compile(r"(?P<name>\w+) \(\S+\)(?: \.\.\.|.*\.\.\.) (?P<result>ok|FAIL|ERROR|skipped)\b")
UNITTEST_SUM = re.compile(r"Ran (\d+) tests? in")


class Unittest:
    """Parses the output of `python3 -m unittest -v`."""

    def __init__(self, name):
        self.name = name
        self.results = Results()
        self.ran = 0

    def feed(self, line):
        total = UNITTEST_SUM.match(line)
        if total:
            self.ran = int(total.group(1))
            return None
        test = UNITTEST.match(line)
        if not test:
            return None
        kind = {"ok": "ok", "FAIL": "not ok", "ERROR": "not ok", "skipped": "skip"}[test.group("result")]
        if kind == "not ok":
            self.results.failures.append(f"{self.name}: {test.group('name')}")
        if kind == "skip":
            self.results.skipped += 1
        return kind, test.group("name")

    def finish(self, status):
        self.results.passed = max(0, self.ran - self.results.failed - self.results.skipped)
        if status and not self.results.failures:
            self.results.failures.append(f"{self.name}: exit status {status}")
        if not status and not self.ran:
            self.results.failures.append(f"{self.name}: no results")
        return self.results
