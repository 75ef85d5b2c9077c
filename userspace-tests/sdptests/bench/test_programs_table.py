# SPDX-License-Identifier: MIT
"""The table of programs."""

from __future__ import annotations

import unittest

from sdptests.bench import document
from sdptests.bench import programs_table as table
from sdptests.bench.programs_table import SDP, TCP, Program, Result
from sdptests.bench.spread import Spread


def program(unit: str, tcp: list[float], sdp: list[float]) -> Program:
    """Values of each round; a value takes as many ms."""
    one = Program("prog", unit)
    for name, values in ((TCP, tcp), (SDP, sdp)):
        for number, value in enumerate(values):
            one.add(name, number, Result(value, value))
    return one


class Programs(unittest.TestCase):
    """Results beside TCP's."""

    def test_more_is_faster(self) -> None:
        """Rates and times alike."""
        self.assertEqual(program("per s", [2, 2], [4, 6]).speed(SDP), Spread(2.5, 2, 3, 2))
        self.assertEqual(program("us", [4, 6], [2, 2]).speed(SDP), Spread(2.5, 2, 3, 2))
        self.assertEqual(program("us", [4, 8], [2, 2]).work(SDP), Spread(0.375, 0.25, 0.5, 2))

    def test_a_ratio_is_of_one_round(self) -> None:
        """Rounds without one of both have none."""
        one = program("per s", [1, 2, 4], [])
        self.assertIsNone(one.speed(SDP))
        one.add(SDP, 1, Result(6, 1))
        self.assertEqual(one.speed(SDP), Spread(3, 3, 3, 1))
        self.assertEqual(one.value(SDP), 6)

    def test_a_spread_with_both_answers_decides_nothing(self) -> None:
        """A program that does not run is neither."""
        for sdp, verdict in (
            ([1.5, 1.1], "faster"), ([0.5, 0.9], "slower"), ([0.9, 1.1], "undecided"),
        ):  # fmt: skip
            self.assertEqual(program("MB/s", [1] * 6, sdp * 3).verdict(), verdict)
        self.assertEqual(program("MB/s", [1] * 4, [1.5] * 4).verdict(), "undecided")
        self.assertEqual(program("MB/s", [1], []).verdict(), "does not run")

    def test_a_failure_of_what_is_compared_costs_its_round(self) -> None:
        """Others are given up, because each try may last until its limit."""
        one = program("per s", [1, 2], [4, 5])
        one.absent |= {TCP: "its port was in use", "SMC-D": "it hangs"}
        self.assertEqual([one.is_given_up(name) for name in (TCP, SDP, "SMC-D")], [False, False, True])
        one.add(TCP, 3, Result(2, 1))
        one.add(SDP, 3, Result(6, 1))
        self.assertEqual(one.speed(SDP), Spread(3, 2.5, 4, 3))

    def test_what_is_printed(self) -> None:
        """A row, the sum, and reasons."""
        one = program("per s", [100] * 6, [80, 90] * 3)
        one.absent["SMC-D"] = "\x1b[2;35mit\n\nended"

        def tell() -> None:
            table.show([one])
            table.show_beside([one], [SDP, "SMC-D", "SMC-R"])
            table.show_absent([one])

        text = document.captured(tell)
        self.assertRegex(text, r"prog +per s +100 +85\.0 +0\.85 0\.80-0\.90 .*slower")
        self.assertIn("slower: prog\n", text)
        self.assertRegex(text, r"  prog +0\.85 0\.80-0\.90 +fails +-\n")
        self.assertIn("- prog over SMC-D: it; ended", text)

    def test_a_time_that_is_unknown_is_no_time(self) -> None:
        """The reason is told once, and the rates count all the same."""
        one = Program("prog", "per s")
        for name in (TCP, SDP):
            one.add(name, 0, Result(100, None, {"rest": 3.0}))
        text = document.captured(lambda: table.show([one, one]))
        self.assertRegex(text, r"prog +per s +100 +100 +1\.00 1\.00-1\.00 +- +- +-  undecided")
        self.assertEqual(text.count("this host allows no samples"), 1)
        one.add(SDP, 1, Result(100, 5.0))
        self.assertIsNone(one.work(SDP))
        self.assertEqual(one.processor(SDP), 5.0)
        self.assertNotIn("no samples", document.captured(lambda: table.show([one])))

    def test_time_by_layer(self) -> None:
        """A row for each transport, and a column for each layer that takes time in any."""
        one = Program("prog", "per s")
        one.add(TCP, 0, Result(1, 3, {"network": 2.0, "other": 1.0, "module": 0.0}))
        for number, time in enumerate((4.0, 6.0)):
            one.add(SDP, number, Result(1, time, {"module": time}))
        layers = ("module", "driver", "network", "other")
        text = document.captured(lambda: table.show_layers([one], layers))
        heading, tcp, sdp = (line.split() for line in text.splitlines())
        self.assertEqual(heading, ["ms", "module", "network", "other"])
        self.assertEqual(tcp, ["prog", "TCP", "0.000", "2.00", "1.00"])
        self.assertEqual(sdp, ["prog", "SDP", "5.00", "0.000", "0.000"])


if __name__ == "__main__":
    unittest.main()
