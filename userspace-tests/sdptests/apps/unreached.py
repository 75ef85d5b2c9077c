# SPDX-License-Identifier: MIT
"""Programs that no library reaches, with sdp_run --bpf: in Go, static, under a seccomp filter."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sdptests.twohosts import counters, loaded, uapi
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.hosts import PATIENCE, Host, Server
from sdptests.twohosts.lab import Case, Lab, Measured

PORT = 8082
SIZE = 300_001

LISTENING = "0A"

EAFNOSUPPORT = 97
SYS_SOCKET = 41


def _content(lab: Lab) -> bytes:
    content = random.Random("bpf").randbytes(SIZE)
    directory = lab.directory / "served"
    directory.mkdir(exist_ok=True)
    (directory / "content").write_bytes(content)
    return content


def _until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.05)


def _listens(host: Host) -> bool:
    port = f":{PORT:04X}"
    return any(
        fields[1].endswith(port) and fields[3] == LISTENING
        for fields in map(str.split, counters.open_sockets(host))
    )


def _caddy(lab: Lab, *before: str) -> Server:
    """A web server in Go."""
    return lab.b.start(
        lab.switched(*before, "caddy", "file-server", "--root", str(lab.directory / "served"))
        + ["--listen", f"{lab.b.ipv4}:{PORT}"],
        ready="serving static files",
    )


def _fetch(lab: Lab, *before: str, host: str = "") -> list[str]:
    """A web client, statically linked."""
    url = f"http://{host or lab.b.ipv4}:{PORT}/content"
    return [*before, "busybox", "wget", "-q", "-O", str(lab.directory / "fetched"), url]


def _same(lab: Lab, content: bytes) -> None:
    fetched = lab.directory / "fetched"
    same = hashlib.sha256(fetched.read_bytes()).digest() == hashlib.sha256(content).digest()
    check(same, "another file came")
    fetched.unlink()


def _go(lab: Lab) -> Measured:
    _content(lab)
    requests = lab.amount(400, 40)
    url = f"http://{lab.b.ipv4}:{PORT}/content"
    with _caddy(lab):
        done = lab.a.run(lab.switched("hey", "-n", str(requests), "-c", "8", "-t", "0", url))
    check(f"[200]\t{requests} responses" in done.stdout, done.stdout)
    check("Error distribution" not in done.stdout, done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    return Measured(f"{float(rate[1]) if rate else 0:.0f} per s", requests * SIZE)


def _go_with_mptcp(lab: Lab) -> Measured:
    """Both ends ask for MPTCP, as listeners do by default if go.mod names Go 1.24 or later."""
    content = _content(lab)
    mptcp = ("env", "GODEBUG=multipathtcp=1")
    url = f"http://{lab.b.ipv4}:{PORT}/content"
    with _caddy(lab, *mptcp):
        _until("caddy listens over SDP", lambda: _listens(lab.b))
        done = lab.a.run(lab.switched(*mptcp, "hey", "-n", "4", "-c", "2", "-t", "0", url))
        check("[200]\t4 responses" in done.stdout, done.stdout)
        # A peer that has TCP alone is served as well.
        lab.a.run(_fetch(lab))
    _same(lab, content)
    return Measured("the same", 4 * SIZE)


def _static_client(lab: Lab) -> Measured:
    content = _content(lab)
    with _caddy(lab):
        lab.a.run(lab.switched(*_fetch(lab)))
    _same(lab, content)
    return Measured("the same", SIZE)


def _static_server(lab: Lab) -> Measured:
    content = _content(lab)
    served = str(lab.directory / "served")
    command = ["busybox", "httpd", "-f", "-p", f"{lab.b.ipv4}:{PORT}", "-h", served]
    with lab.b.start(lab.switched(*command)):
        _until("httpd listens over SDP", lambda: _listens(lab.b))
        lab.a.run(lab.switched(*_fetch(lab)))
    _same(lab, content)
    return Measured("the same", SIZE)


def _by_the_library(lab: Lab) -> Measured:
    """sdp_run without --bpf says why the sockets of its program are TCP sockets."""
    for program, why in (
        (("caddy", "version"), "caddy is a Go program"),
        (("busybox", "true"), "busybox is statically linked"),
    ):
        said = lab.a.run(lab.wrapped(*program)).stderr
        check(f"sdp_run: {why}, so it uses TCP; --bpf would reach it\n" in said, said)
    said = lab.a.run(lab.wrapped("python3", "-V")).stderr
    check("sdp_run" not in said, said)
    return Measured("said", 0)


def _filter() -> bytes:
    """Denies sockets of families other than TCP's, like service managers."""
    load, equal, answer = 0x20, 0x15, 0x06
    allowed, refused = 0x7FFF0000, 0x00050000 | EAFNOSUPPORT
    return b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 0),
            (equal, 0, 4, SYS_SOCKET),
            (load, 0, 0, 16),
            (equal, 2, 0, 2),
            (equal, 1, 0, 10),
            (answer, 0, 0, refused),
            (answer, 0, 0, allowed),
        )
    )


