# SPDX-License-Identifier: MIT
"""The layer of a call chain."""

from __future__ import annotations

import unittest

from sdptests.bench import layers
from sdptests.bench.sampler import Sample

KALLSYMS = """\
1000 t _raw_spin_unlock_irqrestore
2000 t sdp_recvmsg\t[sdp]
3000 T rxe_sender
4000 t crc32_le
5000 T udp_sendmsg
6000 T do_syscall_64
7000 t memcpy
8000 t pv_native_safe_halt
9000 d not_code
a000 t vfs_read
b000 t copy_in_memory\t[rlo]
c000 t turn_sent\t[sdp_verbs]
d000 t smcd_tx_rdma_writes
"""
UNLOCK, RECVMSG, SENDER, CRC, UDP, SYSCALL, MEMCPY, HALT, VFS, RLO, VERBS, SMC = (
    *(address + 8 for address in range(0x1000, 0x9000, 0x1000)),
    0xA008,
    0xB008,
    0xC008,
    0xD008,
)


def layer(*chain: int, user: bool = False) -> str:
    """The layer of a chain, the innermost function first."""
    return layers.layer(Sample(0.0, user, chain), layers.Symbols(KALLSYMS))


class Layers(unittest.TestCase):
    """The innermost function with an owner decides."""

    def test_general_routines_belong_to_their_caller(self) -> None:
        """A lock taken by the module counts for the module."""
        self.assertEqual(layer(UNLOCK, RECVMSG, SYSCALL), layers.MODULE)
        self.assertEqual(layer(UNLOCK, SENDER, RECVMSG), layers.DRIVER)
        self.assertEqual(layer(UNLOCK, UDP, SENDER), layers.NETWORK)
        self.assertEqual(layer(VFS, SYSCALL), layers.SYSTEM_CALL)
        self.assertEqual(layer(UNLOCK), layers.OTHER)

    def test_copies_and_checksums_are_told_apart(self) -> None:
        """A copy by module or network, a checksum by the driver; copies by it are its own."""
        self.assertEqual(layer(MEMCPY, RECVMSG), layers.COPY)
        self.assertEqual(layer(MEMCPY, UDP, SYSCALL), layers.COPY)
        self.assertEqual(layer(MEMCPY, SMC, SYSCALL), layers.COPY)
        self.assertEqual(layer(MEMCPY, SENDER), layers.DRIVER)
        self.assertEqual(layer(MEMCPY, RLO, RECVMSG), layers.DRIVER)
        self.assertEqual(layer(CRC, SENDER), layers.CHECKSUM)

    def test_who_asks_by_verbs_is_a_program(self) -> None:
        """Also in the kernel; SMC is a module like ours."""
        self.assertEqual(layer(UNLOCK, VERBS), layers.APPLICATION)
        self.assertEqual(layer(UNLOCK, SMC, SYSCALL), layers.MODULE)

    def test_programs_and_idleness_are_neither(self) -> None:
        """User mode has no chain, and an idle processor does nothing."""
        self.assertEqual(layer(user=True), layers.APPLICATION)
        self.assertNotIn(layer(HALT), layers.LAYERS)

    def test_a_profile_counts_what_lies_between(self) -> None:
        """Without the time of the programs before and after, and without idle time."""
        samples = [
            Sample(0.5, True, ()),
            Sample(1.5, False, (UNLOCK, RECVMSG)),
            Sample(1.6, False, (HALT,)),
            Sample(1.7, True, ()),
            Sample(2.5, True, ()),
        ]
        symbols = layers.Symbols(KALLSYMS)
        found = layers.profile(samples, 100, 1.0, 2.0, symbols)
        self.assertEqual(found.seconds[layers.MODULE], 0.01)
        self.assertEqual(sum(found.seconds.values()), 0.02)


if __name__ == "__main__":
    unittest.main()
