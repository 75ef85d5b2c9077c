# SPDX-License-Identifier: GPL-2.0
"""A virtual machine of QEMU."""

import os

import accelerator
from machine import BOUND, MEMORY, Machine

# The distribution's kernel finds virtio devices only by ACPI.
MACHINE = {False: "microvm,acpi=off,rtc=on", True: "microvm,acpi=on,rtc=on"}

FIRST_STAGE = ("root=root rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose ro "
               "init=/first-stage")
KERNEL = ("console=ttyS0 earlyprintk=ttyS0 "
          # There is no ACPI or HPET to check the TSC, and no need: it is the host's.
          "tsc=reliable reboot=t random.trust_cpu=on")


class Emulated(Machine):
    """A guest of QEMU."""

    def arguments(self):
        s = self.settings
        accel = s.accel
        args = [
            "qemu-system-x86_64", "-name", f"sdp-{self.name}", "-M", MACHINE[s.stock],
            "-accel", accelerator.ACCEL[accel], "-cpu", accelerator.CPU[accel],
            "-smp", str(s.cpus), "-m", str(s.memory or MEMORY),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            # Modern virtio; the old register layout is microvm's default.
            "-global", "virtio-mmio.force-legacy=false",
            "-kernel", s.vmlinux, "-append", f"{KERNEL} {FIRST_STAGE} {self.kernel_arguments()}",
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
            self.pump_to(self.path(port), sink)
        self.spawn(prefix + BOUND + self.arguments())
