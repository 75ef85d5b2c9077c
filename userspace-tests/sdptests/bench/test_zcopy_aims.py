# SPDX-License-Identifier: MIT
"""The aims of zero copy."""

from __future__ import annotations

import unittest

from sdptests.bench import document
from sdptests.bench import zcopy_aims as aims
from sdptests.bench.spread import Spread
from sdptests.bench.streams import Rate
from sdptests.bench.table import KIB, Row
from sdptests.bench.zcopy_aims import COPIES, DEFAULT, EVENTS, READ, TCP, ZCOPY, Section

MIB = 1 << 20
SIZES = (16 * KIB, 64 * KIB, MIB)


def section(device: str = "rlo", connections: int = 1, **rates: list[list[float]]) -> Section:
    """Rates by size and round, of ways by their Python names; times that say nothing."""
    names = {"copies": COPIES, "zcopy": ZCOPY, "default": DEFAULT, "read": READ, "tcp": TCP}
    names |= {"events_copies": COPIES + EVENTS, "events_default": DEFAULT + EVENTS}
    rows = {}
    for short, of_sizes in rates.items():
        rounds = [
            {size: Rate(rate, {}, 100, 0) for size, rate in zip(SIZES, one, strict=True)}
            for one in zip(*of_sizes, strict=True)
        ]
        rows[names[short]] = Row(names[short], rounds=rounds)
    return Section(device, device, connections, rows, SIZES)


def verdicts(one: Section) -> dict[str, str]:
    """By the end of the description."""
    return {line.what.partition(": ")[2]: line.verdict for line in aims.lines(one)}


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
        """Then its verdict is bad."""
        one = section(copies=[[10]] * 3, zcopy=[[9]] * 3)
        self.assertIsNone(one.crossing())
        self.assertEqual(verdicts(one)["zero copy is faster from"], "NOT MET")

    def test_the_spread_decides(self) -> None:
        """64 KiB is the aim for one connection."""
        copies, fast = [[10] * 5] * 3, [20] * 5
        sure = section(copies=copies, zcopy=[[5] * 5, [11, 12, 12, 12, 12], fast])
        self.assertEqual(verdicts(sure)["zero copy is faster from"], "met")
        unsure = section(copies=copies, zcopy=[[5] * 5, [9, 12, 12, 12, 12], fast])
        self.assertEqual(verdicts(unsure)["zero copy is faster from"], "NOT MET: undecided")

    def test_on_rxe_it_has_to_be_found(self) -> None:
        """The default way uses zero copy from about there on."""
        one = section("rxe", copies=[[10]] * 3, zcopy=[[5], [5], [20]], default=[[10]] * 3)
        self.assertEqual(verdicts(one)["zero copy is faster from"], "NOT MET")
        default = one.rows[DEFAULT].rounds[0]
        default[MIB] = Rate(20, {}, 100, 90)
        self.assertEqual(one.found(), MIB)
        self.assertEqual(verdicts(one)["zero copy is faster from"], "met")


class Lines(unittest.TestCase):
    """The aims at 1 MiB."""

    def test_rates_of_the_device_and_of_tcp(self) -> None:
        """TCP is no aim on rxe."""

        def on(device: str) -> dict[str, str]:
            default, read, tcp = ([[1.0] * 5, [1.0] * 5, [last] * 5] for last in (9.0, 10.0, 5.0))
            return verdicts(section(device, default=default, read=read, tcp=tcp))

        found = on("rlo")
        self.assertEqual(found["1M, default of raw Read"], "met")
        self.assertEqual(found["1M, default of TCP"], "NOT MET")
        self.assertNotIn("1M, default of TCP", on("rxe"))


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
