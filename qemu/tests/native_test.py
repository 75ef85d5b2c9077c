# SPDX-License-Identifier: GPL-2.0
"""Tests of the command lines of machines, and of what native kernels refuse."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

HARNESS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")
sys.path.insert(0, HARNESS)

import lists  # noqa: E402
import machine  # noqa: E402
import native  # noqa: E402
from emulated import Emulated  # noqa: E402


def settings(**more):
    """What qemu/vm would have read."""
    values = {"kernel": "native", "native": True, "topology": "netns", "cpus": None, "counts": None, "memory": None,
              "root": "/root-of-guest", "checkout": "/checkout", "target": "/target", "share": None,
              "simulated": False, "append": "ipv6.disable=1", "vmlinux": "/kernel/vmlinux", "stock": False,
              "accel": "tcg", "initrd": None, "plugin": None, "modules": None}
    return types.SimpleNamespace(**values | more)


class RefusalTest(unittest.TestCase):
    def refused(self, **more):
        with self.assertRaises(SystemExit) as caught:
            native.check(settings(**more))
        return str(caught.exception)

    def test_the_usual_is_accepted(self):
        native.check(settings())
        native.check(settings(cpus=1, memory=512))

    def test_what_a_native_kernel_lacks_is_named(self):
        self.assertIn("one processor", self.refused(cpus=2))
        self.assertIn("two machines", self.refused(topology="two"))
        self.assertIn("emulator", self.refused(counts="/file"))
        self.assertIn("1900 MiB", self.refused(memory=4096))

    def test_a_path_that_a_command_line_cannot_carry_is_named(self):
        self.assertIn("/a b", self.refused(share="/a b"))
        self.assertIn("/a,b", self.refused(checkout="/a,b"))


TERMINALS = [(3, 6), (4, 7), (5, 8)]


class ArgumentsTest(unittest.TestCase):
    def test_native(self):
        with tempfile.TemporaryDirectory() as directory:
            words = native.Native("a", directory, settings(share="/share", simulated=True)).arguments(TERMINALS)
        self.assertEqual(words[0], "/kernel/vmlinux")
        for word in ("mem=1900M", "con0=fd:3,fd:6", "con1=fd:4,fd:7", "con2=fd:5,fd:8", "time-travel", "ipv6.disable=1",
                     "hostfs_sdp=/checkout", "hostfs_share=/share", "rootflags=/root-of-guest"):
            self.assertIn(word, words)
        self.assertNotIn("kmemleak=on", words)

    def test_a_kernel_with_checks_is_told_so(self):
        with tempfile.TemporaryDirectory() as directory:
            words = native.Native("a", directory, settings(kernel="native-debug")).arguments(TERMINALS)
            self.assertIn("kmemleak=on", words)
            self.assertNotIn("time-travel", words)
            words = Emulated("a", directory, settings(kernel="debug", cpus=2)).arguments()
        self.assertIn("kmemleak=on", words[words.index("-append") + 1])
        self.assertEqual(words[words.index("-m") + 1], "2048")


class MemoryTest(unittest.TestCase):
    def test_a_directory_without_room_is_not_taken(self):
        self.assertEqual(native.memory_directory(1 << 40, "/fallback"), "/fallback")


class KilledTest(unittest.TestCase):
    def test_a_machine_dies_with_the_program_that_started_it(self):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import machine, time\n"
                  "one = machine.Machine('a', sys.argv[2], None)\n"
                  "one.spawn([*machine.BOUND, 'sleep', '1000'])\n"
                  "print(one.process.pid, flush=True); time.sleep(1000)")
        with tempfile.TemporaryDirectory() as directory:
            runner = subprocess.Popen([sys.executable, "-B", "-c", script, HARNESS, directory],
                                      stdout=subprocess.PIPE, text=True)
            with runner:
                pid = int(runner.stdout.readline())
                begun = await_that(lambda: command_of(pid).startswith("sleep"))
                runner.send_signal(signal.SIGKILL)
            self.assertTrue(begun)
            self.assertTrue(await_that(lambda: not command_of(pid)))

    def test_directories_of_killed_runs_are_removed_and_no_others(self):
        with tempfile.TemporaryDirectory() as place, unittest.mock.patch("tempfile.tempdir", place):
            dead, held = machine.fresh_directory()
            held.close()
            alive, held = machine.fresh_directory()
            foreign = tempfile.mkdtemp(prefix=machine.PREFIX)
            machine.remove_stale_directories()
            self.assertEqual([os.path.exists(path) for path in (dead, alive, foreign)], [False, True, True])
            held.close()


def await_that(happened):
    """Waits until something is true; returns whether it is."""
    end = time.monotonic() + 60
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def command_of(pid):
    """The command line of a process; empty if it has ended, and for a moment when it begins a program."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


class LogTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.machine = machine.Machine("a", place.name, None)

    def test_a_log_without_end_is_cut_off(self):
        self.assertIsNone(self.machine.trouble())
        with open(self.machine.path("console"), "w") as log:
            log.truncate(machine.LOG_LIMIT)
            self.assertIsNone(self.machine.trouble())
            log.truncate(machine.LOG_LIMIT + 1)
        self.assertIn("64 MiB", self.machine.trouble())

    def test_a_log_that_cannot_be_written_is_named_and_the_guest_goes_on(self):
        reader, writer = os.pipe()
        with open("/dev/full", "wb", buffering=0) as full:
            self.machine.pump_to(reader, full.fileno())
            os.write(writer, b"x" * 1000)
            os.write(writer, b"x" * 1000)
            os.close(writer)
            self.machine.drain()
        self.assertIn(os.strerror(errno.ENOSPC), self.machine.trouble())

    def test_a_reader_that_has_gone_is_no_trouble(self):
        reader, writer = os.pipe()
        gone, sink = os.pipe()
        os.close(gone)
        self.machine.pump_to(reader, sink)
        os.write(writer, b"x")
        os.close(writer)
        self.machine.drain()
        self.assertIsNone(self.machine.trouble())


class KernelTest(unittest.TestCase):
    def entries(self, needs):
        return lists.parse([f"x netns rlo {needs} ./x"], "list")

    def test_a_list_names_its_kernel_and_a_call_replaces_it(self):
        entries = self.entries("kernel:native-debug,time:simulated,module:peer")
        self.assertEqual(lists.kernel(entries, "debug"), "native-debug")
        entries = lists.on_kernel_of_call(entries)
        self.assertEqual((lists.kernel(entries, "debug"), entries[0].needs), ("debug", ("module:peer",)))

    def test_a_host_without_native_kernels_keeps_the_others(self):
        entries = lists.on_emulated_kernels(self.entries("kernel:native-debug,time:simulated,module:peer"))
        self.assertEqual((lists.kernel(entries, "debug"), entries[0].needs), ("debug", ("module:peer",)))
        entries = lists.on_emulated_kernels(self.entries("kernel:base"))
        self.assertEqual(lists.kernel(entries, "debug"), "base")

    def test_the_kernel_of_a_distribution_stays(self):
        entries = lists.on_kernel_of_call(self.entries("kernel:stock"))
        self.assertEqual(lists.kernel(entries, "debug"), "stock")


if __name__ == "__main__":
    unittest.main()
