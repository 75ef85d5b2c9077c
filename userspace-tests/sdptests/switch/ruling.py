# SPDX-License-Identifier: MIT
"""The effect of the rules of libsdp.conf on sockets, and the log about them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sdptests import checkout
from sdptests.switch import kinds
from sdptests.switch.kinds import (
    BOTH,
    PATIENCE,
    SDP,
    TCP,
    case,
    equal,
    listener_of,
    raw_sdp,
    raw_tcp,
    switched,
)

CALLS = checkout.TESTS / "switch/calls.py"

# An address of this host that no RDMA device has.
ELSEWHERE = "10.99.0.1"

Socket = dict[str, object]


def _calls(sockets: list[Socket], **environment: str) -> tuple[list[list[object]], str]:
    """The transports of sockets in a separate program, and its standard error."""
    done = subprocess.run(
        [sys.executable, str(CALLS), json.dumps(sockets)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _messages(said: str) -> str:
    """The library's messages, without the process and the program in each line."""
    start = re.compile(rf"libsdp\[\d+\]: {re.escape(Path(sys.executable).name)}: ")
    lines = said.splitlines(keepends=True)
    for line in lines:
        if not start.match(line):
            raise AssertionError(f"not of the library in Python: {line!r}")
    return "".join(start.sub("", line, count=1) for line in lines)


