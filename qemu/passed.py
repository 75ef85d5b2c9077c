# SPDX-License-Identifier: GPL-2.0
"""Remembers passed tests, so that they are not repeated while their inputs are unchanged."""

import hashlib
import os
import time


def key(directories, *more):
    """A hash of all files below these directories, and of other text."""
    total = hashlib.sha256()
    for directory in directories:
        for path, names, files in sorted(os.walk(directory)):
            names[:] = [name for name in names if name != "__pycache__"]
            for name in sorted(files):
                file = os.path.join(path, name)
                with open(file, "rb") as content:
                    found = hashlib.sha256(content.read()).hexdigest()
                total.update(f"{os.path.relpath(file, directory)} {found}\n".encode())
    for text in more:
        total.update(f"{text}\n".encode())
    return total.hexdigest()[:16]


class Passed:
    """The record of a passed test, by its name and its key."""

    def __init__(self, cache, name, value):
        self.path = os.path.join(cache, "passed", f"{name}-{value}")

    def when(self):
        """The date and time of the pass, or None."""
        try:
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(self.path).st_mtime))
        except OSError:
            return None

    def tests(self):
        """The number of passed tests."""
        with open(self.path) as file:
            return int(file.read())

    def remember(self, tests):
        """Records that so many tests have passed now."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w") as file:
            file.write(f"{tests}\n")
