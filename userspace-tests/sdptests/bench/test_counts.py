# SPDX-License-Identifier: MIT
"""Tests of the counted instructions."""

import unittest

from sdptests.bench.counts import Function, plain, read
from sdptests.bench.layers import Symbols

SYMBOLS = Symbols(
    "1000 T first\n"
    "1100 t second\n"
    "1200 t osq_lock\n"
    "2000 t own\t[sdp]\n"
    "3000 t device\t[rlo]\n"
    "4000 t other\t[ib_core]\n"
    "5000 T rxe_sender\n"
)


class CountsTest(unittest.TestCase):
    """Files of counts."""

    def test_instructions_belong_to_the_part_of_their_function(self) -> None:
        text = "0 5 100\n1200 1 8\n1000 4 10\n1010 3 20\n2008 7 2\n3000 1 6\n4000 1 9\n5000 1 5\n"
        parts = read(text, SYMBOLS).parts
        want = {"programs": 500, "waits": 8, "kernel": 109, "sdp.ko": 14, "device": 11}
        self.assertEqual(parts, want)

    def test_a_call_is_an_execution_of_the_first_block(self) -> None:
        functions = read("1000 4 10\n1010 3 20\n1000 2 1\n1100 1 3\n", SYMBOLS).functions
        self.assertEqual(functions["first"], Function(instructions=102, calls=11))
        self.assertEqual(functions["second"], Function(instructions=3, calls=3))

    def test_a_rust_symbol_has_its_last_identifiers(self) -> None:
        name = "_RNvMs_NtNtCsgGIFwePfQdO_3sdp4link9callbacksNtNtB8_8endpoint5Inner7on_side\t[sdp]"
        self.assertEqual(plain(name), "endpoint::Inner::on_side [sdp]")
        name = "_RNvMs0_NtNtCsgGIFwePfQdO_3sdp4link7receiveNtB7_4Link13post_receives\t[sdp]"
        self.assertEqual(plain(name), "receive::Link::post_receives [sdp]")
        self.assertEqual(plain("memcpy_orig"), "memcpy_orig")


if __name__ == "__main__":
    unittest.main()
