# SPDX-License-Identifier: MIT
"""Tests of the names and pictures of a profile."""

import unittest
from xml.etree import ElementTree

from sdptests.bench import flame, symbols

MAP = """\
0000000060001000 T memcpy_orig
0000000060002000 T _raw_spin_lock
0000000060003000 T rust_helper_mutex_lock
0000000060004000 t tcp_sendmsg
0000000061000000 t _RNvMs_NtCskJdNSNH9WFi_3rlo2cqNtB4_2Cq4push\t[rlo]
0000000061002000 t sdp_companion_enter\t[sdp]
"""


class Names(unittest.TestCase):
    def test_functions_of_rust_have_paths(self) -> None:
        self.assertEqual(
            symbols.readable("_RNvNtCskJdNSNH9WFi_3rlo5verbs10destroy_cq"),
            "rlo::verbs::destroy_cq",
        )
        self.assertEqual(symbols.readable("tcp_sendmsg"), "tcp_sendmsg")

    def test_an_address_is_in_the_function_that_begins_before_it(self) -> None:
        places = symbols.Places(MAP)
        self.assertEqual(places.name(0x60001010), "memcpy_orig")
        self.assertTrue(places.name(0x61000004).endswith("Cq::push [rlo]"))
        self.assertEqual(places.name(0x1000), "unknown")
        self.assertEqual(places.name(0x70000000), "unknown")


class Owners(unittest.TestCase):
    def test_a_copy_is_a_copy_whichever_module_makes_it(self) -> None:
        self.assertEqual(symbols.owner(("rlo::a [rlo]", "memcpy_orig")), "copies")

    def test_a_helper_belongs_to_its_caller(self) -> None:
        self.assertEqual(symbols.owner(("sdp::a [sdp]", "rust_helper_get")), "[sdp]")

    def test_what_a_module_calls_is_the_kernels(self) -> None:
        self.assertEqual(symbols.owner(("sdp::a [sdp]", "kmalloc")), "kernel")

    def test_a_lock_is_a_lock(self) -> None:
        self.assertEqual(symbols.owner(("sdp::a [sdp]", "_raw_spin_lock")), "locks")


class Flames(unittest.TestCase):
    def test_boxes_are_as_wide_as_their_share(self) -> None:
        drawn = flame.graph("a < b", {("main", "f"): 3, ("main", "g"): 1})
        boxes = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}rect")
        self.assertEqual([float(box.attrib["width"]) for box in boxes], [1200, 900, 300])


if __name__ == "__main__":
    unittest.main()
