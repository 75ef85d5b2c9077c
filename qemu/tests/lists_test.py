# SPDX-License-Identifier: GPL-2.0
"""Tests of the lists, and of the entries that share a guest."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import lists  # noqa: E402

TEXT = """\
# about
first  netns rlo -        ./run first
+ second rxe ./run second --more
third  two   rxe a,module:b ./third
"""


def parsed(text=TEXT):
    return lists.parse(text.splitlines(keepends=True), "x.list")


class ListsTest(unittest.TestCase):
    def test_a_line_is_an_entry(self):
        self.assertEqual(parsed()[2], lists.Entry("third", "two", "rxe", ("a", "module:b"), "./third", "third"))

    def test_a_line_with_a_plus_shares_the_guest(self):
        self.assertEqual(parsed()[1], lists.Entry("second", "netns", "rxe", (), "./run second --more", "first"))
        self.assertEqual([[entry.name for entry in guest] for guest in lists.guests(parsed())],
                         [["first", "second"], ["third"]])

    def test_a_set_of_packages_stands_for_its_packages(self):
        sets = lists.parse_sets(["# about\n", "\n", "web nginx wrk\n"])
        [entry] = lists.parse(["a netns rlo x,@web,module:m ./a\n"], "x.list", sets)
        self.assertEqual(entry.needs, ("x", "nginx", "wrk", "module:m"))
        with self.assertRaisesRegex(lists.Wrong, "x.list:1: packages.list has no set mail"):
            lists.parse(["a netns rlo @mail ./a\n"], "x.list", sets)

    def test_one_that_is_picked_has_a_guest_of_its_own(self):
        chosen = lists.picked(parsed(), ["second", "third"])
        self.assertEqual([[entry.name for entry in guest] for guest in lists.guests(chosen)], [["second"], ["third"]])

    def test_the_device_of_a_guest_is_that_of_its_entries(self):
        first, second, third = parsed()
        self.assertEqual([lists.device(some) for some in ([first], [second, third], [first, second], [second, first])],
                         ["rlo", "rxe", "rlo", "both"])

    def test_only_the_base_kernel_gives_way_to_that_of_the_call(self):
        entries = lists.on_kernel_of_call(parsed("a netns rlo x,kernel:base ./a\nb netns rlo kernel:stock ./b\n"))
        self.assertEqual([entry.needs for entry in entries], [("x",), ("kernel:stock",)])

    def test_what_is_wrong_is_named_with_its_place(self):
        for wrong in ("a netns -", "a lan rxe - b", "a netns siw - b", "a two rlo - b", "+ b rxe c",
                      "a netns rxe - b\n+ c", "a netns rxe - b\na netns rxe - b"):
            with self.subTest(wrong), self.assertRaisesRegex(lists.Wrong, "^x.list:[12]: "):
                parsed(wrong + "\n")
        with self.assertRaisesRegex(lists.Wrong, "fourth"):
            lists.picked(parsed(), ["fourth"])

    def test_the_lists_of_the_repository_can_be_read(self):
        directory = os.path.join(HERE, "..", "..", "userspace-tests")
        self.assertTrue(lists.read(directory, "suite.list", "soak.list"))
        self.assertTrue(lists.read(directory, "apps.list"))


if __name__ == "__main__":
    unittest.main()
