# SPDX-License-Identifier: MIT
"""sdp_chk on a host that can use SDP, and on one that cannot; sdp_run --bpf as well."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator

from sdptests.switch.kinds import (
    BOTH,
    HOST,
    PATIENCE,
    SDP,
    SDP_TRANSPORT,
    case,
    equal,
    need_bpf,
    raw_sdp,
    raw_tcp,
)

# The other host of the topology.
OTHER = "10.0.0.2"


def without_library() -> dict[str, str]:
    """An environment without the library."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def outcome(*command: str) -> tuple[int, list[str]]:
    """Status and output of a run without the library."""
    done = subprocess.run(
        command,
        env=without_library(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def check(*arguments: str, before: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """Status and output of sdp_chk."""
    return outcome(*before, "sdp_chk", *arguments)


def _bad(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("BAD")]


@case
def sdp_chk_finds_nothing_bad_on_a_host_with_a_device() -> None:
    status, lines = check()
    equal(_bad(lines), [])
    equal(status, 0)
    assert any(line.startswith("ok") for line in lines), lines


@case
def sdp_chk_is_quiet_about_what_is_good() -> None:
    equal(check("-q"), (0, []))


@case
def sdp_chk_reaches_this_host_and_another() -> None:
    for host in (HOST, OTHER):
        status, lines = check(host)
        equal((host, _bad(lines), status), (host, [], 0))


@case
def sdp_chk_says_what_to_do_about_a_host_that_is_not_there() -> None:
    status, lines = check("10.0.0.99")
    equal(status, 1)
    assert _bad(lines), lines
    assert any(line.lstrip().startswith("->") for line in lines), lines
    equal(lines[-1], "note  apart from that SDP works here")


@case
def sdp_chk_says_what_to_do_where_there_is_no_device() -> None:
    status, lines = check(before=("unshare", "--net"))
    equal(status, 1)
    assert _bad(lines), lines
    assert any(line.lstrip().startswith("->") for line in lines), lines
    assert "use TCP" in lines[-1], lines


@case
def sdp_chk_takes_no_arguments_without_sense() -> None:
    status, _ = check("--no-such-option")
    equal(status, 125)


@contextlib.contextmanager
def _server(*before: str) -> Iterator[Iterator[dict[str, object]]]:
    """`sdp_chk --server`, once it listens; its further output."""
    with subprocess.Popen(
        [*before, "sdp_chk", "--server", "--json"],
        env=without_library(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        said = map(json.loads, server.stdout)
        try:
            for way in ("SDP", "TCP"):
                text = str(next(said)["text"])
                assert text.startswith("listening on ") and text.endswith(f" over {way}"), text
            yield said
        finally:
            server.kill()


def _about_host(address: str) -> tuple[int, dict[str, object]]:
    """Status, and the one finding about a host."""
    status, lines = check("--json", address)
    whole = json.loads("".join(lines))
    equal(whole["good"], status == 0)
    equal(whole["works"], True)
    [found] = (finding for finding in whole["findings"] if finding["about"] == "host")
    return status, found


@case
def sdp_chk_and_its_server_see_sdp() -> None:
    for address in (OTHER, "fd00::2"):
        with _server("ip", "netns", "exec", "b") as said:
            status, found = _about_host(address)
            equal((status, found["verdict"], found["transport"]), (0, "ok", "SDP"))
            equal(found["server"]["transport"], "SDP")
            seen = next(said)
            equal((seen["verdict"], seen["transport"]), ("ok", "SDP"))
            equal(seen["client"], {**found["server"], "transport": "SDP"})


@case
def sdp_chk_and_its_server_see_tcp_and_say_why() -> None:
    # It is an address of this host, but no RDMA device has it.
    elsewhere = "10.99.0.2"
    change = ("dev", "lo")
    subprocess.run(["ip", "address", "add", f"{elsewhere}/32", *change], check=True)
    try:
        with _server() as said:
            status, found = _about_host(elsewhere)
            equal((status, found["verdict"], found["transport"]), (1, "bad", "TCP"))
            equal(found["server"]["transport"], "TCP")
            assert found["errno"] and found["advice"], found
            seen = next(said)
            equal((seen["verdict"], seen["transport"]), ("note", "TCP"))
            assert seen["client"]["reason"], seen
    finally:
        subprocess.run(["ip", "address", "del", f"{elsewhere}/32", *change], check=True)


# Says what a socket of TCP's may use: nothing else is known to one of TCP's own.
SOCKET = f"""
import socket
try:
    print(socket.socket().getsockopt(socket.IPPROTO_TCP, {SDP_TRANSPORT}))
except OSError:
    print("TCP")
"""


def _by_bpf(*before: str) -> tuple[str, str]:
    """The outputs of a program under sdp_run --bpf and of sdp_run."""
    done = subprocess.run(
        [*before, os.environ.get("SDP_RUN", "sdp_run"), "--bpf", "python3", "-c", SOCKET],
        env=without_library(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout, done.stderr


@case
def sdp_run_bpf_opens_sockets_to_both() -> None:
    need_bpf()
    equal(_by_bpf(), (f"{BOTH}\n", ""))


# The calls of a server of Go 1.24: net.Listen("tcp", ":0") asks for MPTCP, after a probe. Prints what
# the listener may use and its port, and then for each connection its transport.
MPTCP_SERVER = f"""
import select, socket
MPTCP = 262
def transport(sock):
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, {SDP_TRANSPORT})
    except OSError:
        return "TCP"
socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, MPTCP).close()
kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
listener = socket.socket(socket.AF_INET6, kind, MPTCP)
listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("::", 0))
listener.listen(4096)
poll = select.epoll()
poll.register(listener, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
print(transport(listener), listener.getsockname()[1], flush=True)
for _ in range(2):
    while True:
        try:
            server, _ = listener.accept()
            break
        except BlockingIOError:
            poll.poll()
    server.setblocking(True)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL:
        server.setsockopt(socket.IPPROTO_TCP, option, 15)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9)
    server.sendall(server.recv(100))
    print(transport(server), flush=True)
    server.close()
"""


@case
def sdp_run_bpf_opens_sockets_of_mptcp_to_both() -> None:
    need_bpf()
    with subprocess.Popen(
        [os.environ.get("SDP_RUN", "sdp_run"), "--bpf", "python3", "-c", MPTCP_SERVER],
        env=without_library(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            offered, port = server.stdout.readline().split()
            equal(offered, str(BOTH))
            for make, wanted in ((raw_tcp, "TCP"), (raw_sdp, str(SDP))):
                with make() as client:
                    client.connect((HOST, int(port)))
                    client.sendall(b"some bytes")
                    equal(client.recv(100), b"some bytes")
                    equal(server.stdout.readline().strip(), wanted)
        finally:
            server.kill()


# A program gets this besides its arguments: ignored signals, and that input is closed.
GIVEN = "sed -n /^SigIgn/p /proc/self/status; [ -e /proc/$$/fd/0 ] || echo closed"


@case
def sdp_run_bpf_hands_on_what_it_was_given() -> None:
    need_bpf()
    plain, switched = (
        subprocess.run(
            ["sh", "-c", 'trap "" PIPE; exec "$@" <&-', "sh", *way, "sh", "-c", GIVEN],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        for way in ((), (os.environ.get("SDP_RUN", "sdp_run"), "--bpf"))
    )
    assert plain.stdout.endswith("\nclosed\n"), plain.stdout
    equal((switched.stdout, switched.stderr), (plain.stdout, ""))


# In mounts of its own: the library is loaded into every program, also if
# the dynamic linker does not trust its environment.
EVERYWHERE = """
set -e
mount -t tmpfs none "$1"
cp "$2" "$1/libsdp.so"
cp "$(readlink -f "$(command -v python3)")" "$1/python3"
chown 65534 "$1/python3"
chmod 4755 "$1/python3"
chmod 755 "$1/libsdp.so"
mount -t tmpfs none /etc
echo "$1/libsdp.so" >/etc/ld.so.preload
SIMPLE_LIBSDP=1 SDP_DEBUG=1 exec "$1/python3" -c "$3"
"""


@case
def a_set_user_id_program_does_not_go_by_the_environment() -> None:
    library = os.environ["LD_PRELOAD"].rpartition(":")[2]
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", EVERYWHERE, "sh", place, library, SOCKET],
            env=without_library(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    equal((done.stdout, done.stderr), (f"{BOTH}\n", ""))


@case
def sdp_run_bpf_says_what_the_kernel_lacks() -> None:
    need_bpf()
    hide = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
    hidden = ("unshare", "--mount", "sh", "-c", hide, "sh")
    lacks = "this kernel does not say what its functions are (CONFIG_DEBUG_INFO_BTF)"
    equal(_by_bpf(*hidden), ("TCP\n", f"sdp_run: --bpf has no effect: {lacks}; the program uses TCP\n"))
