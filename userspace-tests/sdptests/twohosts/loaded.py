# SPDX-License-Identifier: MIT
"""bpf(2), and the list of BPF programs in the kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_SYS_BPF = {"x86_64": 321}.get(os.uname().machine, 280)
_PROG_GET_NEXT_ID, _PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 11, 13, 15

# The place of the name in the information about a program, and the information's length.
_NAME = slice(64, 80)
_INFO = 80

_libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, told: ctypes.Array[ctypes.c_char]) -> int:
    """bpf(2)"""
    result = _libc.syscall(_SYS_BPF, command, told, len(told))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def attributes(layout: str, *values: int) -> ctypes.Array[ctypes.c_char]:
    """The attributes of bpf(2), as struct.pack() lays them out; the kernel may write to them."""
    packed = struct.pack(layout, *values)
    return ctypes.create_string_buffer(packed, len(packed))


def programs() -> list[str]:
    """The names of the loaded programs."""
    names = []
    number = 0
    while True:
        place = attributes("III", number, 0, 0)
        try:
            bpf(_PROG_GET_NEXT_ID, place)
            number = struct.unpack("III", place.raw)[1]
            program = bpf(_PROG_GET_FD_BY_ID, attributes("III", number, 0, 0))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            # The end of the list, or a program that was just unloaded.
            if struct.unpack("III", place.raw)[1] == 0:
                return names
            continue
        try:
            info = ctypes.create_string_buffer(_INFO)
            bpf(_OBJ_GET_INFO_BY_FD, attributes("IIQ", program, _INFO, ctypes.addressof(info)))
            names.append(info.raw[_NAME].rstrip(b"\0").decode())
        finally:
            os.close(program)
