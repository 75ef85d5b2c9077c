# SPDX-License-Identifier: GPL-2.0
"""Tests of counting: complete, incomplete and contradictory results."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from results import Cargo, Ktap, Results, Unittest  # noqa: E402


def read(reader, text, status=0):
    for line in text.splitlines():
        reader.feed(line)
    return reader.finish(status)


def ktap(text, status=0):
    return read(Ktap("t"), text, status)


class KtapTest(unittest.TestCase):
    def counts(self, text, status=0):
        results = ktap(text, status)
        return results.passed, results.failed, results.skipped

    def test_plain(self):
        self.assertEqual(self.counts("KTAP version 1\n1..3\nok 1 a\nok 2 - b\nok 3 c # SKIP no device\n"), (2, 0, 1))

    def test_plan_may_come_last(self):
        self.assertEqual(self.counts("ok 1 a\nok 2 b\n1..2\n"), (2, 0, 0))

    def test_failure_is_named(self):
        self.assertEqual(ktap("1..2\nok 1 a\nnot ok 2 b c\n", 1).failures, ["t: b c"])

    def test_expected_failure_is_a_failure(self):
        self.assertEqual(self.counts("1..1\nnot ok 1 a # TODO later\n", 1), (0, 1, 0))

    def test_missing_results(self):
        self.assertEqual(ktap("1..3\nok 1 a\n").failures, ["t: 3 planned, 1 reported"])

    def test_too_many_results(self):
        self.assertEqual(self.counts("1..1\nok 1 a\nok 2 b\n"), (2, 1, 0))

    def test_no_plan(self):
        self.assertEqual(ktap("ok 1 a\n").failures, ["t: no plan, 1 reported"])

    def test_silence(self):
        self.assertEqual(ktap("").failures, ["t: no results"])

    def test_silence_with_a_bad_exit(self):
        self.assertEqual(self.counts("", 1), (0, 1, 0))

    def test_bad_exit_after_good_results(self):
        self.assertEqual(ktap("1..1\nok 1 a\n", 96).failures, ["t: exit status 96"])

    def test_exit_of_a_failed_test_counts_once(self):
        self.assertEqual(self.counts("1..1\nnot ok 1 a\n", 1), (0, 1, 0))

    def test_subtests_count_as_leaves(self):
        self.assertEqual(self.counts(
            "1..2\n  1..2\n  ok 1 a\n  ok 2 b\nok 1 group\n  1..1\n  not ok 1 c\nnot ok 2 other\n", 1), (2, 1, 0))

    def test_incomplete_subtests(self):
        self.assertEqual(self.counts("1..1\n  1..2\n  ok 1 a\nok 1 group\n"), (1, 1, 0))

    def test_group_that_fails_by_itself(self):
        self.assertEqual(ktap("1..1\n  1..1\n  ok 1 a\nnot ok 1 group\n", 1).failures, ["t: group"])

    def test_cut_off_in_a_group(self):
        self.assertEqual(self.counts("1..2\n  1..2\n  ok 1 a\n"), (1, 2, 0))

    def test_bail_out(self):
        self.assertEqual(ktap("1..1\nBail out! no device\n", 1).failed, 2)

    def test_whole_plan_skipped(self):
        self.assertEqual(self.counts("1..0 # SKIP nothing to do\n"), (0, 0, 1))

    def test_wrong_number(self):
        self.assertEqual(self.counts("1..2\nok 1 a\nok 3 b\n"), (2, 1, 0))

    def test_prose_is_ignored(self):
        self.assertEqual(self.counts("okay then\n# ok 7 x\nnot okay\n1..1\nok 1 a\n"), (1, 0, 0))

    def test_lines_are_reported_as_they_come(self):
        reader = Ktap("t")
        self.assertEqual([reader.feed(line) for line in ("1..3", "ok 1 a", "not ok 2 b", "ok 3 c # SKIP x", "noise")],
                         [None, ("ok", "a"), ("not ok", "b"), ("skip", "c"), None])


class CargoTest(unittest.TestCase):
    GOOD = ("test a::b ... ok\ntest a::c ... ignored\n\n"
            "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n")

    def test_sums_of_all_programs(self):
        results = read(Cargo("c"), self.GOOD * 2)
        self.assertEqual((results.passed, results.failed, results.skipped), (2, 0, 2))

    def test_failure(self):
        results = read(Cargo("c"), "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured;\n", 101)
        self.assertEqual((results.passed, results.failures), (3, ["c: a"]))

    def test_failure_whose_line_was_torn(self):
        results = read(Cargo("c"), "test a ... noise\nFAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\n", 101)
        self.assertEqual(results.failed, 1)

    def test_does_not_compile(self):
        self.assertEqual(read(Cargo("c"), self.GOOD + "error: could not compile\n", 101).failures, ["c: cargo's exit status 101"])

    def test_nothing_ran(self):
        self.assertEqual(read(Cargo("c"), "").failures, ["c: no results"])


class UnittestTest(unittest.TestCase):
    def test_counts(self):
        results = read(Unittest("u"), "test_a (m.C.test_a) ... ok\ntest_b (m.C.test_b) ... FAIL\n"
                                      "test_c (m.C.test_c) ... skipped 'x'\n\nRan 3 tests in 0.1s\n", 1)
        self.assertEqual((results.passed, results.failures, results.skipped), (1, ["u: test_b"], 1))

    def test_import_error(self):
        self.assertEqual(read(Unittest("u"), "Ran 0 tests in 0.0s\n", 1).failed, 1)


class SumTest(unittest.TestCase):
    def test_summary(self):
        total = Results()
        total.add(Results(2, 0, []))
        self.assertEqual(total.summary(), "2 passed, 0 failed")
        total.add(Results(1, 3, ["x"]))
        self.assertEqual(total.summary(), "3 passed, 1 failed, 3 skipped")


if __name__ == "__main__":
    unittest.main()
