# SPDX-License-Identifier: MIT
"""Tests of the parts that all runners share: KTAP output, the register, the header's numbers."""

from __future__ import annotations

import contextlib
import io
import unittest

from sdptests.twohosts import loop, register, uapi
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.ktap import Ktap
from sdptests.twohosts.register import Register


def written(*results: tuple, planned: int | None = None) -> tuple[list[str], int]:
    """The output lines for these results, and the exit status."""
    to = io.StringIO()
    report = Ktap(planned, to=to)
    for name, good, notes, skipped in results:
        report.add(name, good, notes, skipped=skipped)
    status = report.end()
    return to.getvalue().splitlines(), status


class Writing(unittest.TestCase):
    """KTAP."""

    def test_results_are_numbered_and_summed_up(self) -> None:
        """The plan comes first if it is known."""
        results = [("a", True, "", ""), ("b", False, "why\n# more", ""), ("c", True, "", "not\nhere")]
        lines, status = written(*results, planned=3)
        self.assertEqual(
            lines,
            ["KTAP version 1", "1..3", "ok 1 a", "# why", "# more", "not ok 2 b", "ok 3 c # SKIP not here",
             "# Totals: pass:1 fail:1 skip:1"],
        )
        self.assertEqual(status, 1)

    def test_the_plan_comes_at_the_end_where_it_is_not_known(self) -> None:
        """For foreign tests with a number that is known at the end only."""
        lines, status = written(("a", True, "", ""))
        self.assertEqual((lines[-2], status), ("1..1", 0))

    def test_a_name_has_no_directive_and_a_failure_is_not_skipped(self) -> None:
        """For any name of a test."""
        lines, _ = written(("a # SKIP b", True, "", ""), ("c", False, "", "why"))
        self.assertEqual(lines[1:3], ["ok 1 a  SKIP b", "not ok 2 c"])


class Picking(unittest.TestCase):
    """Tests by names."""

    def setUp(self) -> None:
        """Three of them."""
        self.register: Register = Register()
        self.register.add(lambda: None, "one")
        self.register.add(lambda: None, "two", long=True)
        self.register.add(lambda: None, "three", needs=("packets",))

    def picked(self, patterns: list[str], there: tuple = ()) -> list[str]:
        """Names."""
        return [entry.name for entry in self.register.picked(patterns, there)]

    def test_long_ones_and_those_that_cannot_run_are_left_out(self) -> None:
        """Long tests run if they are named."""
        if not register.SOAK:
            self.assertEqual(self.picked([]), ["one"])
            self.assertEqual(self.picked([], ("packets",)), ["one", "three"])
        self.assertEqual(self.picked(["tw*"]), ["two"])
        self.assertEqual(self.picked(["t[wh]*", "one"], ("packets",)), ["one", "two", "three"])

    def test_the_file_of_a_test_names_it(self) -> None:
        """For example, the scenarios of one file."""
        self.assertEqual(self.picked(["test_runners"]), ["one", "two"])

    def test_a_name_is_there_once(self) -> None:
        """Of two tests with one name, only one would run."""
        with self.assertRaises(ValueError):
            self.register.add(lambda: None, "one")

    def test_nothing_that_fits_is_an_error_and_a_list_is_all(self) -> None:
        """For every runner's command line."""
        parser = register.parser("about")
        with self.assertRaises(SystemExit) as ended:
            register.chosen(parser.parse_args(["--list", "none"]), [])
        self.assertIn("none", str(ended.exception.code))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as ended:
            register.chosen(parser.parse_args(["--list"]), ["a", "b"])
        self.assertEqual((out.getvalue(), ended.exception.code), ("a\nb\n", 0))
        self.assertEqual(register.matching(["ab", "b"], ["a*"]), ["ab"])

    def test_a_command_line_selects_tests(self) -> None:
        """Of a register, or of functions by name."""
        parser = register.parser("about")
        [entry] = self.register.selected(parser.parse_args(["one"]))
        self.assertEqual(entry.name, "one")
        known = {"ab": 1, "b": 2}
        self.assertEqual(register.named(parser.parse_args(["a*"]), known), {"ab": 1})
        with self.assertRaises(SystemExit):
            register.named(parser.parse_args(["c"]), known)


class Trying(unittest.TestCase):
    """The loop of the runners."""

    @staticmethod
    def fails(error: Exception) -> None:
        """Fails so."""
        raise error

    def test_a_result_is_a_note_a_reason_or_a_traceback(self) -> None:
        """By the kind of exception."""
        self.assertEqual(loop.tried(lambda: "note"), loop.Result(note="note"))
        self.assertEqual(loop.tried(lambda: 3), loop.Result())
        self.assertEqual(loop.tried(lambda: self.fails(Failure("why")), Failure), loop.Result("why"))
        self.assertIn("in fails", loop.tried(lambda: self.fails(Failure("why"))).wrong)
        self.assertIn("in fails", loop.tried(lambda: self.fails(OSError()), OSError).wrong)
        with self.assertRaises(OSError):
            loop.tried(lambda: self.fails(OSError("why")), Failure)
        skipped = loop.tried(lambda: self.fails(KeyError("why")), skip=(KeyError,))
        self.assertEqual(skipped, loop.Result(skipped="'why'"))

    def test_each_result_is_reported(self) -> None:
        """With the reason of a failure before the note."""
        to = io.StringIO()
        report = Ktap(3, to=to)
        results = {"a": loop.Result(), "b": loop.Result("why", "note"), "c": loop.Result(skipped="not")}
        loop.run(report, ((name, lambda one=one: one) for name, one in results.items()))
        self.assertEqual(
            to.getvalue().splitlines()[2:],
            ["ok 1 a", "# why", "# note", "not ok 2 b", "ok 3 c # SKIP not"],
        )
        loop.run(report, [("d", loop.Result)], timed=True)
        self.assertRegex(to.getvalue(), r"\n# \d+\.\d s\nok 4 d\n$")


class Numbers(unittest.TestCase):
    """The numbers of the header."""

    def test_numbers_of_both_kinds_are_read_and_others_are_not_made_up(self) -> None:
        """Decimal and hexadecimal."""
        text = "#define A\t 12 /* b */\n#define B 0x10\n#define C A\n#define D \"1\"\n"
        self.assertEqual(uapi.numbers(text), {"A": 12, "B": 16})
        self.assertEqual((uapi.AF_INET_SDP, uapi.SDP_SERVICE_ID_BASE), (27, 0x10000))
        with self.assertRaises(AttributeError):
            uapi.SDP_NO_SUCH_NUMBER  # noqa: B018


if __name__ == "__main__":
    unittest.main()
