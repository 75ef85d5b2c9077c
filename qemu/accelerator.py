# SPDX-License-Identifier: GPL-2.0
"""The accelerator of QEMU that works on this machine.

A guest may fail under KVM even if /dev/kvm exists, opens and answers. So the
check boots a real guest with a short limit, once per machine.
"""

import hashlib
import os
import platform
import subprocess
import sys
import tempfile

# Under TCG: no model newer than needed for a fast checksum in rxe. On a model with ERMS or FSRM the
# kernel copies with `rep movsb`, which TCG emulates a byte at a time; that would falsify every
# measurement. rdrand replaces an entropy device.
CPU = {
    "kvm": "host",
    "tcg": "qemu64,+pclmulqdq,+ssse3,+sse4.1,+sse4.2,+rdrand",
}
ACCEL = {"kvm": "kvm", "tcg": "tcg,thread=multi"}

PROBE_SECONDS = 20


def probe(vmlinux, qemu):
    """True if a kernel boots under KVM up to the search for its root."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        try:
            subprocess.run(
                [qemu, "-M", "microvm,acpi=off", "-accel", "kvm", "-cpu", CPU["kvm"], "-smp", "2", "-m", "512",
                 "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", vmlinux,
                 "-serial", f"file:{log}", "-append", "console=ttyS0 panic=-1 reboot=t"],
                timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        except subprocess.TimeoutExpired:
            return False
        if not os.path.exists(log):
            return False
        with open(log, errors="replace") as file:
            return "Kernel panic - not syncing: VFS" in file.read()


def choose(vmlinux, cache, qemu="qemu-system-x86_64"):
    """"kvm" or "tcg": the environment's ACCEL, an earlier result, or a probe."""
    wanted = os.environ.get("ACCEL")
    if wanted:
        if wanted not in CPU:
            sys.exit(f"[sdp] error: ACCEL={wanted}: must be one of {', '.join(CPU)}")
        return wanted
    version = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    name = hashlib.sha256(f"{version}{platform.release()}{platform.node()}".encode()).hexdigest()[:12]
    memory = os.path.join(cache, f"accel-{name}")
    try:
        with open(memory) as file:
            answer = file.read().strip()
        if answer in CPU:
            return answer
    except OSError:
        pass
    print("[sdp] finding out whether KVM works here ...", file=sys.stderr)
    answer = "kvm" if probe(vmlinux, qemu) else "tcg"
    print(f"[sdp]   using {answer} from now on (ACCEL=kvm|tcg overrides)", file=sys.stderr)
    with open(memory, "w") as file:
        file.write(answer + "\n")
    return answer
