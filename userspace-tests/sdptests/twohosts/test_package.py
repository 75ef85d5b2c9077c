# SPDX-License-Identifier: MIT
"""Tests of the imports of all programs and modules in Python."""

from __future__ import annotations

import ast
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from sdptests import checkout

LEFT_OUT = {"target", "src", "java"}
SEARCH_PATH = "sys" + ".path"


def sources() -> Iterator[Path]:
    """All files in Python below userspace-tests."""
    for path in sorted(checkout.TESTS.rglob("*")):
        if LEFT_OUT.isdisjoint(path.relative_to(checkout.TESTS).parts) and path.is_file():
            with path.open("rb") as file:
                first = file.readline(60)
            if path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first):
                yield path


def modules(tree: ast.Module) -> Iterator[str]:
    """The names of all imported modules, without names that `from` imports from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def is_there(name: str) -> bool:
    """Whether the package has this module."""
    path = checkout.TESTS.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


class Imports(unittest.TestCase):
    """One package, and absolute imports."""

    def test_imports_are_of_pythons_library_or_of_the_package(self) -> None:
        """A name means the same wherever it is imported."""
        for path in sources():
            for name in modules(ast.parse(path.read_text())):
                top = name.partition(".")[0]
                with self.subTest(path=str(path), name=name):
                    self.assertTrue(
                        is_there(name) if top == "sdptests" else top in sys.stdlib_module_names
                    )

    def test_only_programs_change_the_search_path_and_once(self) -> None:
        """For the folder of the package."""
        for path in sources():
            text = path.read_text()
            with self.subTest(path=str(path)):
                most = 0 if checkout.TESTS / "sdptests" in path.parents else 1
                self.assertLessEqual(text.count(SEARCH_PATH), most)


if __name__ == "__main__":
    unittest.main()
