# SPDX-License-Identifier: MIT
"""Tests of the results of sockets inside the kernel."""

from __future__ import annotations

import unittest

from sdptests.bench import kernel_loads
from sdptests.bench.kernel_loads import CONNECTIONS, KIB, MIB, PING, STREAM, Kind, Load, Results
from sdptests.kernel_sockets.kernel_sockets import Spent, parsed
from sdptests.twohosts.failure import Failure

TCP, SDP = Kind("TCP", "tcp"), Kind("SDP", "sdp")
PING_64 = Load(PING, 64)


def spent(microseconds: float, *, count: int = 10, size: int = 64, outside: bool = True) -> Spent:
    """A load of so many messages, each of which took so long; by the clock it took twice as long."""
    ns = int(1000 * microseconds * count)
    return Spent(count, count * size, 2 * ns, ns if outside else 0, ns, ns // 2, ns // 4)


def results(*rounds: tuple[float, float], load: Load = PING_64) -> Results:
    """Times of TCP and SDP in so many rounds; a negative one is a measurement that failed."""
    found = Results([TCP, SDP])
    for times in rounds:
        found.rounds.append({})
        for kind, one in zip(found.kinds, times, strict=True):
            if one >= 0:
                found.add(load, kind, spent(one))
    return found


class AnswerTest(unittest.TestCase):
    """What the module answers."""

    def test_an_answer_has_figures(self) -> None:
        text = ("load=ping kind=tcp size=64 count=3 bytes=192 ns=40 outside_ns=30 busy_ns=20 "
                "a_ns=7 b_ns=8\nresult=pass\n")
        self.assertEqual(parsed(text), Spent(3, 192, 40, 30, 20, 7, 8))

    def test_a_failure_has_a_reason(self) -> None:
        with self.assertRaisesRegex(Failure, "^connect: -111$"):
            parsed("\nresult=fail why=connect: -111\n")
        with self.assertRaisesRegex(Failure, "no result"):
            parsed("")

    def test_the_host_measures_better_than_the_kernel(self) -> None:
        self.assertEqual(Spent(1, 1, 9, 5, 7, 0, 0).processor, 5)
        self.assertEqual(Spent(1, 1, 9, 0, 7, 0, 0).processor, 7)


class MeasureTest(unittest.TestCase):
    """A single result."""

    def test_times_are_those_of_a_message(self) -> None:
        self.assertEqual(kernel_loads.microseconds(spent(3)), 3)
        self.assertEqual(kernel_loads.wall_microseconds(spent(3)), 6)

    def test_a_stream_has_bytes_and_others_have_messages(self) -> None:
        stream = spent(500_000, count=4, size=MIB)
        self.assertEqual(kernel_loads.rate(Load(STREAM, MIB), stream), 1)
        self.assertEqual(kernel_loads.rate(Load(CONNECTIONS, 64), spent(5)), 100_000)

    def test_a_load_has_a_name(self) -> None:
        names = [str(Load(STREAM, size)) for size in (64, KIB, 1032, 4 * MIB)]
        self.assertEqual(names, ["stream of 64 B", "stream of 1 KiB", "stream of 1032 B",
                                 "stream of 4 MiB"])


class ResultsTest(unittest.TestCase):
    """Several rounds."""

    def ratio(self, found: Results) -> str:
        """SDP's time of TCP's."""
        return str(found.ratio(PING_64, SDP, kernel_loads.microseconds))

    def test_a_ratio_is_of_one_round(self) -> None:
        self.assertEqual(self.ratio(results((1, 2), (10, 20), (100, 200))), "2.00 2.00-2.00")

    def test_a_round_without_both_has_no_ratio(self) -> None:
        found = results((1, 2), (-1, 9), (4, -1), (2, 6), (1, 4))
        self.assertEqual(self.ratio(found), "3.00 2.00-4.00")
        self.assertIsNone(results((-1, 2)).ratio(PING_64, SDP, kernel_loads.microseconds))

    def undecided(self, *rounds: tuple[float, float]) -> bool:
        """Whether it is open which is faster."""
        return results(*rounds).undecided(PING_64, SDP, kernel_loads.microseconds)

    def test_rounds_that_disagree_decide_nothing(self) -> None:
        self.assertTrue(self.undecided(*[(1, 2)] * 4, (1, 0.9)))
        self.assertTrue(self.undecided(*[(1, 2)] * 4, (1, 1)))
        self.assertFalse(self.undecided(*[(1, 2)] * 4, (1, 1.1)))
        self.assertFalse(self.undecided(*[(2, 1)] * 4, (4, 1)))

    def test_few_rounds_decide_nothing(self) -> None:
        self.assertTrue(self.undecided(*[(1, 2)] * 4))
        self.assertTrue(self.undecided())

    def test_a_round_without_both_decides_nothing(self) -> None:
        self.assertTrue(self.undecided(*[(1, 2)] * 4, (1, -1)))


class PageTest(unittest.TestCase):
    """What is printed."""

    def test_values_have_a_column_for_each_kind(self) -> None:
        found = results((1, 2), (3, 4), (5, -1))
        lines = list(kernel_loads.values(found, lambda _load, one: kernel_loads.microseconds(one)))
        self.assertEqual(lines, ["|  | TCP | SDP |", "|---|---:|---:|",
                                 "| round trip of 64 B | 3.00 1.00-5.00 | 3.00 2.00-4.00 |"])

    def test_ratios_have_none_for_what_they_are_of(self) -> None:
        lines = list(kernel_loads.ratios(results((1, 2), (1, 2), (1, 0.5)),
                                         kernel_loads.microseconds))
        self.assertEqual(lines, ["|  | SDP |", "|---|---:|",
                                 "| round trip of 64 B | 2.00 0.50-2.00 undecided |"])
        lines = list(kernel_loads.ratios(results((1, -1)), kernel_loads.microseconds))
        self.assertEqual(lines[-1], "| round trip of 64 B | - |")

    def test_the_summary_has_a_line_for_each_result(self) -> None:
        found = results((1, 2), *[(2, 4)] * 3, (4, 8))
        heading, tcp, sdp = kernel_loads.summary(found).splitlines()
        self.assertEqual(heading, ",".join(kernel_loads.SUMMARY))
        self.assertEqual(tcp, "ping,64,TCP,5,2.00,1.00,4.00,1.00,1.00,1.00,1,4.00,250000")
        self.assertEqual(sdp, "ping,64,SDP,5,4.00,2.00,8.00,2.00,2.00,2.00,0,8.00,125000")
        self.assertEqual(len(kernel_loads.summary(results((1, -1))).splitlines()), 2)

    def test_the_raw_results_are_all_there(self) -> None:
        found = results((1, 2), (-1, 4))
        lines = kernel_loads.raw(found.rounds).splitlines()
        self.assertEqual(lines, [",".join(kernel_loads.RAW),
                                 "1,ping,64,TCP,10,640,20000,10000,10000,5000,2500",
                                 "1,ping,64,SDP,10,640,40000,20000,20000,10000,5000",
                                 "2,ping,64,SDP,10,640,80000,40000,40000,20000,10000"])


if __name__ == "__main__":
    unittest.main()
