# SPDX-License-Identifier: GPL-2.0
"""One virtual machine: its directory, its output, its end.

A machine of QEMU (emulated.py) or a kernel that is a process of the host (native.py).
"""

import errno
import fcntl
import glob
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading

# The host allocates memory when the guest uses it. But a leak scan reads every page, so more memory
# is not better.
MEMORY = 2048

KERNEL = ("loglevel=7 printk.devkmsg=on panic=-1 oops=panic net.ifnames=0 dummy.numdummies=0 "
          # The size of memory disks, in KiB, if the kernel has them; allocated when written.
          "ramdisk_size=65536 "
          # The unit tests in a module run when it is loaded.
          "kunit.enable=1 kunit.autorun=1")

# With checks enabled, the allocator does not use its per-processor arrays of free objects. Stale
# entries there point to freed objects, and would hide up to 60 leaked objects of a size from
# kmemleak.
DEBUG_KERNEL = "kmemleak=on slab_debug=F"


# The log of a guest that prints without end. The longest ones of tests have a few MiB.
LOG_LIMIT = 64 << 20

# A kernel or QEMU does not outlive the program that started it. The user namespace comes before: to enter one
# resets this.
BOUND = ["setpriv", "--pdeathsig", "KILL", "--"]

# A run holds a lock on this file in its directory, which the kernel releases if the run is killed.
ALIVE = "alive"
PREFIX = "sdp-vm-"


def lock(path):
    """Opens a file and locks it, unless another process has."""
    file = open(path, "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def remove_stale_directories():
    """Removes directories of runs that were killed. Those without the file are not ours."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{PREFIX}*", ALIVE)):
        try:
            held = lock(path)
        except OSError:
            continue
        if held:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
            held.close()


def fresh_directory():
    """A directory for a run, and the lock that it has to keep."""
    directory = tempfile.mkdtemp(prefix=PREFIX)
    # Others see the file when it is locked.
    held = lock(os.path.join(directory, "new"))
    os.rename(held.name, os.path.join(directory, ALIVE))
    return directory, held


class Machine:
    """A guest of the harness, named a or b, with a directory shared with it."""

    def __init__(self, name, directory, settings):
        self.name = name
        self.directory = directory
        self.settings = settings
        self.process = None
        self.pumps = []
        self.killed = False
        # Why the log is not complete.
        self.incomplete = None
        os.makedirs(self.path(""), exist_ok=True)

    def path(self, name):
        return os.path.join(self.directory, self.name, name)

    def exists(self, name):
        return os.path.exists(self.path(name))

    def read(self, name):
        try:
            with open(self.path(name), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def prepare(self, module, rlo, command, environment):
        """Writes the files that the guest's init reads."""
        s = self.settings
        values = {
            "HOST": self.name, "TOPOLOGY": s.topology, "DEVICE": s.first_device,
            "LOAD": "1" if module else "", "LOAD_RLO": "1" if rlo else "", "SHARE": "1" if s.share else "",
            "UNLOAD": "" if s.no_unload else "1", "LEAK_SCAN": "" if s.no_leak_scan else "1",
            "MODULES": "1" if s.modules else "", "NATIVE": "1" if s.native else "",
            "LIMIT": str(s.limit), "UNLOAD_LIMIT": str(s.unload_limit),
        }
        with open(self.path("run/settings"), "w") as file:
            file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
        if module:
            shutil.copyfile(module, self.path("run/sdp.ko"))
        if rlo:
            shutil.copyfile(rlo, self.path("run/rlo.ko"))
        for extra in s.extra:
            shutil.copyfile(extra, self.path(os.path.join("run", os.path.basename(extra))))
        with open(self.path("run/command"), "w") as file:
            file.write("cd /mnt/share 2>/dev/null || cd /root\n" if s.share else "cd /root\n")
            file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in environment)
            file.write("exec " + shlex.join(command) + "\n")

    def kernel_arguments(self):
        """What the kernels of all machines are told."""
        s = self.settings
        return " ".join(filter(None, (KERNEL, DEBUG_KERNEL if s.kernel.endswith("debug") else "", s.append)))

    def trouble(self):
        """Why the machine must not go on, or None."""
        if not self.incomplete and self.exists("console"):
            room = os.statvfs(self.directory)
            if os.stat(self.path("console")).st_size > LOG_LIMIT:
                self.incomplete = f"machine {self.name} has printed more than {LOG_LIMIT >> 20} MiB to its log"
            elif room.f_blocks and not room.f_bavail:
                self.incomplete = f"the disk under the log of machine {self.name} is full ({self.directory})"
        return self.incomplete

    def pump_to(self, stream, sink):
        """Copies STREAM to the file SINK in the background."""
        pump = threading.Thread(target=self.pump, args=(stream, sink), daemon=True)
        pump.start()
        self.pumps.append(pump)

    def pump(self, path, sink):
        with open(path, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                try:
                    while data:
                        data = data[os.write(sink, data):]
                except OSError as error:
                    # The reader is gone, or the disk is full, but the guest must not block.
                    if error.errno != errno.EPIPE:
                        self.incomplete = f"output of machine {self.name} cannot be written: {error.strerror}"
                    sink = os.open(os.devnull, os.O_WRONLY)

    def spawn(self, command, **more):
        """Starts the process, which is killed if this one is; its own messages go to a file."""
        with open(self.path("host.log"), "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, **more)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """Ends the machine, with all processes of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def kill_in_handler(self):
        """The same in the handler of a signal, which may have interrupted a wait for the process. That
        holds a lock for which a further wait would wait for ever."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
            os.waitpid(self.process.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def drain(self):
        """After the machine's end: waits until all its output has been copied."""
        for pump in self.pumps:
            pump.join(timeout=10)
