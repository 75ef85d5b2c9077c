# SPDX-License-Identifier: GPL-2.0
"""Tests of the judge of the kernel log, with real logs."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

import judge  # noqa: E402

CLEAN = """\
[    0.000000] Linux version 7.3.4
[    0.005000] x86/fpu: x87 FPU will use FXSAVE
[    2.100000] virtio-mmio: Registering device virtio-mmio.0
[    9.470759] rdma_rxe: loaded
[   10.000000] sdp: loading out-of-tree module taints kernel.
[   12.000000] infiniband rxea: set active
"""

# One line of each kind that must be reported, in the kernel's words.
KINDS = """\
BUG: kernel NULL pointer dereference, address: 0000000000000008
BUG: KASAN: slab-use-after-free in sdp_x+0x1/0x2 [sdp]
BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580
BUG: scheduling while atomic: insmod/99/0x00000002
BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 30s!
kernel BUG at lib/list_debug.c:29!
Oops: general protection fault, probably for non-canonical address
WARNING: at commit_warn+0xb/0x20 [faults], CPU#1: insmod/117
WARNING: possible circular locking dependency detected
WARNING: suspicious RCU usage
WARNING: inconsistent lock state
UBSAN: shift-out-of-bounds in x.c:3:4
ODEBUG: free active (active state 0) object: 01 object type: timer_list
refcount_t: underflow; use-after-free.
INFO: task sdp_x:99 blocked for more than 60 seconds.
watchdog: BUG: soft lockup - CPU#0 stuck for 52s! [x:1]
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
ref_tracker: net notrefcnt@000 has 1/1 users at
unregister_netdevice: waiting for va to become free. Usage count = 2
Kernel panic - not syncing: Attempted to kill init!
list_add corruption. prev->next should be next
rust_kernel: panicked at x.rs:3:4:
kmemleak: Memory pool empty, consider increasing CONFIG_DEBUG_KMEMLEAK_MEM_POOL_SIZE, kmemleak disabled
Out of memory: Killed process 99 (x)
Call Trace:
INFO: lockdep is turned off.
""".splitlines()

LEAKS = """\
unreferenced object 0xffff88810007e620 (size 8):
  comm "swapper/0", pid 0, jiffies 4294892347
  backtrace (crc bea23b04):
    kmemleak_alloc+0x23/0x30
    start_kernel+0x277/0x310
unreferenced object 0xffff888008a76400 (size 256):
  comm "insmod", pid 91, jiffies 4294901096
  backtrace (crc 6f58b10b):
    kmemleak_alloc+0x23/0x30
    0xffffffffa0000349
    do_one_initcall+0x184/0x360
"""

SYMBOLS = """\
ffffffffa0000300 t lose\t[sdp]
ffffffffa0000400 t other\t[sdp]
"""


class LogTest(unittest.TestCase):
    def test_clean_log_has_no_report(self):
        self.assertEqual(judge.judge(CLEAN), [])

    def test_every_kind_is_a_report(self):
        for kind in KINDS:
            with self.subTest(kind):
                found = judge.judge(CLEAN + f"[   13.000000] {kind}\n")
                self.assertEqual(len(found), 1, kind)
                self.assertIn(kind, found[0])

    def test_printk_caller_is_understood(self):
        self.assertEqual(len(judge.judge("[   13.000000][  T123] WARNING: at x\n")), 1)

    def test_line_after_unfinished_output_is_seen(self):
        self.assertEqual(len(judge.judge("half a line[   13.000000] WARNING: at x\n")), 1)

    def test_output_of_programs_is_not_the_kernels(self):
        self.assertEqual(judge.judge("WARNING: BW peak won't be measured\nBUG: in my program\n"), [])

    def test_trap_of_a_program_is_none_and_of_the_kernel_is_one(self):
        for trap in ("trap invalid opcode", "trap stack segment", "general protection fault"):
            with self.subTest(trap):
                program = f"[   13.000000] traps: node[812] {trap} ip:55d0 sp:7ffc error:0 in node[55d0,55d0+1000]\n"
                self.assertEqual(judge.judge(CLEAN + program), [])
        kernel = "[   13.000000] Oops: invalid opcode: 0000 [#1] SMP KASAN\n"
        self.assertEqual(len(judge.judge(CLEAN + kernel)), 1)

    def test_report_has_its_head_and_its_trace(self):
        log = CLEAN + "".join(f"[   13.00000{i}] {line}\n" for i, line in enumerate((
            "------------[ cut here ]------------", "a warning to order", "WARNING: at commit_warn+0xb/0x20",
            "Call Trace:", " <TASK>", " do_one_initcall+0x184/0x360", "---[ end trace 0000000000000000 ]---",
            "something else")))
        self.assertEqual([(report[0], report[1], report[-1]) for report in judge.judge(log)], [
            ("------------[ cut here ]------------", "a warning to order", "---[ end trace 0000000000000000 ]---")])

    def test_two_reports_are_two(self):
        log = "[   13.000000] WARNING: at x\n[   13.000001] ---[ end trace 0 ]---\n[   13.000002] WARNING: at y\n"
        self.assertEqual(len(judge.judge(log)), 2)

    def test_requested_failure_is_none(self):
        log = ("[   13.000000] FAULT_INJECTION: forcing a failure.\n[   13.000001] name failslab, interval 1\n"
               "[   13.000002] Call Trace:\n[   13.000003]  should_fail_ex+0x1/0x2\n")
        self.assertEqual(judge.judge(log), [])

    def test_tracker_without_memory_is_none(self):
        log = "[   13.000000] ref_tracker: memory allocation failure, unreliable refcount tracker.\n"
        self.assertEqual(judge.judge(CLEAN + log), [])

    def test_full_cgroup_is_none_and_a_full_machine_is_one(self):
        log = ("[   13.000000] python3 invoked oom-killer: gfp_mask=0xcc0, order=0\n"
               "[   13.000002] Call Trace:\n[   13.000003]  dump_header+0x1/0x2\n")
        cgroup = "[   13.000004] Memory cgroup out of memory: Killed process 70 (python3)\n"
        machine = "[   13.000004] Out of memory: Killed process 70 (python3)\n"
        self.assertEqual(judge.judge(log + cgroup), [])
        self.assertEqual(len(judge.judge(log + machine)), 1)

    def test_what_a_requested_failure_breaks_is_reported(self):
        log = ("[   13.000000] FAULT_INJECTION: forcing a failure.\n[   13.000002] Call Trace:\n"
               "[   13.000003] WARNING: at sdp_x\n")
        self.assertEqual(len(judge.judge(log)), 1)


class OtherTest(unittest.TestCase):
    def test_leak_is_a_report_and_the_kernels_own_is_not(self):
        found = judge.judge(CLEAN, LEAKS)
        self.assertEqual(len(found), 1)
        self.assertIn("0xffff888008a76400", found[0][0])

    def test_leaks_from_one_place_are_one_report(self):
        again = LEAKS[LEAKS.rindex("unreferenced"):].replace("a76400", "a76600")
        found = judge.judge(CLEAN, LEAKS + again * 2)
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0][-1], "  and 2 more from the same place")

    def test_leak_gets_its_name_back(self):
        found = judge.judge(CLEAN, LEAKS, symbols=SYMBOLS)
        self.assertIn("    lose [sdp]+0x49", found[0])

    def test_fault_of_the_guest_is_a_report(self):
        self.assertEqual(judge.judge(CLEAN, faults="module sdp cannot be unloaded\n"),
                         [["module sdp cannot be unloaded"]])


if __name__ == "__main__":
    unittest.main()
