# SPDX-License-Identifier: MIT
"""What is made of the times of chunks."""

from __future__ import annotations

import contextlib
import io
import unittest

from sdptests.bench import chunk_aims as aims
from sdptests.bench.chunk_aims import FITTED, RAW, WAYS, WHOLE, Found
from sdptests.bench.table import KIB


def found(fitted: float, stream: float) -> Found:
    """Five rounds, the last one on a machine that was twice as slow."""
    result = Found((16 * KIB,))
    for at, slower in enumerate((1, 1, 1, 1, 2)):
        result.add(at, RAW, 16 * KIB, 10 * slower)
        for way in WAYS:
            result.add(at, way, 16 * KIB, slower * (fitted if way == FITTED else 25))
            result.add_rate(at, way, (stream if way == FITTED else 1000) / slower)
    return result


class Chunks(unittest.TestCase):
    """Ratios and verdicts."""

    def test_a_ratio_is_of_the_same_round(self) -> None:
        """A slow round makes all slow."""
        one = found(12.5, 990)
        self.assertEqual(str(one.of_raw(FITTED, 16 * KIB)), "0.80 0.80-0.80")
        self.assertEqual(str(one.of_raw(WHOLE, 16 * KIB)), "0.40 0.40-0.40")
        self.assertEqual(str(one.of_whole()), "0.99 0.99-0.99")
        self.assertIsNone(one.of_raw(FITTED, 64 * KIB))

    def test_the_aims_are_told(self) -> None:
        """Met, or not."""
        for fitted, stream, verdicts in ((11, 990, ["met", "met"]), (12.5, 900, ["NOT MET"] * 2)):
            with contextlib.redirect_stdout(io.StringIO()) as text:
                aims.show(found(fitted, stream))
            told = text.getvalue().splitlines()[-2:]
            for line, verdict in zip(told, verdicts, strict=True):
                self.assertTrue(line.endswith(f" {verdict}"), line)


if __name__ == "__main__":
    unittest.main()
