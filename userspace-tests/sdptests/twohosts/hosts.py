# SPDX-License-Identifier: MIT
"""A host and its processes: commands that end, and servers that must become ready first."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdptests.twohosts.failure import Failure, parsed

# Time limit of a command. Emulated machines under a debug kernel are slow, so only a hanging
# command reaches it. Guests that share a machine are slower.
GUESTS = int(os.environ.get("SDP_GUESTS", "1"))
PATIENCE = float(os.environ.get("SDP_PATIENCE", 300 * GUESTS))


@dataclass(frozen=True)
class Host:
    """One of the two hosts, for a test that may run on either."""

    name: str
    ipv4: str
    ipv6: str
    # The command prefix for running there.
    prefix: tuple[str, ...]

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on this host."""
        return [*self.prefix, *command]

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
        may_fail: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `command` to its end; a non-zero status is a failure unless it may fail."""
        try:
            done = subprocess.run(
                self.argv(command),
                env=_environment(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except FileNotFoundError as error:
            raise Failure(f"{error.filename} is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{self._say(command)} did not end within {timeout:.0f} s") from error
        if done.returncode != 0 and not may_fail:
            raise Failure(
                f"{self._say(command)} ended with {_status(done.returncode)}\n"
                f"{_tail(done.stdout + done.stderr)}"
            )
        return done

    def start(
        self,
        command: Sequence[str],
        *,
        ready: str | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Server:
        """Starts `command`; `ready` is a pattern of the output line that shows that it is ready."""
        return Server(self, command, ready, env, pass_fds)

    def file(self, path: str) -> str | None:
        """The content of a file on this host, or None if it does not exist."""
        done = self.run(["cat", path], may_fail=True)
        return done.stdout if done.returncode == 0 else None

    def _say(self, command: Sequence[str]) -> str:
        return f"{' '.join(command)} on {self.name}"


class Server:
    """A process that runs until it is stopped or ends by itself."""

    def __init__(
        self,
        host: Host,
        command: Sequence[str],
        ready: str | None,
        env: Mapping[str, str] | None,
        pass_fds: Sequence[int],
    ) -> None:
        self._said = f"{' '.join(command)} on {host.name}"
        self._lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        try:
            self.process = subprocess.Popen(
                host.argv(command),
                env=_environment(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                pass_fds=pass_fds,
            )
        except FileNotFoundError as error:
            raise Failure(f"{error.filename} is not installed") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ready: re.Match[str] | None = None
        if ready is not None:
            try:
                self.ready = self.expect(ready)
            except Failure:
                self.stop()
                raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)
            self._new.put(line)
        self._new.put(None)

    def expect(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Waits for an output line that `pattern` matches."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._new.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self._said} did not say {pattern!r} in {timeout:.0f} s") from None
            if line is None:
                self._new.put(None)
                raise Failure(f"{self._said} ended\n{_tail(self.output())}")
            if match := re.search(pattern, line):
                return match

    def number(self) -> int:
        """The number in the line that showed that it is ready: a port."""
        return int(parsed(self.ready, self.output(), "the port")[1])

    def output(self) -> str:
        """All output so far, on stdout and stderr."""
        return "".join(self._lines)

    def end(self, timeout: float = PATIENCE) -> int:
        """Waits until it ends by itself, and returns its status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure(
                f"{self._said} did not end within {timeout:.0f} s\n{_tail(self.output())}"
            ) from None
        self._reader.join()
        return status

    def finish(self, timeout: float = PATIENCE) -> str:
        """Waits until it ends by itself, successfully; returns its output."""
        status = self.end(timeout)
        if status != 0:
            raise Failure(f"{self._said} ended with {_status(status)}\n{_tail(self.output())}")
        return self.output()

    def stop(self) -> None:
        """Ends it in any state."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        self._reader.join(10)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _environment(added: Mapping[str, str] | None) -> dict[str, str]:
    # The locale is fixed, because numbers are parsed from the output of programs.
    return {**os.environ, "LC_ALL": "C", **(added or {})}


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def hosts() -> tuple[Host, Host]:
    """The two hosts: namespaces of this machine, or this machine and another one."""
    return namespaces() if Path("/run/netns/a").exists() else machines()


def namespaces() -> tuple[Host, Host]:
    """The topology of two network namespaces of this machine."""
    return (
        Host("a", "10.0.0.1", "fd00::1", ("ip", "netns", "exec", "a")),
        Host("b", "10.0.0.2", "fd00::2", ("ip", "netns", "exec", "b")),
    )


def machines() -> tuple[Host, Host]:
    """The topology of two machines; the tests run on `a`."""
    return (
        Host("a", "10.0.0.1", "fd00::1", ()),
        Host("b", "10.0.0.2", "fd00::2", ("on", "b")),
    )
