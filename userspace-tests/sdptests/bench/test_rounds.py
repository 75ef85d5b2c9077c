# SPDX-License-Identifier: MIT
"""Rounds in which measurements fail."""

from __future__ import annotations

import contextlib
import io
import signal
import unittest
from collections.abc import Callable

from sdptests.bench import rounds, streams
from sdptests.bench.failures import Failures
from sdptests.bench.streams import Rate
from sdptests.bench.table import Row
from sdptests.twohosts.failure import Failure


class Rounds(unittest.TestCase):
    """Several ways in turn."""

    def test_another_way_begins_each_round(self) -> None:
        """What comes first may be faster or slower for that."""
        self.assertEqual([rounds.order("abc", n)[0] for n in range(4)], ["a", "b", "c", "a"])

    def test_no_way_is_always_behind_the_same_one(self) -> None:
        """It may find the caches as that one leaves them."""
        rounds_of = ["".join(rounds.order("abcd", n)) for n in range(5)]
        self.assertEqual(rounds_of, ["abcd", "badc", "cdab", "dcba", "abcd"])
        self.assertEqual([rounds.order([], n) for n in range(2)], [[], []])
        for way in "abcd":
            before = {one[one.index(way) - 1] for one in rounds_of if one.index(way)}
            self.assertGreater(len(before), 1, way)

    def test_a_failure_ends_only_its_way(self) -> None:
        """Its earlier results stay, and it is not asked again."""
        asked = []

        def fails(size: int) -> Rate:
            asked.append(size)
            if len(asked) > 2:
                raise Failure("it hangs")
            return Rate(1, {})

        def works(_size: int) -> Rate:
            return Rate(2, {})

        rows = {name: Row(name) for name in ("one", "other")}
        ways: dict[str, Callable[[int], Rate]] = {"one": fails, "other": works}
        failures = Failures()
        with contextlib.redirect_stderr(io.StringIO()):
            for number in range(3):
                rounds.add("rlo", rows, (64, 128), ways, number, failures)
        self.assertEqual(asked, [64, 128, 64])
        self.assertEqual([list(one) for one in rows["one"].rounds], [[64, 128], [], []])
        self.assertEqual([list(one) for one in rows["other"].rounds], [[64, 128]] * 3)
        self.assertEqual(failures.found, ["rlo, 64, one: it hangs"])

    def test_a_failure_is_printed_with_its_reason(self) -> None:
        """Those of the system as well; without any there is nothing to say."""
        failures = Failures()
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            failures.show()
            self.assertEqual(out.getvalue(), "")
            with failures.noted("rlo SEND"):
                raise OSError("no device")
            failures.show()
        self.assertTrue(out.getvalue().endswith("\nfailed:\n- rlo SEND: no device\n"))

    def test_no_alarm_is_left_by_a_failure(self) -> None:
        """It would end whatever is done later."""
        before = signal.getsignal(signal.SIGALRM)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with self.assertRaises(Failure), streams.patience():
            raise Failure("an end has died")
        self.assertEqual(signal.alarm(0), 0)


if __name__ == "__main__":
    unittest.main()
