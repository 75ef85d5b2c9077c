# SPDX-License-Identifier: GPL-2.0
"""Tests of the host's answers about the processor time of a native kernel."""

import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import processor_time  # noqa: E402

MAP = """\
0000000060001000 T os_idle_sleep
0000000060002000 T tcp_sendmsg
0000000060003000 t handle_syscall
0000000060003500 D data
0000000060004000 T memcpy
0000000060005000 t userspace
"""


OWN, OF_THE_PROCESS = 0x60002004, 0x60003004


def record(kind, *words):
    """A record of perf's ring."""
    return struct.pack(f"=IHH{len(words)}Q", kind, 0, 8 + 8 * len(words), *words)


def sample(address):
    """The sample of a function that has no caller."""
    return record(9, 1, address)


def sampler(*records):
    """A sampler that finds these records."""
    one = object.__new__(processor_time.Sampler)
    one.size = mmap.PAGESIZE
    content = b"".join(records)
    one.ring = bytearray(mmap.PAGESIZE) + bytearray(content.ljust(one.size, b"\0"))
    struct.pack_into("=Q", one.ring, 1024, len(content))
    one.tail, one.throttled_at, one.lost = 0, None, 0
    return one


class MeterTest(unittest.TestCase):
    def setUp(self):
        self.map = tempfile.NamedTemporaryFile("w")
        self.addCleanup(self.map.close)
        self.map.write(MAP)
        self.map.flush()

    def test_calls_of_the_host_are_not_the_kernels_own_work(self):
        symbols = processor_time.Symbols(self.map.name)
        self.assertFalse(symbols.counts((0x60001004,)))
        self.assertTrue(symbols.counts((0x60002004,)))
        self.assertFalse(symbols.counts((0x60003004,)))
        # A module.
        self.assertTrue(symbols.counts((0x1000,)))

    def test_functions_of_the_process_are_told_from_the_kernels_of_similar_names(self):
        for name in ("timer_handler", "timer_handler.cold", "timer_read", "timer_alarm_handler", "timer_settime",
                     "timer_real_alarm_handler", "clock_gettime", "clock_nanosleep", "__futex_lock_pi64",
                     "__futex_abstimed_wait_common", "ptrace", "ptrace_getregs", "sig_handler_common",
                     "seccomp_helper", "syscall_stub_flush", "stub_signal_interrupt", "wait_stub_done_seccomp"):
            self.assertTrue(processor_time.of_the_process(name), name)
        for name in ("timer_delete", "timer_delete_sync", "timer_reduce", "timer_init_key", "timer_shutdown_sync",
                     "clock_was_set", "clock_t_to_jiffies", "__futex_wait", "__futex_queue", "ptrace_stop.part.0",
                     "ptrace_may_access", "sig_get_ucounts", "seccomp_filter_release", "__probestub_tcp_probe",
                     "dma_fence_get_stub", "tcp_sendmsg"):
            self.assertFalse(processor_time.of_the_process(name), name)

    def test_a_copy_of_a_programs_registers_is_of_the_process_and_no_other_one(self):
        self.assertTrue(processor_time.of_the_process("memcpy_orig", "userspace"))
        self.assertFalse(processor_time.of_the_process("memcpy_orig", "tcp_sendmsg"))
        self.assertFalse(processor_time.of_the_process("memcpy_orig"))
        self.assertFalse(processor_time.of_the_process("tcp_sendmsg", "userspace"))
        symbols = processor_time.Symbols(self.map.name)
        self.assertFalse(symbols.counts((0x60004004, 0x60005004)))
        self.assertTrue(symbols.counts((0x60004004, 0x60002004)))

    def test_the_time_is_that_of_the_process(self):
        one = processor_time.Meter(os.getpid(), self.map.name)
        before = one.processor_ns()
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        # The host counts the time of a running thread at its ticks, and when it sleeps.
        time.sleep(0.001)
        self.assertGreaterEqual(one.processor_ns() - before, 90_000_000)

    def test_a_question_is_answered_with_two_numbers(self):
        questions, asks = os.pipe()
        answers, writes = os.pipe()
        processor_time.Meter(os.getpid(), self.map.name).serve(questions, writes)
        os.write(asks, b"?")
        whole, kernel = map(int, os.read(answers, 100).split())
        self.assertGreater(whole, 0)
        self.assertGreaterEqual(kernel, -1)
        os.close(asks)

    def meter(self, *records, profile=None):
        """One whose guest was sampled so."""
        one = processor_time.Meter(os.getpid(), self.map.name, profile)
        one.sampler = sampler(*records)
        return one

    def test_samples_are_time(self):
        one = self.meter(sample(OWN), sample(OF_THE_PROCESS), sample(OWN))
        one.take()
        self.assertEqual(one.own_ns, 200_000)

    def test_lost_samples_are_as_those_beside_them(self):
        one = self.meter(sample(OWN), sample(OF_THE_PROCESS), record(2, 7, 10))
        one.take()
        self.assertEqual(one.own_ns, 600_000)
        one.take()
        self.assertEqual(one.own_ns, 600_000)

    def test_samples_lost_alone_wait_for_others(self):
        one = self.meter(record(2, 7, 10))
        one.take()
        self.assertEqual(one.own_ns, 0)
        one.sampler.ring = sampler(record(2, 7, 10), sample(OWN)).ring
        one.take()
        self.assertEqual(one.own_ns, 1_100_000)

    def test_time_without_samples_counts_up_to_a_tick(self):
        one = self.meter(sample(OWN), record(5, 10**9, 7, 7), record(6, 10**9 + 2_000_000, 7, 7))
        one.take()
        self.assertEqual(one.own_ns, 2_100_000)
        one = self.meter(sample(OWN), record(5, 10**9, 7, 7), record(6, 3 * 10**9, 7, 7))
        one.take()
        self.assertEqual(one.own_ns, 10_100_000)

    def test_a_mark_without_a_profile_keeps_no_samples(self):
        one = self.meter(sample(OWN))
        one.answer(b"[")
        one.sampler.tail = 0
        one.answer(b"?")
        self.assertIsNone(one.stacks)

    def test_a_profile_has_the_samples_between_two_marks(self):
        with tempfile.NamedTemporaryFile() as file:
            one = self.meter(sample(OWN), profile=file.name)
            one.answer(b"[")
            one.sampler.tail = 0
            one.answer(b"]")
            self.assertEqual(file.read(), b"1 60002004\n")

    def test_a_number_that_is_used_again_is_another_thread(self):
        one = self.meter()
        times = iter([(("8", "100"), 5), (("8", "200"), 3)])
        with mock.patch.object(processor_time, "_thread", lambda process, thread: next(times)), \
                mock.patch.object(processor_time, "_processes", lambda pid: [8]), \
                mock.patch.object(os, "listdir", lambda place: ["8"]):
            self.assertEqual(one.processor_ns(), 5)
            self.assertEqual(one.processor_ns(), 8)

    def test_a_thread_is_known_by_its_number_and_its_begin(self):
        child = subprocess.Popen(["sleep", "60"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        identity, used = processor_time._thread(child.pid, str(child.pid))
        self.assertEqual(identity[0], str(child.pid))
        self.assertGreater(int(identity[1]), 0)
        self.assertGreaterEqual(used, 0)

    def test_the_death_of_a_guest_ends_the_answers(self):
        questions, asks = os.pipe()
        answers, writes = os.pipe()
        failures = []
        with mock.patch.object(threading, "excepthook", failures.append):
            before = set(threading.enumerate())
            self.meter().serve(questions, writes)
            [thread] = set(threading.enumerate()) - before
            os.close(answers)
            os.write(asks, b"?")
            thread.join(10)
        self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
