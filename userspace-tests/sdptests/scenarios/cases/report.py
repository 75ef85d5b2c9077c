# SPDX-License-Identifier: MIT
"""sdp_run --report: what SDP costs beside TCP."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator

from sdptests.scenarios import limits
from sdptests.scenarios.network import B, command
from sdptests.scenarios.register import scenario
from sdptests.twohosts.failure import Failure, check

CLIENT = ("sdp_run", "--report", "iperf3", "-c", B.address(4), "-n", "8M", "-l", "1M")


@contextlib.contextmanager
def _server(*prefix: str) -> Iterator[None]:
    line = ["ip", "netns", "exec", "b", *prefix, "iperf3", "-s"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as server:
        limits.until("a server", limits.seconds(20), lambda: command("ss", "-Hltn", "sport = :5201", host="b"))
        try:
            yield
        finally:
            server.kill()


def _report(*words: str) -> tuple[int, str]:
    line = ["ip", "netns", "exec", "a", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=limits.seconds(60), check=False)
    return done.returncode, done.stderr


def _row(page: str, what: str) -> list[str]:
    found = re.search(rf"^ +{re.escape(what)} +(.*)$", page, re.M)
    if not found:
        raise Failure(f"no {what} in\n{page}")
    return re.split(r" {2,}", found[1].strip())


@scenario
def sdp_run_reports_what_sdp_costs() -> str:
    """Twice the same: over SDP, with the bytes by their way, and over TCP; then the verdict."""
    with _server("sdp_run"):
        status, page = _report(*CLIENT)
    check(status == 0, page)
    check(_row(page, "connections over SDP") == ["2", "0"], page)
    check(_row(page, "connections over TCP") == ["0", "2"], page)
    ways = ("sent, no copy", "sent, one copy, by the reader", "sent, copies")
    sent = sum(int(_row(page, way)[0]) for way in ways if f" {way} " in page)
    check(sent >= 8 << 20, page)
    verdict = page.splitlines()[-1]
    check(re.match(r"(Worth it|Not worth it|It depends|No difference .*): \d+% ", verdict), page)
    return verdict


@scenario
def sdp_run_compares_nothing_without_sdp() -> None:
    """A server on TCP alone; a program that fails, and its status is the result."""
    with _server():
        status, page = _report(*CLIENT)
    check(status == 0 and "No connection used SDP" in page, page)
    status, page = _report("sdp_run", "--report", "sh", "-c", "exit 7")
    check(status == 7 and "Not compared with TCP" in page, page)
