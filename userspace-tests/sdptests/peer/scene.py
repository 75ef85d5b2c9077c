# SPDX-License-Identifier: MIT
"""The environment of an attack: the module listening in b, its counters, and bystanders.

A bystander is a connection between two sockets of the module that exists before an attack
and must work unchanged after it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sdptests.peer.conversation import Conversation
from sdptests.peer.peer import PATIENCE, Peer, namespace
from sdptests.peer.stream import Connecting, Listener, Stream
from sdptests.peer.wire import Hello, HelloAck, Mid
from sdptests.twohosts import counters
from sdptests.twohosts.failure import Failure, check

HAS_IPV6 = Path("/proc/sys/net/ipv6").exists()
ADDRESSES = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}
STATS = Path("/proc/self/net/sdpstats")
SOCKETS = Path("/proc/self/net/sdp")


def buffers(count: int, size: int) -> dict[str, int]:
    """Settings of a peer that posts the announced buffers, within limits."""
    return {"posted": min(count, 64), "receive_size": max(1, min(size, 65536))}


class Victim:
    """A connection between a raw peer and a socket of the module."""

    def __init__(
        self, peer: Peer, talk: Conversation, ack: HelloAck, stream: Stream | None = None
    ) -> None:
        self.peer = peer
        self.talk = talk
        self.ack = ack
        self._stream = stream

    @property
    def stream(self) -> Stream:
        """The module's socket; on the passive side it is accepted first."""
        if self._stream is None:
            raise ValueError("the connection was not accepted")
        return self._stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._stream = stream


