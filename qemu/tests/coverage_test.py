# SPDX-License-Identifier: GPL-2.0
"""Tests of the report on blocks that ran."""

import importlib.machinery
import importlib.util
import os
import struct
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")


def program():
    """The report, which is a program without a suffix."""
    loader = importlib.machinery.SourceFileLoader("report", os.path.join(TOP, "userspace-tests/coverage/report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
    loader.exec_module(module)
    return module


report = program()


def module(sections):
    """An ELF file with these sections: name, flags, size, alignment."""
    names = b"\0".join(name.encode() for name, *_ in sections) + b"\0"
    begin = 64
    headers, at = b"", 0
    for name, flags, size, align in sections:
        headers += struct.pack("<2I4Q2I2Q", at, 1, flags, 0, 0, size, 0, 0, align, 0)
        at += len(name) + 1
    headers += struct.pack("<2I4Q2I2Q", 0, 3, 0, 0, begin, len(names), 0, 0, 1, 0)
    count = len(sections) + 1
    head = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", begin + len(names))
    return head.ljust(58, b"\0") + struct.pack("<3H", 64, count, count - 1) + names + headers


class ReportTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = place.name

    def write(self, name, data):
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(data)

    def test_sections_lie_as_the_kernel_places_them(self):
        self.write("sdp.ko", module([(".text", 6, 101, 16), (".data", 3, 50, 8), (".init.text", 6, 12, 16),
                                     (".exit.text", 6, 7, 16), (".text.unlikely", 6, 5, 1)]))
        self.assertEqual(report.layout(os.path.join(self.directory, "sdp.ko")),
                         {".text": ("text", 0), ".init.text": ("init", 0), ".exit.text": ("text", 112),
                          ".text.unlikely": ("text", 119)})

    def test_notes_of_all_guests_count(self):
        self.write("1.a.sdp.text", b"\x01\x00")
        self.write("2.a.sdp.text", b"\x00\x80")
        self.write("2.a.rlo.text", b"\xff")
        self.assertEqual(report.reached(self.directory, "sdp"), {"text": {0, 15}, "init": set()})

    def test_functions_without_a_block_that_ran(self):
        counts = report.Counts()
        path = os.path.relpath(os.path.join(self.directory, "x.rs"), report.TOP)
        self.write("x.rs", b"fn ran() {\n  a();\n}\n\n    pub(crate) unsafe fn never(&self) {\n  b();\n  c();\n}\n")
        for line, ran in ((2, True), (2, False), (6, False), (7, False)):
            counts.add(line, ran)
        self.assertEqual(list(report.functions(path, counts)), [(5, "never", 2)])
        self.assertEqual(counts.row(), (1, 4, 1, 3))


if __name__ == "__main__":
    unittest.main()
