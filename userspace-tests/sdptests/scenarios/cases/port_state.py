# SPDX-License-Identifier: MIT
"""The port of an rlo device during the removal of its interface."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading

from sdptests.scenarios import limits
from sdptests.scenarios.network import command, exists
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

NETLINK_RDMA = 20
PORT_GET = (5 << 10) + 5
DEV_INDEX, PORT_INDEX = 1, 3
ERROR = 2
ROUNDS = 5


def _query(sock: socket.socket, device: int) -> int:
    """Asks for the port of a device; returns 0 or an errno."""
    request = struct.pack("=HHIHHI", 8, DEV_INDEX, device, 8, PORT_INDEX, 1)
    sock.send(struct.pack("=IHHII", 16 + len(request), PORT_GET, 1 | 4, 0, 0) + request)
    while True:
        kind, code = struct.unpack_from("=4xH10xi", sock.recv(8192))
        if kind == ERROR:
            return -code


def _query_until_gone(device: int, errors: list[int]) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as sock:
        sock.bind((0, 0))
        while not errors:
            if error := _query(sock, device):
                errors.append(error)


@scenario
def a_port_of_a_removed_interface_is_no_error() -> str:
    """It is down, and at last there is no device."""
    if KIND != "rlo":
        raise Skip("about rlo's ports")
    for _ in range(ROUNDS):
        command("ip", "link", "add", "z0", "type", "veth", "peer", "name", "z1")
        try:
            command("ip", "link", "set", "z0", "up")
            command("rdma", "link", "add", "rloz", "type", KIND, "netdev", "z0")
            device = json.loads(command("rdma", "-j", "dev", "show", "rloz"))[0]["ifindex"]
            errors: list[int] = []
            asking = threading.Thread(target=_query_until_gone, args=(device, errors))
            asking.start()
        finally:
            command("ip", "link", "del", "z0")
        asking.join(limits.seconds(10))
        check(not asking.is_alive(), "the device stays, or the kernel does not answer")
        name = errno.errorcode.get(errors[0])
        check(name == "EINVAL", f"the port of a removed interface: {os.strerror(errors[0])}")
        limits.until("the end of rloz", limits.seconds(10), lambda: not exists("rloz"))
    return f"{ROUNDS} removals"
