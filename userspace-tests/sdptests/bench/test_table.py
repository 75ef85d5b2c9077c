# SPDX-License-Identifier: MIT
"""The output of results."""

from __future__ import annotations

import contextlib
import io
import unittest
from unittest import mock

from sdptests.bench import spread, table
from sdptests.bench.gauge import KERNEL
from sdptests.bench.spread import Spread
from sdptests.bench.streams import Rate
from sdptests.bench.table import Row


def row(name: str, *rates: float, raw: str = "") -> Row:
    """Messages of 64 bytes, in so many rounds."""
    return Row(name, raw, rounds=[{64: Rate(rate, {"network": 2 * rate})} for rate in rates])


class Table(unittest.TestCase):
    """Results beside others."""

    def test_figures_are_short(self) -> None:
        """Sizes and numbers."""
        self.assertEqual([table.label(size) for size in (64, 4096, 4 << 20)], ["64", "4K", "4M"])
        self.assertEqual([spread.number(x) for x in (None, 0.0321, 0.5, 12.34, 1234.5)],
                         ["-", "0.032", "0.50", "12.3", "1234"])
        self.assertEqual([spread.short(x) for x in (0.0001, 0.0321, 0.996, 4.04, 12.34, 1234.5)],
                         [".000", ".032", "1.00", "4.0", "12", "1234"])

    def test_a_ratio_is_of_one_round(self) -> None:
        """A round on a slow machine makes both slow."""
        ratio = table.ratio(row("SDP", 5, 20, 30), row("rlo SEND", 10, 50, 40), 64)
        self.assertEqual(ratio, Spread(0.5, 0.4, 0.75, 3))
        self.assertEqual(str(ratio), "0.50 0.40-0.75")
        self.assertEqual(ratio and ratio.short(), ".50 .40-.75")
        ones, others = {0: 1.0, 1: 9.0, 2: 4.0}, {0: 2.0, 2: 2.0, 3: 7.0}
        self.assertEqual(Spread.of_ratios(ones, others), Spread(1.25, 0.5, 2.0, 2))
        self.assertIsNone(Spread.of_ratios({0: 1.0}, {1: 1.0}))

    def test_the_work_of_the_kernel_is_compared_where_it_is_known(self) -> None:
        """A host may allow no samples in some rounds."""
        one, other = Row("SDP"), Row("TCP")
        for its, others in ((3.0, 2.0), (None, 2.0), (1.0, 4.0)):
            for of, work in ((one, its), (other, others)):
                of.rounds.append({64: Rate(1, {} if work is None else {KERNEL: work, "rest": 9})})
        self.assertEqual(table.work(one, other, 64), Spread(0.875, 0.25, 1.5, 2))
        self.assertIsNone(table.work(one, None, 64))

    def test_a_ratio_needs_both(self) -> None:
        """There is no ratio without a measurement."""
        one = row("SDP", 5)
        self.assertIsNone(table.ratio(one, Row("TCP", rounds=[{1024: Rate(1, {})}]), 64))
        self.assertIsNone(table.ratio(one, row("TCP", 1), 1024))
        self.assertIsNone(table.ratio(one, None, 64))
        self.assertIsNone(Spread.of([]))

    def test_rounds_are_one_figure(self) -> None:
        """The median of the rates, the mean of the times."""
        one = row("SDP", 1, 2, 6)
        self.assertEqual(one.rate(64), 2)
        self.assertEqual(one.times(64), {"network": 6})
        self.assertIsNone(one.rate(1024))
        self.assertEqual(one.times(1024), {})

    def test_more_rounds_make_the_spread_narrower(self) -> None:
        """The outermost results count only while there are few."""
        self.assertEqual([spread.outermost(n) for n in (1, 7, 8, 10, 11, 13)], [0, 0, 1, 1, 2, 3])
        self.assertEqual(Spread.of([1, 5, 6, 7, 99]), Spread(6, 1, 99, 5))
        self.assertEqual(Spread.of([1, 5, 5, 6, 6, 7, 7, 99]), Spread(6, 5, 7, 8))

    def test_a_spread_that_covers_the_aim_does_not_reach_it(self) -> None:
        """Whatever its median is."""
        self.assertEqual(Spread(1.2, 1.0, 1.3, 5).verdict(1), "met")
        self.assertEqual(Spread(1.2, 0.9, 1.3, 5).verdict(1), "NOT MET: undecided")
        self.assertEqual(Spread(0.8, 0.7, 0.9, 5).verdict(1), "NOT MET")

    def test_few_rounds_decide_nothing(self) -> None:
        """They may all be on the same side by chance."""
        for ratio, beside, verdict in ((0.5, "less", "NOT MET"), (2, "more", "met")):
            few, enough = Spread(ratio, ratio, ratio, 4), Spread(ratio, ratio, ratio, 5)
            self.assertEqual((few.beside_one(), few.verdict(1)), ("undecided", "NOT MET: undecided"))
            self.assertEqual((enough.beside_one(), enough.verdict(1)), (beside, verdict))

    def test_what_is_absent_has_its_reason(self) -> None:
        """In the place of results."""
        # The default of say() was bound at its definition.
        say = mock.patch("sdptests.bench.table.say", print)
        with contextlib.redirect_stdout(io.StringIO()) as out, say:
            table.show([row("TCP", 5), Row("SMC-D", absent="no device")], (64,))
        self.assertIn("not available: no device", out.getvalue())
        self.assertRegex(out.getvalue(), r"TCP +5\.00")


if __name__ == "__main__":
    unittest.main()