@contextlib.contextmanager
def _sockets_for_both_in_sandboxes(lab: Lab) -> Iterator[None]:
    """A process with no_new_privs may use TCP beside SDP as well."""
    lab.a.run(["sysctl", "-q", "net.sdp.companion=2"])
    try:
        yield
    finally:
        lab.a.run(["sysctl", "-q", "net.sdp.companion=1"])


def _seccomp(lab: Lab) -> Measured:
    content = _content(lab)
    rules = lab.directory / "filter"
    rules.write_bytes(_filter())
    confined = ("setpriv", "--no-new-privs", "--seccomp-filter", str(rules))
    with _caddy(lab):
        done = lab.a.run(
            [*confined, "python3", "-c", f"import socket; socket.socket({uapi.AF_INET_SDP})"], may_fail=True
        )
        check("Address family not supported" in done.stderr, f"no filter: {done.stderr}")
        with _sockets_for_both_in_sandboxes(lab):
            lab.a.run(lab.switched(*_fetch(lab, *confined)))
    _same(lab, content)
    return Measured("the same", SIZE)


def _tcp_peer(lab: Lab) -> Measured:
    """A host without SDP is reached over TCP; the counters show one fallback."""
    content = _content(lab)
    served = str(lab.directory / "served")
    server = ["python3", "-u", "-m", "http.server", "--bind", lab.b.ipv4, "--directory", served]
    before = counters.read(lab.a)
    with lab.b.start([*server, str(PORT)], ready="Serving HTTP"):
        lab.a.run(lab.switched(*_fetch(lab)))
    changes = counters.difference(before, counters.read(lab.a))
    _same(lab, content)
    check(changes.get("tcp_fallbacks") == 1, f"one fallback in {changes}")
    return Measured("over TCP", 0)


@contextlib.contextmanager
def _mounted(lab: Lab, name: str, *how: str) -> Iterator[Path]:
    """A cgroup mount that commands on both hosts see: `ip netns exec` mounts another /sys."""
    top = lab.directory / name
    top.mkdir(exist_ok=True)
    subprocess.run(["mount", *how, str(top)], check=True)
    try:
        yield top
    finally:
        subprocess.run(["umount", str(top)], check=True)


_CGROUPS = ("cgroups", "-t", "cgroup2", "cgroup2")


@contextlib.contextmanager
def _cgroup(lab: Lab) -> Iterator[Path]:
    """A cgroup of the test's own."""
    with _mounted(lab, *_CGROUPS) as top:
        group = top / "switched"
        group.mkdir()
        try:
            yield group
        finally:
            _until("an empty cgroup", lambda: not (group / "cgroup.procs").read_text())
            group.rmdir()


def _within(group: Path) -> tuple[str, ...]:
    """The prefix that makes a command run in a cgroup."""
    return ("sh", "-c", f'echo 0 >{group}/cgroup.procs && exec "$@"', "-")


def _is_switched() -> bool:
    """Whether a switch is loaded in the kernel."""
    return "sdp_run" in loaded.programs()


