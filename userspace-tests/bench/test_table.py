# SPDX-License-Identifier: MIT
"""How figures are shown: `python3 -m unittest discover userspace-tests/bench`."""

from __future__ import annotations

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "apps"))

import table
from streams import Rate
from table import Row


class Table(unittest.TestCase):
    """Figures beside those of others."""

    def test_figures_are_short(self) -> None:
        """Sizes and numbers."""
        self.assertEqual([table.label(size) for size in (64, 4096, 4 << 20)], ["64", "4K", "4M"])
        self.assertEqual([table.number(x) for x in (None, 0.5, 12.34, 1234.5)],
                         ["-", "0.50", "12.3", "1234"])

    def test_a_ratio_needs_both(self) -> None:
        """What was not measured has none."""
        raw = Row("rlo READ", {64: Rate(10, {}), 1024: Rate(40, {})})
        row = Row("SDP", {64: Rate(5, {})}, raw="rlo READ")
        self.assertEqual(table.ratio(row, raw, 64), 0.5)
        self.assertIsNone(table.ratio(row, raw, 1024))
        self.assertIsNone(table.ratio(row, None, 64))

    def test_what_is_absent_has_its_reason(self) -> None:
        """In the place of figures."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rows = [Row("TCP", {64: Rate(5, {"network": 2.0})}), Row("SMC-D", absent="no device")]
            # The default of say() was bound before.
            with mock.patch("table.say", print):
                table.show(rows, (64,))
        self.assertIn("not available: no device", out.getvalue())
        self.assertRegex(out.getvalue(), r"TCP +5\.00")


if __name__ == "__main__":
    unittest.main()
