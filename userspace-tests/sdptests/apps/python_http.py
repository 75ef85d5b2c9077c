# SPDX-License-Identifier: MIT
"""Python's web server and client, which are TCP programs, over SDP by the library."""

from __future__ import annotations

import hashlib
import json
import random

from sdptests.twohosts.failure import check
from sdptests.twohosts.lab import Case, Lab, Measured, rate

MIB = 1 << 20

CLIENT = """
import hashlib, json, sys, time, urllib.request
begin = time.monotonic()
sha256, size = hashlib.sha256(), 0
with urllib.request.urlopen(sys.argv[1]) as response:
    while block := response.read(1 << 20):
        sha256.update(block)
        size += len(block)
print(json.dumps({"size": size, "sha256": sha256.hexdigest(), "seconds": time.monotonic() - begin}))
"""


def _fetch(lab: Lab, host: str) -> Measured:
    content = random.Random("http" + host).randbytes(lab.amount(64, 4) * MIB)
    (lab.directory / "content").write_bytes(content)
    authority = f"[{host}]" if ":" in host else host
    with lab.b.start(
        lab.wrapped("python3", "-u", "-m", "http.server", "--bind", host)
        + ["--directory", str(lab.directory), "0"],
        ready=r"port (\d+)",
    ) as server:
        url = f"http://{authority}:{server.number()}/content"
        # Twice, because the second connection begins while the first one is still closing.
        results = [
            json.loads(lab.a.run(lab.wrapped("python3", "-c", CLIENT, url)).stdout)
            for _ in range(2)
        ]
    for result in results:
        check(result["size"] == len(content), f"{result['size']} of {len(content)} bytes came")
        check(
            result["sha256"] == hashlib.sha256(content).hexdigest(),
            "the bytes that came are not those of the file",
        )
    seconds = sum(result["seconds"] for result in results)
    return Measured(rate(2 * len(content), seconds), 2 * len(content))


def _ipv4(lab: Lab) -> Measured:
    return _fetch(lab, lab.b.ipv4)


def _ipv6(lab: Lab) -> Measured:
    return _fetch(lab, lab.b.ipv6)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("python3 http, IPv4", _ipv4), Case("python3 http, IPv6", _ipv6)]
