# SPDX-License-Identifier: GPL-2.0
"""Tests of qemu/host: the installation of missing packages beside another one."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]

# What the script itself runs. Everything else is missing, above all QEMU.
TOOLS = (
    *("bash", "cat", "cut", "date", "dirname", "flock", "grep", "mkdir", "mktemp"),
    *("rm", "sed", "sha256sum", "tail", "tee", "wc"),
)

BUSY = """E: Could not get lock /var/lib/apt/lists/lock. It is held by process 123 (apt-get)
E: Unable to lock directory /var/lib/apt/lists/"""


class Installing(unittest.TestCase):
    """Fake programs say what apt-get says, and note how they were called."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.bin = self.path / "bin"
        self.bin.mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name))
        self.program("id", "echo 0")
        # Short, because `timed` also sleeps between its looks.
        self.program("sleep", f"exec {shutil.which('sleep')} 0.05")

    def program(self, name, text):
        file = self.bin / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)

    def apt(self, text):
        """apt-get is this; $turn counts its calls from 1, and $command is its command."""
        self.program(
            "apt-get",
            f"echo x >>{self.path}/turns; turn=$(wc -l <{self.path}/turns)\n"
            f'[ "$1" = -o ] && shift 2; command=$1; echo "$command" >>{self.path}/commands\n{text}',
        )

    def run_host(self):
        environment = {"PATH": str(self.bin), "HOME": str(self.path), "LC_ALL": "C"}
        # A search path without the host's own programs: the script adds the directories of root.
        return subprocess.run(
            [str(self.bin / "bash"), str(TOP / "qemu/host")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def commands(self):
        return (self.path / "commands").read_text().split()

    def test_packages_are_installed(self):
        self.apt("exit 0")
        done = self.run_host()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.commands(), ["update", "install"])

    def test_busy_lists_are_waited_for(self):
        self.apt(f"[ $turn -gt 3 ] || {{ echo '{BUSY}' >&2; exit 100; }}")
        done = self.run_host()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.commands(), ["update"] * 4 + ["install"])

    def test_a_busy_cache_of_packages_is_waited_for(self):
        busy = BUSY.replace("lib/apt/lists", "cache/apt/archives")
        self.apt(f"[ $turn != 2 ] || {{ echo '{busy}' >&2; exit 100; }}")
        done = self.run_host()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.commands(), ["update", "install", "install"])

    def test_another_failure_is_reported_at_once(self):
        self.apt("echo 'E: Unable to locate package' >&2; exit 100")
        done = self.run_host()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Unable to locate package", done.stderr)
        self.assertEqual(self.commands(), ["update"])


if __name__ == "__main__":
    unittest.main()