def _ruled(rules: list[str], wanted: list[tuple[Socket, list[object]]]) -> None:
    """With these rules the sockets use these transports."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("".join(f"use {rule}\n" for rule in rules))
        file.flush()
        seen, said = _calls([sock for sock, _ in wanted], LIBSDP_CONFIG_FILE=file.name)
    equal(said, "")
    for (sock, outcome), result in zip(wanted, seen, strict=True):
        equal((sock, result), (sock, outcome))


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """The address exists meanwhile."""
    change = lambda what: subprocess.run(  # noqa: E731
        ["ip", "address", what, f"{ELSEWHERE}/32", "dev", "lo"], check=True
    )
    change("add")
    try:
        yield
    finally:
        change("del")


@case
def rules_for_clients_go_by_address_and_port() -> None:
    with (
        listener_of(switched()) as one,
        listener_of(switched()) as two,
        listener_of(switched()) as three,
        listener_of(raw_tcp()) as tcp,
        listener_of(raw_sdp()) as sdp,
    ):
        a, b, c, only_tcp, only_sdp = (
            list(sock.getsockname()) for sock in (one, two, three, tcp, sdp)
        )
        _ruled(
            [
                f"tcp client * {kinds.HOST}:{a[1]}",
                f"sdp client calls* {kinds.HOST}/32:{b[1]}",
                f"sdp client python3* {kinds.HOST}/32:{b[1]}",
                f"sdp client * *:{only_tcp[1]}",
                f"tcp client * 10.0.0.0/8:{only_sdp[1]}",
                "both client * *:*",
            ],
            [
                ({"connect": a}, [TCP, kinds.HOST]),
                ({"connect": b}, [SDP, kinds.HOST]),
                ({"connect": c}, [SDP, kinds.HOST]),
                ({"connect": only_tcp}, ["connect", "ECONNREFUSED"]),
                ({"connect": only_sdp}, ["connect", "ECONNREFUSED"]),
                # The same without waiting, and from its own address.
                ({"connect": a, "timeout": PATIENCE}, [TCP, kinds.HOST]),
                ({"connect": b, "timeout": PATIENCE}, [SDP, kinds.HOST]),
                ({"connect": a, "bind": [kinds.HOST, 0]}, [TCP, kinds.HOST]),
                ({"connect": b, "bind": [kinds.HOST, 0]}, [SDP, kinds.HOST]),
                ({"connect": c, "bind": [kinds.HOST, 0]}, [SDP, kinds.HOST]),
            ],
        )
        _ruled(
            [f"tcp client * {kinds.HOST}:1-65535", "sdp client * *:*"],
            [
                ({"connect": only_tcp}, [TCP, kinds.HOST]),
                ({"connect": c}, [TCP, kinds.HOST]),
            ],
        )


@case
def rules_for_servers_go_by_address_and_port() -> None:
    # SDP alone can be bound if the port is in use in TCP, and TCP alone if it is in use in SDP.
    with raw_tcp() as tcp, raw_sdp() as sdp:
        for sock in (tcp, sdp):
            sock.bind(kinds.free_name())
        taken_in_tcp, taken_in_sdp = (list(sock.getsockname()) for sock in (tcp, sdp))
        _ruled(
            [
                f"sdp server * {kinds.HOST}:{taken_in_tcp[1]}",
                f"tcp server * {kinds.HOST}:{taken_in_sdp[1]}",
                f"both server * {kinds.HOST}:*",
                "sdp server * 127.0.0.1:1-65535",
                "tcp server * *:*",
            ],
            [
                ({"bind": taken_in_tcp, "listen": []}, [SDP, kinds.HOST]),
                ({"bind": taken_in_sdp, "listen": []}, [TCP, kinds.HOST]),
                ({"bind": [kinds.HOST, 0], "listen": []}, [BOTH, kinds.HOST]),
                ({"bind": ["127.0.0.1", 0], "listen": []}, [SDP, "127.0.0.1"]),
                ({"bind": ["", 0], "listen": []}, [TCP, "0.0.0.0"]),
                ({"family": "AF_INET6", "bind": ["::", 0], "listen": []}, [TCP, "::"]),
            ],
        )


@case
def rules_for_servers_leave_clients_what_they_bind() -> None:
    with (
        _elsewhere(),
        listener_of(switched()) as one,
        listener_of(switched()) as two,
        listener_of(switched()) as three,
    ):
        a, b, c = (list(sock.getsockname()) for sock in (one, two, three))
        servers = "sdp server * *:*"
        here, there = [kinds.HOST, 0], [ELSEWHERE, 0]
        _ruled(
            [servers, f"tcp client * *:{a[1]}", f"sdp client * *:{b[1]}"],
            [
                ({"bind": here, "connect": a}, [TCP, kinds.HOST]),
                ({"bind": here, "connect": b}, [SDP, kinds.HOST]),
                ({"bind": here, "connect": c}, [SDP, kinds.HOST]),
                ({"bind": there, "connect": a}, [TCP, ELSEWHERE]),
                ({"bind": there, "connect": b}, ["connect", "EADDRNOTAVAIL"]),
                ({"bind": there, "connect": c}, [TCP, ELSEWHERE]),
                ({"bind": here, "listen": []}, [SDP, kinds.HOST]),
                ({"bind": there, "listen": []}, ["listen", "EADDRNOTAVAIL"]),
            ],
        )
        _ruled(
            [servers, "tcp client * *:*"],
            [
                ({"bind": there, "connect": c}, [TCP, ELSEWHERE]),
                ({"bind": there, "listen": []}, ["listen", "EADDRNOTAVAIL"]),
                ({"bind": ["10.98.0.1", 0]}, ["bind", "EADDRNOTAVAIL"]),
            ],
        )
        _ruled(
            [servers, "sdp client * *:*"],
            [({"bind": there, "connect": c}, ["bind", "EADDRNOTAVAIL"])],
        )
        for_tcp = [socket.IPPROTO_IP, kinds.IP_TRANSPARENT, 1]
        _ruled(
            ["both server * *:*", f"sdp client * *:{b[1]}"],
            [
                ({"option": for_tcp, "connect": b}, ["connect", errno.errorcode[errno.EOPNOTSUPP]]),
                ({"option": for_tcp, "connect": c}, [TCP, kinds.HOST]),
            ],
        )
        with raw_tcp() as taken:
            taken.bind(kinds.free_name())
            _ruled(
                [servers, "tcp client * *:*"],
                [({"bind": taken.getsockname(), "connect": c}, ["connect", "EADDRINUSE"])],
            )


@case
def the_log_says_of_each_connection_what_it_became() -> None:
    with (
        listener_of(raw_tcp()) as tcp,
        listener_of(raw_sdp()) as sdp,
        raw_tcp() as nobody,
    ):
        nobody.bind((kinds.HOST, 0))
        names = [sock.getsockname() for sock in (tcp, sdp, nobody)]
        ways: tuple[Socket, ...] = ({}, {"timeout": PATIENCE})
        sockets = [{"connect": name, **way} for way in ways for name in names]
        sockets += [{"connect_again": name} for name in names]
        over_tcp, over_sdp = (f"connect to {name}:{port}: " for name, port in names[:2])
        lines = [
            f"{over_tcp}TCP (no listener with SDP there) [fallback {count}]\n{over_sdp}SDP\n"
            for count in (1, 2, 3)
        ]
        seen, said = _calls(sockets, SDP_DEBUG="1")
        equal(_messages(said), "".join(lines))
        for start in (0, 3):
            refused = ["connect", "ECONNREFUSED"]
            equal(seen[start : start + 3], [[TCP, kinds.HOST], [SDP, kinds.HOST], refused])
        refused = ["connect_again", "ECONNREFUSED"]
        equal(seen[6:], [[TCP, kinds.HOST], [SDP, kinds.HOST], refused])


@case
def the_log_says_what_is_listened_with() -> None:
    with raw_sdp() as taken:
        taken.bind(kinds.free_name())
        port = taken.getsockname()[1]
        option = [socket.IPPROTO_IP, kinds.IP_TRANSPARENT, 1]
        for before, reason in (
            ({}, "the port is taken in SDP"),
            ({"option": option}, "the program has set an option that SDP has not"),
        ):
            call = {**before, "bind": [kinds.HOST, port], "listen": []}
            _, said = _calls([call], SDP_DEBUG="1")
            name = f"{kinds.HOST}:{port}"
            equal(_messages(said), f"listen on {name}: TCP ({reason}) [fallback 1]\n")


@case
def the_log_follows_who_is_root_no_more() -> None:
    nobody = 65534
    with listener_of(switched()) as listener, tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        name = listener.getsockname()
        rules = Path(place) / "rules"
        rules.write_text(
            f"log min-level 7 destination file {place}/log\nuse both client * *:*\n"
        )
        seen, said = _calls(
            [{"connect": name}, {"connect": name, "user": nobody}], LIBSDP_CONFIG_FILE=str(rules)
        )
        equal((seen, said), ([[SDP, kinds.HOST]] * 2, ""))
        for file, owner in ((f"{place}/log", 0), (f"{place}/log.{nobody}/log", nobody)):
            equal(Path(file).stat().st_uid, owner)
            lines = Path(file).read_text().splitlines()
            equal([line.endswith(f"connect to {name[0]}:{name[1]}: SDP") for line in lines], [True])
