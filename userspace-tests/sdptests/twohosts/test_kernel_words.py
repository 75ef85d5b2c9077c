# SPDX-License-Identifier: MIT
"""Compares the words by which a history recognises reports of the kernel with the words of the judge.

Neither can import the other's: the judge works without these tests, the tests work without the judge, and its words
are patterns, which the histories have no use for.
"""

import re
import unittest

from sdptests import checkout, harness

SOURCE = checkout.TESTS / "src/bin/histories/kernel_log.rs"
# No history causes them, or none is left to tell of it.
OF_THE_WHOLE_RUN = ("kmemleak:", "Kernel panic")


def literals(text: str, name: str) -> list[str]:
    """The strings of a constant."""
    found = re.search(rf"const {name}: .*? = (.*?);", text, re.DOTALL)
    assert found
    return re.findall(r'"([^"]*)"', found.group(1))


class Words(unittest.TestCase):
    def setUp(self) -> None:
        try:
            self.judge = harness.module("judge")
            self.kinds = harness.module("tests/judge_test").KINDS
        except FileNotFoundError:
            self.skipTest("there is no judge")
        text = SOURCE.read_text()
        self.words = literals(text, "WORDS")
        (self.note,) = literals(text, "NOTE")

    def test_a_history_recognises_each_kind_of_report(self) -> None:
        for line in self.kinds:
            if not line.startswith(OF_THE_WHOLE_RUN):
                with self.subTest(line=line):
                    self.assertTrue(any(word in line for word in self.words))

    def test_each_word_of_a_history_is_of_a_report(self) -> None:
        lines = [*self.kinds, *self.words]
        for word in self.words:
            with self.subTest(word=word):
                self.assertTrue(any(word in line and self.judge.REPORTS.search(line) for line in lines))

    def test_the_note_is_no_report(self) -> None:
        self.assertIsNone(self.judge.REPORTS.search(self.note))
