# SPDX-License-Identifier: GPL-2.0
"""The processor time of a native kernel, as the host has it.

A guest that asks over a terminal gets two numbers, in ns: the processor time of all processes of the
machine, and the part of it that the guest's kernel took for its own work. The second one leaves out what a
kernel on a machine would not do: calls of the host, and the changes between the kernel and the processes of
its programs. It is estimated by samples.
"""

import bisect
import collections
import ctypes
import functools
import mmap
import os
import re
import select
import struct
import threading

# perf_event_open(2) on x86-64, and what is asked for: samples of the instruction pointer and its callers in
# user mode.
_PERF_EVENT_OPEN = 298
_TYPE_SOFTWARE, _CPU_CLOCK, _SAMPLE_CALLERS = 1, 0, 1 << 5
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _FREQUENCY = 1 << 5, 1 << 6, 1 << 10
_ATTR_BYTES, _HEAD_AT = 112, 1024
_RECORD_LOST, _RECORD_THROTTLE, _RECORD_UNTHROTTLE, _RECORD_SAMPLE = 2, 5, 6, 9
# Numbers above are marks between addresses.
_MARKS = (1 << 64) - 4096
# What a process without privileges may have, and the seconds after which it is emptied.
_RING_PAGES, _EMPTIED = 128, 0.05
SAMPLES_PER_SECOND = 10_000
# The host stops samples that cost too much until its next tick, or the next turn of the process.
_THROTTLED_AT_MOST_NS = 10_000_000

# Functions by which User Mode Linux is a process: a change to a program and back, a signal for an
# interrupt, and calls of the host. Names are exact where the kernel's own functions begin in the same way.
# The compiler splits parts off functions, whose names end in a dot and more.
_OF_THE_PROCESS = re.compile(
    r"(userspace|(__)?syscall_stub_.*|stub_.*|(current|get|set)_stub_.*|init_stub_exe_fd|handle_syscall|syscall"
    r"|__syscall_cancel.*|interrupt_end|relay_signal|.*_turnstile"
    r"|current_mm_sync|singlestepping|os_.*|segv.*|sig_handler(_common)?|hard_handler|.*time_travel.*"
    r"|switch_threads|__switch_to"
    r"|_?_?(sig)?(set|long)jmp|kernel_(set|long)jmp|__futex_(abstimed_wait.*|lock_pi64)|do_syscall.*|um_idle.*"
    r"|arch_switch.*"
    r"|(to|from)_irq_stack|(get|put)_fp.*|new_thread.*|fork_handler|mcontext.*|__errno_location|get_regs_from_mc"
    r"|ptrace(_getregs|_setregs|_dump_regs)?|PT_.*|seccomp_helper|wait_stub_done.*|clock_(gettime|nanosleep)"
    r"|timer_(handler|read|alarm_pending|set_signal_handler|create|settime|helper_thread|sigev_thread)"
    r"|.*alarm_handler|__GI_.*|__libc.*|um_timer.*|um_(set|get)_signals|(un)?block_signals.*|uml_curr_cpu)(\..*)?$"
)


@functools.cache
def of_the_process(name, caller=None):
    """Whether a function is one by which the kernel is a process.

    So is the copy of a program's registers. memcpy() has no frame, so the samples have not the function that calls
    it, but that one's caller.
    """
    return bool(_OF_THE_PROCESS.match(name)) or (caller == "userspace" and name.startswith("memcpy"))


class Symbols:
    """The functions of a kernel's image."""

    def __init__(self, system_map):
        with open(system_map) as file:
            rows = (line.split() for line in file)
            found = sorted((int(address, 16), name) for address, kind, name in rows if kind in "tTwW")
        self.addresses = [address for address, _name in found]
        self.names = [name for _address, name in found]

    def _name(self, address):
        """Modules lie before the image or beyond it."""
        index = bisect.bisect_right(self.addresses, address) - 1
        return self.names[index] if index >= 0 else ""

    def counts(self, chain):
        """Whether a sample is one of the kernel's own work: its addresses, the innermost one first."""
        innermost, caller = [self._name(address) for address in chain[:2]] + [""] * (2 - len(chain[:2]))
        return not of_the_process(innermost, caller)