class Scene:
    """The environment; see the module's docstring."""

    def __init__(self) -> None:
        self._case = contextlib.ExitStack()
        self._ports = itertools.count(40000)
        self._services = itertools.count(7001)
        self._bystander_round = itertools.count(1)
        with namespace("b"):
            self.listener = Listener(ADDRESSES[4][1])
            # In a world without IPv6 (ipv6.disable=1) no case asks for it.
            self.listener6 = Listener(ADDRESSES[6 if HAS_IPV6 else 4][1])
        with namespace("a"):
            connecting = Connecting(self.listener.address, self.listener.port)
        self.bystanders = connecting.stream(), self.listener.accept()
        self._calm = self.tables()
        self.before = self.stats()

    # The module's view.

    @staticmethod
    def stats(host: str = "b") -> counters.Counters:
        """The counters of a namespace."""
        with namespace(host):
            return counters.parse(STATS.read_text())

    @staticmethod
    def table(host: str) -> list[str]:
        """The sockets of a namespace."""
        with namespace(host):
            return SOCKETS.read_text().splitlines()[1:]

    def tables(self) -> dict[str, int]:
        """The number of sockets."""
        return {host: len(self.table(host)) for host in ("a", "b")}

    def moved(self, host: str = "b", **least: int) -> None:
        """Waits until counters have changed by exactly so much since the case began."""
        deadline = time.monotonic() + PATIENCE
        while True:
            now = self.stats(host)
            changes = {name: now[name] - self.before_of(host)[name] for name in least}
            if changes == least:
                return
            # A number of sockets falls as well, when the last of their messages are handled.
            beyond = any(changes[n] > least[n] for n in least if n != "orphans")
            if time.monotonic() > deadline or beyond:
                raise Failure(f"counters have moved by {changes}, not by {least}")
            time.sleep(0.01)

    @staticmethod
    def comes(what: Callable[[], bool], seconds: float) -> bool:
        """Whether it becomes true within that time."""
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def before_of(self, host: str) -> counters.Counters:
        """The counters when the case began."""
        return self.before if host == "b" else self._before_a

    # A case.

    @contextlib.contextmanager
    def case(self) -> Iterator[None]:
        """Surrounds each case: the same state before and after."""
        self.before = self.stats("b")
        self._before_a = self.stats("a")
        try:
            with self._case:
                yield
            self.unharmed()
        finally:
            self._case.close()

    def keep(self, thing: Peer | Stream | Listener | Connecting) -> None:
        """Closes it at the end of the case, unless it was closed before."""
        self._case.callback(thing.close)

    def unharmed(self) -> None:
        """Everything is as before the attacks."""
        self.bystanders_talk()
        self.settle()
        check(self.listener.is_idle(), "a connection has appeared")

    def settle(self, tables: dict[str, int] | None = None, timeout: float = PATIENCE) -> None:
        """Waits until there are as many sockets as in `tables`, or as before all attacks."""
        tables = tables or self._calm
        if not self.comes(lambda: self.tables() == tables, timeout):
            left = [f"{host}: {line}" for host in ("a", "b") for line in self.table(host)]
            raise Failure("\n".join(["sockets have stayed or gone:", *left]))

    def bystanders_talk(self) -> None:
        """The bystanders exchange new bytes."""
        number = next(self._bystander_round)
        for source, sink in (self.bystanders, reversed(self.bystanders)):
            data = number.to_bytes(4, "big") * 1000
            source.send(data)
            check(sink.receive(len(data)) == data, "the bystanders' bytes are not what was sent")

    @contextlib.contextmanager
    def knob(self, name: str, value: int) -> Iterator[None]:
        """Sets another value of net.sdp.* in b for a while."""
        path = Path("/proc/sys/net/sdp") / name
        with namespace("b"):
            before = path.read_text()
            path.write_text(str(value))
        try:
            yield
        finally:
            with namespace("b"):
                path.write_text(before)

    def close(self) -> None:
        """Closes everything that is left."""
        for thing in (*self.bystanders, self.listener, self.listener6):
            thing.close()

    # Attacks on the passive side.

    def hello(self, ip: int = 4, **fields: object) -> Hello:
        """A valid Hello, except for the given fields."""
        src, dst = ADDRESSES[ip]
        return Hello(**{"src": src, "dst": dst, "local_port": next(self._ports)} | fields)

    def peer(self, **settings: int) -> Peer:
        """A raw peer."""
        peer = Peer(**settings)
        self.keep(peer)
        return peer

    def listen(self, backlog: int) -> Listener:
        """A further listener in b."""
        with namespace("b"):
            listener = Listener(ADDRESSES[4][1], backlog)
        self.keep(listener)
        return listener

    def _listener(self, ip: int, at: Listener | None) -> Listener:
        return at or (self.listener if ip == 4 else self.listener6)

    def request(
        self, hello: Hello | bytes, ip: int = 4, at: Listener | None = None, **settings: int
    ) -> Peer:
        """A raw peer in a that has sent a Hello to a listener in b."""
        if isinstance(hello, Hello):
            settings = buffers(hello.bufs, hello.rcv_size) | settings
            hello = hello.pack()
        peer = self.peer(**settings)
        src, dst = ADDRESSES[ip]
        with namespace("a"):
            peer.connect(src, dst, self._listener(ip, at).port, hello)
        return peer

    def greet(
        self,
        ip: int = 4,
        hello: Hello | None = None,
        at: Listener | None = None,
        **settings: int,
    ) -> Victim:
        """A connection up to the HelloAck; it has no stream yet."""
        hello = hello or self.hello(ip)
        peer = self.request(hello, ip, at, **settings)
        ack = HelloAck.parse(peer.expect("rep").data)
        talk = Conversation(peer, hello.bufs, ack.bufs, ack.rcv_size, hello.rcv_size)
        return Victim(peer, talk, ack)

    def establish(
        self,
        ip: int = 4,
        hello: Hello | None = None,
        at: Listener | None = None,
        **settings: int,
    ) -> Victim:
        """A connection, accepted by the module's listener."""
        victim = self.greet(ip, hello, at, **settings)
        victim.peer.rtu()
        return self.accept(victim, ip, at)

    def accept(self, victim: Victim, ip: int = 4, at: Listener | None = None) -> Victim:
        """The module's side of a connection."""
        victim.stream = self._listener(ip, at).accept()
        self.keep(victim.stream)
        return victim

    # Attacks on the active side.

    def await_request(self, **settings: int) -> tuple[Connecting, Peer, Hello]:
        """The module connects from b to a raw peer in a; up to the Hello."""
        src, dst = ADDRESSES[4]
        port = next(self._services)
        peer = self.peer(**settings)
        with namespace("a"):
            peer.listen(src, port)
        with namespace("b"):
            connecting = Connecting(src, port)
        self.keep(connecting)
        hello = Hello.parse(peer.expect("req").data)
        check((hello.src, hello.dst) == (dst, src), f"the Hello is from {hello.src} to {hello.dst}")
        return connecting, peer, hello

    def answer(self, ack: HelloAck | None = None, **settings: int) -> Victim:
        """A connection from the module to a raw peer."""
        ack = ack or HelloAck()
        connecting, peer, hello = self.await_request(**buffers(ack.bufs, ack.rcv_size) | settings)
        peer.reply(ack.pack())
        stream = connecting.stream()
        peer.expect("established")
        talk = Conversation(peer, ack.bufs, hello.bufs, hello.rcv_size, ack.rcv_size)
        return Victim(peer, talk, ack, stream)

    # Outcomes of attacked connections.

    def ends_with(self, victim: Victim, number: int, data: bytes = b"") -> None:
        """Reading delivers these bytes and then this error, once."""
        found, read = victim.stream.end()
        names = [errno.errorcode.get(n, str(n)) for n in (found, number)]
        check(found == number, f"reading has ended with {names[0]}, not with {names[1]}")
        check(read == data, f"{len(read)} bytes were read before that: {read[:40]!r}")
        if number:
            check(victim.stream.end() == (0, b""), "the error is told more than once")

    def is_reset(self, victim: Victim, data: bytes = b"") -> None:
        """This connection was reset for a violation, with a message to the peer."""
        victim.peer.expect("dreq")
        victim.peer.drep()
        self.ends_with(victim, errno.ECONNRESET, data)

    def is_dead(self, victim: Victim, *others: int) -> None:
        """This connection was reset, or ended with one of the other errors; received bytes do not matter."""
        found, _data = victim.stream.end()
        check(found in (errno.ECONNRESET, *others), f"ended with {errno.errorcode.get(found, found)}")

    def is_violation(self, victim: Victim, data: bytes = b"") -> None:
        """This connection was reset and is counted as a violation."""
        self.is_reset(victim, data)
        self.moved(violations=1, resets_sent=1)

    def works(self, victim: Victim) -> None:
        """This connection transfers bytes in both directions."""
        talk, data = victim.talk, b"still here " * 500
        talk.write(data)
        check(victim.stream.receive(len(data)) == data, "bytes from the peer are not what was sent")
        victim.stream.send(data[::-1])
        check(talk.read(len(data)) == data[::-1], "bytes to the peer are not what was sent")

    def parts(self, victim: Victim) -> None:
        """This connection ends normally; the peer closes first."""
        victim.talk.put(Mid.DIS_CONN)
        self.ends_with(victim, 0)
        victim.stream.close()
        victim.talk.expect(Mid.DIS_CONN)
        victim.peer.dreq()
        victim.peer.expect("drep")
