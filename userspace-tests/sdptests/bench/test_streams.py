# SPDX-License-Identifier: MIT
"""The amounts of messages."""

from __future__ import annotations

import unittest

from sdptests.bench.streams import enough


class Enough(unittest.TestCase):
    """How many messages take as long as a measurement."""

    def enough(self, *seconds: float, size: int = 64 << 10, least: int = 2) -> tuple[int, list[int]]:
        """The number for a measurement of 8 s, and the turns, which take so long one by one."""
        times, turns = iter(seconds), []

        def turn(count: int) -> tuple[float, float]:
            turns.append(count)
            return 10.0, 10.0 + next(times)

        return enough(turn, size, 8.0, least), turns

    def test_turns_get_longer_until_one_can_be_measured(self) -> None:
        """A short one tells too little."""
        self.assertEqual(self.enough(0.1, 0.4, 1.6, 1.6), (16 * 5, [1, 4, 16, 16]))
        self.assertEqual(self.enough(2, 2, size=64), (64 * 4, [64, 64]))

    def test_what_the_first_turn_sets_up_does_not_count(self) -> None:
        """It stays, so the second turn may be much faster."""
        self.assertEqual(self.enough(4, 0.5), (16, [1, 1]))
        self.assertEqual(self.enough(2, 4), (4, [1, 1]))

    def test_there_are_some_in_any_case(self) -> None:
        """One that takes longer than all of the time is not all."""
        self.assertEqual(self.enough(20, 20)[0], 2)
        self.assertEqual(self.enough(20, 20, least=256)[0], 256)


if __name__ == "__main__":
    unittest.main()
