# SPDX-License-Identifier: MIT
"""The packets on a host's interface during an action, as a file of tcpdump."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdptests.twohosts.failure import Failure, check, parsed
from sdptests.twohosts.hosts import PATIENCE, Host, Server

ROCE_PORT = 4791
# There is no listener: a packet to it only marks a place in the capture.
MARK_PORT = 9
SEND_MARK = """
import socket, sys
mark, to, port = sys.argv[1:]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.sendto(mark.encode(), (to, int(port)))
"""


def interface(host: Host) -> str:
    """The interface that has the host's address."""
    for link in json.loads(host.run(["ip", "-json", "address", "show"]).stdout):
        if any(address["local"] == host.ipv4 for address in link["addr_info"]):
            return link["ifname"]
    raise Failure(f"{host.name} has no interface with {host.ipv4}")


def _mark(host: Host, to: str, file: Path) -> None:
    """Sends a mark and waits until the file has it; then it also has all earlier packets."""
    mark = f"end of capture {time.monotonic_ns()}"
    host.run(["python3", "-c", SEND_MARK, mark, to, str(MARK_PORT)])
    deadline = time.monotonic() + PATIENCE
    while mark.encode() not in file.read_bytes():
        if time.monotonic() > deadline:
            raise Failure("tcpdump does not record what passes")
        time.sleep(0.1)


@contextmanager
def capture(host: Host, peer: Host, file: Path) -> Iterator[None]:
    """Record all RDMA packets of `host` in `file`, from before the body to after it."""
    command = ["tcpdump", "-i", interface(host), "-w", str(file), "-s", "0", "-U"]
    # With a buffer for all packets, because a packet dropped by tcpdump looks like an error.
    command += ["--immediate-mode", "-B", "65536", "-Z", "root", "-n"]
    command += [f"udp port {ROCE_PORT} or udp port {MARK_PORT}"]
    with host.start(command, ready=r"listening on") as tcpdump:
        yield
        _mark(host, peer.ipv4, file)
        _end(tcpdump)


def _end(tcpdump: Server) -> None:
    tcpdump.stop()
    dropped = parsed(
        re.search(r"(\d+) packets? dropped by kernel", tcpdump.output()),
        tcpdump.output(),
        "the number of packets dropped",
    )
    check(dropped[1] == "0", f"tcpdump has lost {dropped[1]} packets")


def ip_bytes(text: str) -> bytes:
    """An address in the form of the SDP headers: IPv4 is twelve zeros and the address."""
    if ":" in text:
        return socket.inet_pton(socket.AF_INET6, text)
    return bytes(12) + socket.inet_pton(socket.AF_INET, text)
