# SPDX-License-Identifier: MIT
"""The aim of zero copy."""

from __future__ import annotations

import unittest

from sdptests.bench import document
from sdptests.bench import zcopy_aims as aims
from sdptests.bench.spread import Spread
from sdptests.bench.streams import Rate
from sdptests.bench.table import KIB, Row
from sdptests.bench.zcopy_aims import COPIES, DEFAULT, EVENTS, ZCOPY, Section

MIB = 1 << 20
SIZES = (16 * KIB, 64 * KIB, MIB)


def section(device: str = "rlo", connections: int = 1, **rates: list[list[float]]) -> Section:
    """Rates by size and round, of ways by their Python names; times that say nothing."""
    names = {"copies": COPIES, "zcopy": ZCOPY, "default": DEFAULT}
    names |= {"events_copies": COPIES + EVENTS, "events_default": DEFAULT + EVENTS}
    rows = {}
    for short, of_sizes in rates.items():
        rounds = [
            {size: Rate(rate, {}, 100, 0) for size, rate in zip(SIZES, one, strict=True)}
            for one in zip(*of_sizes, strict=True)
        ]
        rows[names[short]] = Row(names[short], rounds=rounds)
    return Section(device, device, connections, rows, SIZES)


class Better(unittest.TestCase):
    """The default way beside the better one."""

    def test_the_better_way_is_the_better_one_of_all_rounds(self) -> None:
        """Not the one that was lucky in a round."""
        one = section(
            copies=[[10, 10, 10]] * 3, zcopy=[[8, 12, 8]] * 3, default=[[9, 10, 11]] * 3
        )
        self.assertEqual(one.of_better("", MIB), Spread(1.0, 0.9, 1.1, 3))

    def test_event_loops_are_compared_with_event_loops(self) -> None:
        """And may not have been measured."""
        one = section(copies=[[10]] * 3, events_copies=[[5]] * 3, events_default=[[5]] * 3)
        self.assertEqual(one.of_better(EVENTS, MIB), Spread(1, 1, 1, 1))
        self.assertIsNone(one.of_better("", MIB))

    def test_every_size_counts(self) -> None:
        """One that is below is enough; the worst is named."""
        ten = [10] * 5
        good = section(copies=[ten] * 3, default=[ten] * 3)
        worse = [ten, [8, 8, 8.5, 9, 9], [9, 9, 9.5, 10, 10]]
        bad = section(connections=8, copies=[ten] * 3, default=worse)
        (line,) = aims.everywhere([good])
        self.assertEqual(line.verdict, "met")
        (line,) = aims.everywhere([good, bad])
        self.assertEqual(line.verdict, "NOT MET")
        self.assertIn("4 of 6, 1 undecided; least 8 x 64K: 0.85 0.80-0.90", line.value)


class Crossing(unittest.TestCase):
    """The size from which zero copy is faster."""

    def test_it_is_faster_from_there_on(self) -> None:
        """A smaller size where it happens to be faster does not count."""
        one = section(copies=[[9, 9], [10, 10], [10, 10]], zcopy=[[10, 10], [8, 8], [12, 9.9]])
        self.assertEqual(one.crossing(), MIB)
        self.assertIsNone(one.decided())

    def test_there_may_be_none(self) -> None:
        """It is slower with the largest size."""
        one = section(copies=[[10]] * 3, zcopy=[[20], [20], [9]])
        self.assertIsNone(one.crossing())

    def test_the_spread_decides(self) -> None:
        """Of enough rounds."""
        copies, fast = [[10] * 5] * 3, [20] * 5
        sure = section(copies=copies, zcopy=[[5] * 5, [11, 12, 12, 12, 12], fast])
        self.assertEqual((sure.crossing(), sure.decided()), (64 * KIB, 64 * KIB))
        unsure = section(copies=copies, zcopy=[[5] * 5, [9, 12, 12, 12, 12], fast])
        self.assertEqual((unsure.crossing(), unsure.decided()), (64 * KIB, MIB))

    def test_the_default_uses_it_where_most_bytes_are_not_copied(self) -> None:
        """From some size on, if at all."""
        one = section(default=[[10]] * 3)
        self.assertIsNone(one.found())
        one.rows[DEFAULT].rounds[0][MIB] = Rate(20, {}, 100, 90)
        self.assertEqual(one.found(), MIB)


class Documents(unittest.TestCase):
    """What is printed."""

    def test_tables_are_blocks_of_code(self) -> None:
        """Without empty lines at their ends."""

        def tell() -> None:
            with document.fenced():
                aims.show([section(copies=[[1]] * 3, default=[[1]] * 3)])

        lines = document.captured(tell).splitlines()
        self.assertEqual((lines[0], lines[-1]), ("```", "```"))
        self.assertRegex(lines[1], "^aims .*verdict$")

    def test_the_spread_is_described(self) -> None:
        """By the number of rounds."""
        for rounds, range_, percent in (
            (1, "is from the least to the greatest", 0),
            (3, "is from the least to the greatest", 75),
            (5, "is from the least to the greatest", 94),
            (7, "is from the least to the greatest", 98),
            (8, "leaves out the 1 least and the 1 greatest", 93),
            (11, "leaves out the 2 least and the 2 greatest", 93),
        ):
            told = document.spread(rounds)
            self.assertTrue(told.startswith(f"The spread {range_}; "), told)
            self.assertIn(f"a probability of {percent} %.", told)


if __name__ == "__main__":
    unittest.main()