class Sampler:
    """Samples of one process in user mode."""

    def __init__(self, pid):
        attributes = bytearray(_ATTR_BYTES)
        flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | _FREQUENCY
        struct.pack_into("=IIQQQQQ", attributes, 0, _TYPE_SOFTWARE, _ATTR_BYTES, _CPU_CLOCK, SAMPLES_PER_SECOND,
                         _SAMPLE_CALLERS, 0, flags)
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.syscall(_PERF_EVENT_OPEN, bytes(attributes), pid, -1, -1, 0)
        if number < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        self.size = _RING_PAGES * mmap.PAGESIZE
        self.ring = mmap.mmap(number, mmap.PAGESIZE + self.size)
        self.tail = 0
        self.throttled_at = None
        # Samples that the host did not take, or had no room for.
        self.lost = 0

    def _bytes(self, at, length):
        at %= self.size
        first = self.ring[mmap.PAGESIZE + at:mmap.PAGESIZE + min(at + length, self.size)]
        return first + self.ring[mmap.PAGESIZE:mmap.PAGESIZE + length - len(first)]

    def chains(self):
        """The samples since the last call: addresses, the innermost one first."""
        head = struct.unpack_from("=Q", self.ring, _HEAD_AT)[0]
        while self.tail < head:
            kind, _misc, length = struct.unpack("=IHH", self._bytes(self.tail, 8))
            words = struct.unpack(f"={(length - 8) // 8}Q", self._bytes(self.tail + 8, length // 8 * 8 - 8))
            if kind == _RECORD_SAMPLE:
                yield tuple(address for address in words[1:] if address < _MARKS)
            elif kind == _RECORD_LOST:
                self.lost += words[1]
            elif kind == _RECORD_THROTTLE:
                self.throttled_at = words[0]
            elif kind == _RECORD_UNTHROTTLE and self.throttled_at is not None:
                stopped = min(words[0] - self.throttled_at, _THROTTLED_AT_MOST_NS)
                self.lost += stopped * SAMPLES_PER_SECOND // 10**9
                self.throttled_at = None
            self.tail += length
        struct.pack_into("=Q", self.ring, _HEAD_AT + 8, self.tail)


def _processes(pid):
    """A process and its descendants."""
    found = [pid]
    for one in found:
        try:
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
        except OSError:
            continue
    return found


def _thread(process, thread):
    """A thread's identity, which is no number of it alone because numbers are used again, and its processor time."""
    place = f"/proc/{process}/task/{thread}"
    with open(f"{place}/stat") as file:
        started = file.read().rpartition(")")[2].split()[19]
    with open(f"{place}/schedstat") as file:
        return (thread, started), int(file.read().split()[0])


class Meter:
    """Answers a guest's questions about the processor time of its processes."""

    def __init__(self, pid, system_map, profile=None):
        """The file PROFILE, if there is one, gets the samples between two marks of the guest."""
        self.pid = pid
        self.own_ns = 0
        # By thread; an ended one keeps its last time.
        self.used = {}
        self.profile = profile
        self.stacks = None
        self.symbols = Symbols(system_map)
        try:
            self.sampler = Sampler(pid)
        except OSError:
            self.sampler = None

    def processor_ns(self):
        """Of all processes that there are, or were when it was last looked at them."""
        for one in _processes(self.pid):
            try:
                self.used.update(_thread(one, thread) for thread in os.listdir(f"/proc/{one}/task"))
            except OSError:
                continue
        return sum(self.used.values())

    def take(self):
        """Takes the samples that there are. Lost ones count as those beside them."""
        if self.sampler is None:
            return
        own = count = 0
        for chain in self.sampler.chains():
            count += 1
            own += bool(chain and self.symbols.counts(chain))
            if self.stacks is not None:
                self.stacks[chain] += 1
        if count:
            own += self.sampler.lost * own // count
            self.sampler.lost = 0
        self.own_ns += own * 10**9 // SAMPLES_PER_SECOND

    def answer(self, question):
        """What the guest is told: the processor time, and that of the kernel's own work, which is -1 if the
        host allows no samples. `[` and `]` mark the beginning and the end of a profile."""
        self.take()
        if question == b"[" and self.profile:
            self.stacks = collections.Counter()
        elif question == b"]" and self.stacks is not None:
            with open(self.profile, "w") as file:
                file.writelines(f"{count} {' '.join(f'{address:x}' for address in chain)}\n"
                                for chain, count in self.stacks.most_common())
            self.stacks = None
        return f"{self.processor_ns()} {self.own_ns if self.sampler else -1}\n"

    def serve(self, questions, answers):
        """Answers each byte, in a thread of its own, which ends with the guest."""
        def loop():
            while True:
                ready, _, _ = select.select([questions], [], [], _EMPTIED)
                if not ready:
                    self.take()
                    self.processor_ns()
                    continue
                question = os.read(questions, 1)
                if not question:
                    return
                answer = self.answer(question).encode()
                try:
                    os.write(answers, answer)
                except BrokenPipeError:
                    return

        threading.Thread(target=loop, daemon=True).start()
