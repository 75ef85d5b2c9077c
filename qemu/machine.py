# SPDX-License-Identifier: GPL-2.0
"""One virtual machine: its command line, its output, its end."""

import os
import shlex
import shutil
import subprocess
import threading

import accelerator

# The host allocates memory when the guest uses it. But a leak scan reads every page, so more memory
# is not better.
MEMORY = "2048"

# The distribution's kernel finds virtio devices only by ACPI.
MACHINE = {False: "microvm,acpi=off,rtc=on", True: "microvm,acpi=on,rtc=on"}

FIRST_STAGE = ("root=root rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose ro "
               "init=/first-stage")
KERNEL = ("console=ttyS0 earlyprintk=ttyS0 loglevel=7 printk.devkmsg=on "
          # There is no ACPI or HPET to check the TSC, and no need: it is the host's.
          "tsc=reliable reboot=t panic=-1 oops=panic net.ifnames=0 random.trust_cpu=on dummy.numdummies=0 "
          # The size of memory disks, in KiB, if the kernel has them; allocated when written.
          "ramdisk_size=65536")

# With checks enabled, the allocator does not use its per-processor arrays of free objects. Stale
# entries there point to freed objects, and would hide up to 60 leaked objects of a size from
# kmemleak. The unit tests in a module run when it is loaded.
DEBUG_KERNEL = "kmemleak=on slab_debug=F kunit.enable=1 kunit.autorun=1"


class Machine:
    """A guest of the harness, named a or b, with a directory shared with it."""

    def __init__(self, name, directory, settings):
        self.name = name
        self.directory = directory
        self.settings = settings
        self.process = None
        self.pumps = []
        self.killed = False
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
            "MODULES": "1" if s.modules else "", "LIMIT": str(s.limit), "UNLOAD_LIMIT": str(s.unload_limit),
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

    def arguments(self):
        s = self.settings
        accel = s.accel
        args = [
            "qemu-system-x86_64", "-name", f"sdp-{self.name}", "-M", MACHINE[s.stock],
            "-accel", accelerator.ACCEL[accel], "-cpu", accelerator.CPU[accel],
            "-smp", str(s.cpus), "-m", s.memory or MEMORY,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            # Modern virtio; the old register layout is microvm's default.
            "-global", "virtio-mmio.force-legacy=false",
            "-kernel", s.vmlinux, "-append", self.kernel_arguments(),
            *(("-initrd", s.initrd) if s.initrd else ()),
            "-chardev", f"file,id=console,path={self.path('console')}", "-serial", "chardev:console",
            "-device", "virtio-serial-device",
        ]
        if s.plugin:
            args += ["-plugin", s.plugin]
        for port in ("out", "err"):
            args += ["-chardev", f"file,id={port},path={self.path(port)}",
                     "-device", f"virtserialport,chardev={port},name={port}"]
        for tag, path, access in (
                ("root", s.root, ",readonly=on"), ("sdp", s.checkout, ",readonly=on"),
                ("target", s.target, ",readonly=on"), ("run", self.path("run"), ""), ("share", s.share, ""),
                ("modules", s.modules, ",readonly=on")):
            if path:
                # A comma separates options; a doubled comma is a literal one.
                args += ["-fsdev", f"local,id={tag},path={path.replace(',', ',,')},security_model=none{access},multidevs=remap",
                         "-device", f"virtio-9p-device,fsdev={tag},mount_tag={tag}"]
        if s.topology == "two":
            args += self.network("data", 0) + self.network("control", 1)
        return args

    def kernel_arguments(self):
        s = self.settings
        return " ".join(filter(None, (KERNEL, DEBUG_KERNEL if s.kernel == "debug" else "", FIRST_STAGE, s.append)))

    def network(self, kind, number):
        """One end of a datagram pair, so the order of starts and a dead peer do not matter."""
        me, peer = ("1", "2") if self.name == "a" else ("2", "1")
        other = "b" if self.name == "a" else "a"
        return ["-netdev", f"dgram,id={kind},local.type=unix,local.path={self.directory}/{kind}-{self.name},"
                           f"remote.type=unix,remote.path={self.directory}/{kind}-{other}",
                "-device", f"virtio-net-device,netdev={kind},mac=52:54:00:00:0{number}:0{me}"]

    def start(self, prefix, out, err):
        """Starts QEMU; the command's output goes to the files OUT and ERR."""
        for port, sink in (("out", out), ("err", err)):
            os.mkfifo(self.path(port))
            pump = threading.Thread(target=self.pump, args=(self.path(port), sink), daemon=True)
            pump.start()
            self.pumps.append(pump)
        with open(self.path("qemu.log"), "w") as log:
            self.process = subprocess.Popen(prefix + self.arguments(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    @staticmethod
    def pump(path, sink):
        with open(path, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                try:
                    while data:
                        data = data[os.write(sink, data):]
                except OSError:
                    # The reader is gone, but the guest must not block.
                    sink = os.open(os.devnull, os.O_WRONLY)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.running():
            self.process.kill()
        self.process.wait()

    def drain(self):
        """After QEMU's end: waits until all its output has been copied."""
        for pump in self.pumps:
            pump.join(timeout=10)
