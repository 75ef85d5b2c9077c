# SPDX-License-Identifier: GPL-2.0
"""Tests that the planted faults fit the sources: a fault that cannot be planted finds nothing out."""

import os
import sys
import unittest

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
sys.path.insert(0, os.path.join(TOP, "userspace-tests"))

from sdptests.planted import faults  # noqa: E402


class PlantedTest(unittest.TestCase):
    def test_each_fault_has_its_place(self):
        for fault in faults.FAULTS:
            with self.subTest(fault.name), open(os.path.join(TOP, fault.file)) as file:
                text = file.read()
                planted = fault.planted(text)
                self.assertIsNotNone(planted, f"{fault.file} has changed: choose another place for this kind of fault")
                self.assertNotEqual(planted, text)

    def test_names_differ(self):
        self.assertEqual(len({fault.name for fault in faults.FAULTS}), len(faults.FAULTS))


if __name__ == "__main__":
    unittest.main()