def _of_a_cgroup(lab: Lab) -> Measured:
    """Only processes of the cgroup are switched, and only while sdp_run runs."""
    content = _content(lab)

    def opened(*command: str) -> int:
        before = counters.read(lab.a)
        lab.a.run(command)
        _same(lab, content)
        return counters.difference(before, counters.read(lab.a)).get("active_opens", 0)

    with _cgroup(lab) as group, _caddy(lab):
        inside = _within(group)
        with lab.a.start(
            lab.switched("--debug", "--cgroup", str(group)), ready="makes SDP sockets"
        ):
            check(_is_switched(), "the program of the switch is not found")
            check(opened(*_fetch(lab, *inside)) == 1, "a process of the cgroup did not use SDP")
            check(opened(*_fetch(lab)) == 0, "another process used SDP")
        check(opened(*_fetch(lab, *inside)) == 0, "SDP was used after the end of the switch")
    # The transport of each was checked separately.
    return Measured("as told", 0)


def _nothing_stays(lab: Lab) -> Measured:
    """The cgroup and the BPF program are removed when the last process has ended."""
    with _mounted(lab, *_CGROUPS) as top:
        status = lab.a.run(lab.switched("sh", "-c", "exit 7"), may_fail=True).returncode
        check(status == 7, f"status {status} instead of the program's")
        _until("no cgroup of sdp_run", lambda: not list(top.rglob("sdp_run.*")))
        _until("no program of sdp_run", lambda: not _is_switched())
    return Measured("gone", 0)


def _nothing_stays_of_what_failed(lab: Lab) -> Measured:
    """The cgroup has other processes; it is not switched if the program does not run in it."""
    _until("no program of sdp_run", lambda: not _is_switched())
    with _cgroup(lab) as group:
        sleep = ("sh", "-c", "echo here; exec sleep 100000")
        with (
            lab.a.start([*_within(group), *sleep], ready="here"),
            _mounted(lab, "unwritable", "--bind", str(group)) as unwritable,
        ):
            subprocess.run(["mount", "-o", "remount,bind,ro", str(unwritable)], check=True)
            done = lab.a.run(lab.switched("--cgroup", str(unwritable), "true"))
            check("--bpf has no effect: cannot enter" in done.stderr, done.stderr)
            # The kernel may free a program a moment after its last user has ended.
            _until("not switched, as the cgroup could not be entered", lambda: not _is_switched())
            missing = lab.switched("--cgroup", str(group), "/nonexistent/program")
            status = lab.a.run(missing, may_fail=True).returncode
            check(status == 127, f"status {status} for a program that is not there")
            _until("not switched, as there was no program", lambda: not _is_switched())
    return Measured("gone", 0)


def _nothing_stays_from_within(lab: Lab) -> Measured:
    """A process that waits for the end of the cgroup's processes does not count itself."""
    with _cgroup(lab) as group, _mounted(lab, "part", "--bind", str(group)) as part:
        inner = group / "inner"
        inner.mkdir()
        # The second has no cgroup above it to move to.
        for directory in (group, part):
            exits = lab.switched("--cgroup", str(directory), "sh", "-c", "exit 7")
            status = lab.a.run([*_within(inner), *exits], may_fail=True).returncode
            check(status == 7, f"status {status} instead of the program's")
            _until("no program of sdp_run", lambda: not _is_switched())
        _until("an empty cgroup", lambda: not (inner / "cgroup.procs").read_text())
        inner.rmdir()
    return Measured("gone", 0)


def cases(_lab: Lab) -> list[Case]:
    """The cases of these programs."""
    return [
        Case("by the library alone", _by_the_library),
        Case("Go: caddy, hey", _go),
        Case("Go: MPTCP", _go_with_mptcp),
        Case("static client: busybox wget", _static_client),
        Case("static server: busybox httpd", _static_server),
        Case("seccomp filter on families", _seccomp),
        Case("a peer without SDP", _tcp_peer),
        Case("sdp_run --bpf --cgroup", _of_a_cgroup),
        Case("nothing of sdp_run --bpf stays", _nothing_stays),
        Case("nothing of a switch that failed stays", _nothing_stays_of_what_failed),
        Case("nothing of a switch from within stays", _nothing_stays_from_within),
    ]
