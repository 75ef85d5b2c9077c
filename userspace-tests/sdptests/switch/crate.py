# SPDX-License-Identifier: MIT
"""The crate sdp-socket between the hosts a and b, tested by its examples, without the library."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sdptests.switch import kinds
from sdptests.switch.checking import OTHER, outcome, without_library
from sdptests.switch.kinds import accepted, case, equal, in_thread, listener_of, raw_tcp

EXAMPLES = Path("/mnt/target/release/examples")
OTHERS = (OTHER, "fd00::2")
OWN = (kinds.HOST, "fd00::1")


def _name(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _run(*command: str) -> list[str]:
    """The output of a program that succeeds."""
    status, lines = outcome(*command)
    if status:
        raise AssertionError(f"{command}: status {status}: {lines}")
    return lines


@contextlib.contextmanager
def _server(host: str, *how: str) -> Iterator[tuple[str, Iterator[str]]]:
    """echo on the other host: its address and port, and its output."""
    command = ["ip", "netns", "exec", "b", str(EXAMPLES / "echo"), "serve", _name(host, 0), *how]
    with subprocess.Popen(
        command, env=without_library(), stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[1], server.stdout
        finally:
            server.kill()


@case
def a_rust_program_talks_over_sdp() -> None:
    for host in OTHERS:
        with _server(host) as (name, said):
            equal(_run(str(EXAMPLES / "echo"), "ask", name, "a question"), ["a question over Sdp"])
            equal(next(said), "10 bytes over Sdp\n")


@case
def a_rust_program_turns_to_tcp_and_says_why() -> None:
    with listener_of(raw_tcp()) as listener:
        host, port = listener.getsockname()

        def echo() -> None:
            with accepted(listener) as sock:
                sock.sendall(sock.recv(10, socket.MSG_WAITALL))

        with in_thread(echo):
            said = _run(str(EXAMPLES / "echo"), "ask", _name(host, port), "a question", "both")
        equal(said, ["a question over Tcp", "SDP: Connection refused (os error 111)"])


@case
def rust_programs_of_tokio_talk_over_sdp() -> None:
    for host in OWN:
        said = _run(str(EXAMPLES / "echo_tokio"), _name(host, 0), "20")
        equal(said, ["an answer over Sdp"] * 20)
