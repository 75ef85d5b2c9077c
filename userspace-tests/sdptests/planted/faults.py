# SPDX-License-Identifier: MIT
"""Faults of the modules that `run histories` has to find, each a replaced piece of a source file.

A fault keeps its kind if the code around it changes: where the piece is gone, another place is chosen.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault, and the kernel with the checks that it needs."""

    name: str
    kernel: str
    file: str
    right: str
    wrong: str

    def planted(self, text):
        """The text of the file with the fault; None unless the right piece is there exactly once."""
        return text.replace(self.right, self.wrong) if text.count(self.right) == 1 else None


FAULTS = (
    # A device that goes keeps a reference to its interface.
    Fault("leak", "native", "rust/rlo/ffi/devices.c",
          "\tsynchronize_net();\n\tdev_put(object->ndev);\n\tobject->ndev = NULL;\n",
          "\tsynchronize_net();\n\tobject->ndev = NULL;\n"),
    # The first page of a region counts as a whole one, although the region begins behind its begin.
    Fault("wrong_byte", "native", "rust/rlo/mr.rs",
          "        let mut len = (page - within) as usize;\n", "        let mut len = page as usize;\n"),
    # A queue pair goes while its task or its timer is still set.
    Fault("use_after_free", "native-debug", "rust/rlo/qp/reset.rs",
          "            soft.stop();\n        }\n        self.task.stop();\n", "            soft.stop();\n        }\n"),
    # Lost wake-ups. Room has come, and waiting writers are told only if there is something to read as well.
    Fault("room_without_wakeup", "native", "rust/kmod/wake.rs",
          "        if self.writable {\n", "        if self.writable && self.readable {\n"),
    # Memory that was lent has come back, and the call that waits for it is told only at the connection's end.
    Fault("loan_without_wakeup", "native", "rust/kmod/wake.rs",
          "        if self.settled {\n", "        if self.settled && self.hangup {\n"),
)
