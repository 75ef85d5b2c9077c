# SPDX-License-Identifier: GPL-2.0
"""Tests of concurrent output, of the results that count, and of tests that are not repeated."""

import io
import os
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

import lists  # noqa: E402
from passed import Passed, key  # noqa: E402
from programs import RUNNING, Guest, end_all, lines_of  # noqa: E402
from stage import Stage  # noqa: E402


class EndTest(unittest.TestCase):
    def test_commands_end_with_the_suite(self):
        said = []
        thread = threading.Thread(target=lambda: said.extend(lines_of(["sleep", "60"], "/")))
        thread.start()
        while not RUNNING:
            time.sleep(0.01)
        end_all()
        thread.join()
        self.assertEqual(said, [-15])
        self.assertFalse(RUNNING)


class StageTest(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        self.stage = Stage(self.out)

    def shown(self):
        return self.out.getvalue().split()

    def test_the_first_is_shown_at_once_and_the_second_in_one_piece(self):
        first, second = self.stage.piece(), self.stage.piece()
        first.say("a1")
        second.say("b1")
        first.say("a2")
        self.assertEqual(self.shown(), ["a1", "a2"])
        first.close()
        second.say("b2")
        self.assertEqual(self.shown(), ["a1", "a2", "b1", "b2"])

    def test_what_ended_meanwhile_follows_in_its_order(self):
        first, second, third = (self.stage.piece() for _ in range(3))
        third.say("c")
        third.close()
        second.say("b")
        second.close()
        self.assertEqual(self.shown(), [])
        first.close()
        self.assertEqual(self.shown(), ["b", "c"])

    def test_an_interruption_shows_all(self):
        self.stage.piece()
        self.stage.piece().say("b")
        self.stage.end()
        self.assertEqual(self.shown(), ["b"])


def entry(name):
    return lists.Entry(name, "netns", "rxe", (), "true", "a")


def part(name, *lines, status=0):
    return [f"[entry] begin {name}", *lines, "", f"[entry] end {name} {status}"]


GOOD = ("1..1", "ok 1 x")


class GuestTest(unittest.TestCase):
    def run_guest(self, *lines, names=("a", "b")):
        self.out = io.StringIO()
        with tempfile.TemporaryDirectory() as directory:
            guest = Guest([entry(name) for name in names], directory, Stage(self.out))
            begun = guest.run(iter(lines))
        return begun, guest

    def test_each_entry_has_its_results(self):
        begun, guest = self.run_guest("[sdp] boots", *part("a", *GOOD), *part("b", "1..2", "ok 1 y", "not ok 2 z", status=1), 0)
        self.assertTrue(begun)
        self.assertEqual((guest.results.passed, guest.results.failures, guest.waiting), (2, ["b: z"], []))
        self.assertIn("=== a: 1 passed, 0 failed in", self.out.getvalue())

    def test_the_status_of_an_entry_counts(self):
        _, guest = self.run_guest(*part("a", *GOOD, status=124), *part("b", *GOOD), 0)
        self.assertEqual(guest.results.failures, ["a: exit status 124"])

    def test_a_report_of_the_kernel_is_a_failure_of_the_guest(self):
        _, guest = self.run_guest(*part("a", *GOOD), *part("b", *GOOD), "[sdp] BUG", 96)
        self.assertEqual((guest.results.passed, guest.results.failures), (2, ["guest of a+b: exit status 96"]))
        self.assertIn("[sdp] BUG", self.out.getvalue())

    def test_a_guest_that_dies_fails_one_entry_and_leaves_the_others_waiting(self):
        begun, guest = self.run_guest("[entry] begin a", *GOOD, 97)
        self.assertTrue(begun)
        self.assertEqual((guest.results.failures, guest.waiting), (["a: exit status 97"], ["b"]))

    def test_a_guest_that_does_not_come_up(self):
        begun, guest = self.run_guest("[sdp] no topology", 95)
        self.assertFalse(begun)
        self.assertEqual((guest.results.failures, guest.waiting), (["guest of a+b: exit status 95"], ["a", "b"]))

    def test_a_last_line_without_an_end_is_no_harm(self):
        _, guest = self.run_guest("[entry] begin a", *GOOD, "no end of line", "[entry] end a 0", 0, names=("a",))
        self.assertEqual((guest.results.passed, guest.results.failures), (1, []))


class PassedTest(unittest.TestCase):
    def test_what_passed_is_remembered_until_something_changes(self):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as source:
            file = os.path.join(source, "file")
            with open(file, "w") as content:
                content.write("1")
            first = key([source], "kernel")
            self.assertIsNone(Passed(cache, "x", first).when())
            Passed(cache, "x", first).remember(23)
            self.assertTrue(Passed(cache, "x", key([source], "kernel")).when())
            self.assertEqual(Passed(cache, "x", first).tests(), 23)
            self.assertIsNone(Passed(cache, "x", key([source], "another kernel")).when())
            with open(file, "w") as content:
                content.write("2")
            self.assertIsNone(Passed(cache, "x", key([source], "kernel")).when())


if __name__ == "__main__":
    unittest.main()
