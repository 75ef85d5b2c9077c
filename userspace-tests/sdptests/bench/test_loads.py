# SPDX-License-Identifier: MIT
"""The list of loads."""

from __future__ import annotations

import unittest

from sdptests.bench.loads import FEW, loads


class Loads(unittest.TestCase):
    """What bench-programs and bench-instructions go through."""

    def test_each_load_has_a_name_of_its_own(self) -> None:
        """Results are kept by name."""
        names = [load.name for load in loads()]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([load.name for load in loads(0.001)], names)

    def test_those_beside_rsockets_exist(self) -> None:
        """A name that no load begins with would be no load."""
        for few in FEW:
            self.assertTrue(any(load.name.startswith(few) for load in loads()), few)


if __name__ == "__main__":
    unittest.main()
