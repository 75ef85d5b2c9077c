# SPDX-License-Identifier: GPL-2.0
"""What has passed before, so that it need not be repeated while nothing of it has changed."""

import hashlib
import os
import time


def key(directories, *more):
    """A name for all files below these directories, and for other text."""
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
    """Whether something has passed, by its name and its key."""

    def __init__(self, cache, name, value):
        self.path = os.path.join(cache, "passed", f"{name}-{value}")

    def when(self):
        """The day and time, or None."""
        try:
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(self.path).st_mtime))
        except OSError:
            return None

    def tests(self):
        """How many they were."""
        with open(self.path) as file:
            return int(file.read())

    def remember(self, tests):
        """So many have passed just now."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w") as file:
            file.write(f"{tests}\n")
