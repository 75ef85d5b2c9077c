# SPDX-License-Identifier: GPL-2.0
"""A kernel that is a process of the host (User Mode Linux), with one processor.

Its processor time is the host's, its instructions are native, and with simulated time its clock jumps
over all waits.
"""

import fcntl
import mmap
import os
import sys

from machine import BOUND, MEMORY, Machine
from processor_time import Meter

# Modules lie behind the memory of the machine, and Rust code calls the kernel's functions at a
# distance of at most 2 GiB.
MAXIMUM_MEMORY = 1900

# A host that forbids the faster way of system calls gets the slower one.
KERNEL = "root=root rootfstype=hostfs ro init=/first-stage seccomp=auto stderr=1 con=null"

# The guest's terminal for questions about its processor time.
METER = "/dev/tty3"

# The log must not wait for its reader.
PIPE_BYTES = 1 << 20


def memory_directory(wanted, fallback):
    """A directory for the file that is the machine's memory: in memory itself, if that has room and
    lets pages be executed."""
    shm = "/dev/shm"
    try:
        room = os.statvfs(shm)
        if room.f_bavail * room.f_frsize < wanted << 20:
            return fallback
        with open(os.path.join(shm, f"sdp-probe-{os.getpid()}"), "xb+") as file:
            os.unlink(file.name)
            file.truncate(mmap.PAGESIZE)
            mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    except OSError:
        return fallback
    return shm


class Native(Machine):
    """A guest that is a process of the host."""

    def __init__(self, name, directory, settings):
        super().__init__(name, directory, settings)
        # The other ends of pipes that nothing comes from.
        self.inputs = []

    @property
    def memory(self):
        """In MiB."""
        return self.settings.memory or min(MEMORY, MAXIMUM_MEMORY)

    def arguments(self, terminals):
        """The command. Of each of the terminals, for the log, both outputs, and questions about processor time,
        there are the descriptors of two pipes: that of its input, which is silent but for answers, and that of its
        output."""
        s = self.settings
        words = [s.vmlinux, f"mem={self.memory}M", *KERNEL.split(),
                 *(f"con{number}=fd:{silent},fd:{to}" for number, (silent, to) in enumerate(terminals)),
                 # Control files of the process.
                 f"uml_dir={self.path('')}", "umid=control", *self.kernel_arguments().split(),
                 f"rootflags={os.path.realpath(s.root)}"]
        if s.simulated:
            words.append("time-travel")
        # What the kernel does not know goes to the first program's environment.
        for name, path in (("sdp", s.checkout), ("target", s.target), ("run", self.path("run")), ("share", s.share)):
            if path:
                words.append(f"hostfs_{name}={os.path.realpath(path)}")
        return words

    def start(self, prefix, out, err):
        """Starts the kernel; the command's output goes to the files OUT and ERR."""
        # Terminals of the kernel take pipes, but no files, for their input as well. What the kernel
        # says before it has terminals goes to its error output.
        log = os.open(self.path("console"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        terminals = []
        for sink in (log, out, err):
            silent, unused = os.pipe()
            self.inputs.append(unused)
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self.pump_to(reader, sink)
            terminals.append((silent, writer))
        if self.settings.pin is not None:
            prefix = [*prefix, "taskset", "-c", str(self.settings.pin)]
            questions, asked = os.pipe()
            answered, answers = os.pipe()
            terminals.append((answered, asked))
        ends = [end for terminal in terminals for end in terminal]
        directory = memory_directory(self.memory, self.path(""))
        self.spawn(prefix + BOUND + self.arguments(terminals), pass_fds=ends, env=dict(os.environ, TMPDIR=directory))
        for end in ends:
            os.close(end)
        if self.settings.pin is not None:
            Meter(self.process.pid, self.settings.system_map, self.settings.profile).serve(questions, answers)


def check(settings):
    """Ends the program if a native kernel cannot do what is asked for."""
    def refuse(why):
        sys.exit(f"[sdp] error: -k {settings.kernel}: {why}")

    if settings.topology == "two":
        refuse("two machines need an emulated kernel")
    if settings.cpus not in (None, 1):
        refuse("a native kernel has one processor")
    if settings.counts:
        refuse("instructions are counted by the emulator")
    if (settings.memory or 0) > MAXIMUM_MEMORY:
        refuse(f"at most {MAXIMUM_MEMORY} MiB of memory")
    if os.uname().machine != "x86_64":
        refuse("native kernels are built for x86-64 only")
    for path in (settings.root, settings.checkout, settings.target, settings.share):
        if path and set(path) & set(" ,\"'\t\n"):
            refuse(f"blanks, commas and quotes in a path are not supported: {path}")
