# SPDX-License-Identifier: MIT
"""redis-server with redis-benchmark, and a large value that is compared after its return."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator

from sdptests.twohosts.failure import check
from sdptests.twohosts.lab import Case, Lab, Measured

PORT = "7001"
SIZE = 256

ROUND_TRIP = """
import os, socket, sys
value = os.urandom(int(sys.argv[3]))
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as server:
    stream = server.makefile("rwb")
    stream.write(b"*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nv\\r\\n$%d\\r\\n%s\\r\\n" % (len(value), value))
    stream.write(b"*2\\r\\n$3\\r\\nGET\\r\\n$1\\r\\nv\\r\\n")
    stream.flush()
    assert stream.readline() == b"+OK\\r\\n"
    assert stream.readline() == b"$%d\\r\\n" % len(value)
    assert stream.read(len(value)) == value
"""


@contextlib.contextmanager
def serving(lab: Lab) -> Iterator[None]:
    """A server meanwhile."""
    command = lab.wrapped(
        *("redis-server", "--bind", lab.b.ipv4, "--port", PORT, "--save", ""),
        *("--protected-mode", "no", "--dir", str(lab.directory)),
    )
    with lab.b.start(command, ready="Ready to accept connections"):
        yield


def per_second(lab: Lab, test: str, requests: int, size: int, clients: int = 20) -> float:
    """The rate of so many requests, "SET" or "GET", with values of that size."""
    done = lab.a.run(
        lab.wrapped("redis-benchmark", "-h", lab.b.ipv4, "-p", PORT, "--csv")
        + ["-n", str(requests), "-c", str(clients), "-d", str(size), "-t", test.lower()]
    )
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    check([row["test"] for row in rows] == [test], f"one result in {done.stdout}")
    return float(rows[0]["rps"])


def _benchmark(lab: Lab) -> Measured:
    requests = lab.amount(20_000, 1000)
    with serving(lab):
        rates = [per_second(lab, test, requests, SIZE) for test in ("SET", "GET")]
    return Measured("{:.0f}/{:.0f} per s".format(*rates), 2 * requests * SIZE)


def _round_trip(lab: Lab) -> Measured:
    size = lab.amount(32, 2) << 20
    with serving(lab):
        lab.a.run(lab.wrapped("python3", "-c", ROUND_TRIP, lab.b.ipv4, PORT, str(size)))
    return Measured("the same", 2 * size)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("redis-benchmark", _benchmark), Case("redis large value", _round_trip)]
