# SPDX-License-Identifier: MIT
"""A process on a host that performs one action, may block in it, and can be killed."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import limits
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.sleeping import sleeps_in

WORD = 65536


class Line:
    """The actor's end of the channel to its scenario."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """For poll: readable if there is a message."""
        return self._sock.fileno()

    def say(self, word: object) -> None:
        """Sends a message to the scenario."""
        self._sock.send(pickle.dumps(word))

    def hear(self) -> object:
        """Waits for a message of the scenario."""
        data = self._sock.recv(WORD)
        if not data:
            os._exit(0)
        return pickle.loads(data)


class Actor:
    """An actor. `work` gets a Line and `args`; its errors are the actor's outcome."""

    def __init__(self, host: str, work: Callable[..., object], *args: object) -> None:
        self._name = f"{work.__name__} on {host}"
        self._sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._sock.close()
            self._play(host, other, work, args)
        other.close()
        self._reaped = False

    @staticmethod
    def _play(host: str, sock: socket.socket, work: Callable[..., object], args: tuple) -> None:
        status = 1
        try:
            line = Line(sock)
            with namespace(host):
                try:
                    line.say(("result", work(line, *args)))
                except OSError as error:
                    line.say(("error", error.errno, traceback.format_exc(limit=-3)))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def tell(self, word: object) -> None:
        """Sends a message to the actor."""
        self._sock.send(pickle.dumps(word))

    def outcome(self, limit: float) -> object | None:
        """The actor's next message, or None when it has died."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        if not poll.poll(limit * 1000):
            raise Failure(f"{self._name} says nothing for {limit:.0f} s, in\n{self.stack()}")
        data = self._sock.recv(WORD)
        return pickle.loads(data) if data else None

    def word(self, limit: float) -> object:
        """The actor's next message."""
        word = self.outcome(limit)
        if word is None:
            raise Failure(f"{self._name} has ended")
        return word

    def error(self, limit: float) -> int:
        """Waits for its end; returns the errno of the failed call, or 0."""
        word = self.word(limit)
        if isinstance(word, tuple) and word[0] == "error":
            return int(word[1])
        if isinstance(word, tuple) and word[0] == "result":
            return 0
        raise Failure(f"{self._name} says {word} instead of ending")

    def stack(self) -> str:
        """Its current system call."""
        try:
            return Path(f"/proc/{self.pid}/stack").read_text()
        except OSError as error:
            return str(error)

    def await_call(self, call: str, limit: float) -> None:
        """Waits until it sleeps in this system call."""
        limits.until(
            f"{self._name} sleeping in {call}()",
            limit,
            lambda: sleeps_in(Path(f"/proc/{self.pid}"), call),
        )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def reap(self, limit: float) -> float:
        """Waits until the process and its descriptors are gone; returns the seconds it took."""

        def gone() -> bool:
            self._reaped = self._reaped or os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            return self._reaped

        try:
            return limits.until(f"the end of {self._name}", limit, gone)
        except Failure as failure:
            raise Failure(f"{failure}; it is in\n{self.stack()}") from None

    def end(self) -> None:
        """Kill and reap."""
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                self.kill()
            self.reap(limits.seconds(15))
        self._sock.close()
