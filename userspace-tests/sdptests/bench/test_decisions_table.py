# SPDX-License-Identifier: MIT
"""The table of knobs."""

from __future__ import annotations

import unittest

from sdptests.bench import decisions_table as table
from sdptests.bench import document
from sdptests.bench.decisions_table import DEFAULT, Way


def way(**loads: list[float]) -> Way:
    """Costs of the whole machine, by load and in each round."""
    one = Way()
    for load, costs in loads.items():
        for at, cost in enumerate(costs):
            one.add(at, load, cost, None)
    return one


def rows(ways: dict[str, Way], part: str = "whole") -> list[list[str]]:
    """The words of each line."""
    text = document.captured(lambda: table.show(ways, part))
    return [line.split() for line in text.splitlines()]


class Decisions(unittest.TestCase):
    """Values of knobs."""

    def test_a_ratio_is_marked_if_all_of_its_spread_is_on_one_side(self) -> None:
        """Of enough rounds, each beside the default of the same round."""
        costs = {
            DEFAULT: way(ping=[1, 2, 4, 1, 2]),
            "less": way(ping=[0.5, 1, 2, 0.5, 1]),
            "more": way(ping=[2, 4, 8, 2, 4]),
            "either": way(ping=[2, 1, 4, 1, 2]),
            "few": way(ping=[0.5, 1, 2, 0.5]),
        }
        heading, *found = rows(costs)
        self.assertEqual(heading, ["whole,", "of", "the", "default's", "ping"])
        marked = {line[0]: line[-1][-1] for line in found if line[-1][-1] in "+-"}
        self.assertEqual(marked, {"less": "-", "more": "+"})
        self.assertEqual([line[0] for line in found], list(costs))

    def test_a_figure_stands_below_its_own_load(self) -> None:
        """A way need not have all loads of the default, nor in the same order."""
        costs = {
            DEFAULT: way(stream=[1] * 5, ping=[1] * 5),
            "other": way(ping=[3] * 5, raw=[7] * 5),
            "none": way(raw=[7] * 5),
        }
        _heading, default, other = rows(costs)
        self.assertEqual(default, [DEFAULT, "1.0", "1.0-1.0", "1.0", "1.0-1.0"])
        self.assertEqual(other, ["other", ".", "3.0", "3.0-3.0+"])

    def test_without_a_default_there_is_no_table(self) -> None:
        """Nor without figures of that part."""
        self.assertEqual(rows({"other": way(ping=[1])}), [])
        self.assertEqual(rows({DEFAULT: way(ping=[1])}, "kernel"), [])


if __name__ == "__main__":
    unittest.main()
