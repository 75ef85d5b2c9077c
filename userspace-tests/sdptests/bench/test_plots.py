# SPDX-License-Identifier: MIT
"""The input of gnuplot."""

from __future__ import annotations

import unittest
from pathlib import Path
from unittest import mock

from sdptests.bench import plots


class Plots(unittest.TestCase):
    """A figure by the size of messages."""

    def told(self) -> list[str]:
        """The lines for a figure of two sizes."""
        sizes = (512, 4096, 2 << 20, 4097)
        rows = [
            {"connections": 1, "way": "RDMA_Read", "size": size, "rate": 1, "least": 1, "most": 2}
            for size in sizes
        ]
        colours = {"RDMA_Read": "#777777"}
        with (
            mock.patch("sdptests.bench.plots.subprocess.run") as run,
            mock.patch("sdptests.bench.plots.COLOURS", colours),
        ):
            plots._by_size(rows, Path("/nowhere"), 6, 1)
        return run.call_args.kwargs["input"].splitlines()

    def test_underscores_in_names_are_underscores(self) -> None:
        lines = self.told()
        assert any(line.startswith("set terminal") and "noenhanced" in line for line in lines)
        assert any("title 'RDMA_Read'" in line for line in lines)

    def test_sizes_have_the_units_that_people_use(self) -> None:
        marks = "('512 B' 512, '4 KiB' 4096, '4097 B' 4097, '2 MiB' 2097152)"
        assert f"set xtics font 'sans,10' {marks}" in self.told()

    def test_a_rate_says_what_its_seconds_are(self) -> None:
        assert "set ylabel 'MiB/s, time by the clock'" in self.told()

    def test_a_bar_shows_the_spread(self) -> None:
        assert "4096.0 1.0 1.0 2.0" in self.told()


if __name__ == "__main__":
    unittest.main()
