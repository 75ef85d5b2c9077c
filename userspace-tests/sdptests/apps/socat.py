# SPDX-License-Identifier: MIT
"""Stock socat, with the family as a number and the address in hexadecimal."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import struct
import time

from sdptests.twohosts import uapi
from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured, rate

MIB = 1 << 20
PORT = 20027


def address(lab: Lab, host: str) -> str:
    """`DOMAIN:PROTOCOL:ADDRESS`, in socat's format.

    The address lacks its family, because socat takes it from the domain: it is 27 for both kinds.
    """
    if ":" in host:
        domain = uapi.AF_INET_SDP if lab.family == "sdp" else socket.AF_INET6
        data = struct.pack(">HI16s4x", PORT, 0, socket.inet_pton(socket.AF_INET6, host))
    else:
        domain = lab.number
        data = struct.pack(">H4s8x", PORT, socket.inet_pton(socket.AF_INET, host))
    return f"{domain}:0:x{data.hex()}"


def _file(lab: Lab, host: str, size: int) -> Measured:
    content = random.Random(host).randbytes(size)
    source = lab.directory / "socat.source"
    target = lab.directory / "socat.target"
    source.write_bytes(content)
    target.unlink(missing_ok=True)
    where = address(lab, host)
    with lab.b.start(
        ["socat", "-d", "-d", "-u", f"SOCKET-LISTEN:{where},reuseaddr", f"CREATE:{target}"],
        ready=r"listening on",
    ) as listener:
        begin = time.monotonic()
        client = lab.a.run(["socat", "-d", "-d", "-u", f"OPEN:{source}", f"SOCKET-CONNECT:{where}"])
        output = listener.finish()
        seconds = time.monotonic() - begin
    arrived = target.read_bytes()
    check(len(arrived) == size, f"{len(arrived)} of {size} bytes arrived")
    check(
        hashlib.sha256(arrived).digest() == hashlib.sha256(content).digest(),
        "the bytes that arrived are not those sent",
    )
    # Both ends report the connection by its IP addresses, for every family.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    pattern = rf"accepting connection from AF={family:d} .* on AF={family:d} "
    parsed(re.search(pattern, output), output, "the names of the connection")
    parsed(
        re.search(rf"successfully connected from local address AF={family:d} ", client.stderr),
        client.stderr,
        "the client's own name",
    )
    return Measured(rate(size, seconds), size)


def _ipv4(lab: Lab) -> Measured:
    return _file(lab, lab.b.ipv4, lab.amount(128, 4) * MIB)


def _ipv6(lab: Lab) -> Measured:
    return _file(lab, lab.b.ipv6, lab.amount(128, 4) * MIB)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("socat by number, IPv4", _ipv4), Case("socat by number, IPv6", _ipv6)]
