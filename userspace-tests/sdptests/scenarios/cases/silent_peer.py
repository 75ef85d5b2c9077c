# SPDX-License-Identifier: MIT
"""A peer without an RDMA device does not answer a Hello: connect() of sockets that may use TCP."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import leftovers, limits, network
from sdptests.scenarios.cases.seeing import either
from sdptests.scenarios.network import A, B, device_gone
from sdptests.scenarios.register import packet_scenario, scenario
from sdptests.switch.kinds import SDP_TRANSPORT, forget_peer, raw_sdp, reason, transport
from sdptests.twohosts import uapi
from sdptests.twohosts.failure import Failure, check

PORT = 7030
# The connection manager gives up after a quarter of a minute.
SOON = 3
# Silence is forgotten by then, in seconds.
SILENCE_ENDS = 61
# In /proc/net/tcp.
SYN_SENT = "02"


class User:
    """A user of host a. Answers are remembered for a user, so each scenario has one of its own."""

    def __init__(self, number: int) -> None:
        self.number = 40000 + number

    def either(self) -> socket.socket:
        """A socket of the user that may use SDP or TCP."""
        sock = either("a")
        os.fchown(sock.fileno(), self.number, -1)
        return sock


def _server(protocol: int = socket.IPPROTO_TCP) -> socket.socket:
    with namespace("b"):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((B.address(4), PORT))
    sock.listen(64)
    sock.settimeout(limits.seconds(20))
    return sock


def _connect(sock: socket.socket) -> float:
    """Connects; returns how long it took."""
    before = time.monotonic()
    sock.connect((B.address(4), PORT))
    return time.monotonic() - before


def _way(sock: socket.socket) -> tuple[int, int]:
    return transport(sock), reason(sock)


def _talk(client: socket.socket, server: socket.socket) -> None:
    end, _ = server.accept()
    with end:
        client.sendall(b"question")
        check(end.recv(8, socket.MSG_WAITALL) == b"question", "other bytes")
        end.sendall(b"answer")
        check(client.recv(6, socket.MSG_WAITALL) == b"answer", "other bytes")


def _connected(
    user: User, server: socket.socket, way: tuple[int, int], *, blocking: bool = False
) -> float:
    """A connection that goes this way; returns how long connect() took."""
    with user.either() as client:
        if blocking:
            client.settimeout(None)
        took = _connect(client)
        check(_way(client) == way, f"{_way(client)} instead of {way}, after {took} s")
        _talk(client, server)
        return took


SILENT = (uapi.SDP_TRANSPORT_TCP, errno.ETIMEDOUT)
SKIPPED = (uapi.SDP_TRANSPORT_TCP, errno.EHOSTDOWN)
OVER_SDP = (uapi.SDP_TRANSPORT_SDP, 0)


def _is_reached(user: User, *, blocking: bool) -> None:
    """The first connect() asks both, the next ones TCP alone."""
    before = leftovers.stats("a")
    with device_gone(B), _server() as server:
        for way in (SILENT, SKIPPED, SKIPPED, SKIPPED):
            took = _connected(user, server, way, blocking=blocking)
            check(took < limits.seconds(SOON), f"{took} s")
    after = leftovers.stats("a")
    rise = {name: after[name] - before[name] for name in ("silent_peers", "silent_peers_skipped", "tcp_fallbacks")}
    check(rise == {"silent_peers": 1, "silent_peers_skipped": 3, "tcp_fallbacks": 4}, f"{rise}")


@scenario
def silent_peer_is_reached_over_tcp_at_once() -> None:
    """Until it is asked again."""
    user = User(1)
    _is_reached(user, blocking=False)
    time.sleep(SILENCE_ENDS)
    with _server(uapi.IPPROTO_SDP) as server:
        _connected(user, server, OVER_SDP)


@scenario
def silent_peer_is_reached_over_tcp_by_a_call_that_waits() -> None:
    """A blocking connect() is as fast."""
    _is_reached(User(14), blocking=True)


def _remembered(user: User, answer: str, most: int) -> None:
    """The one answer that the user has got, which counts for so many seconds at most."""
    found = json.loads(network.command("sdp_ss", "-PJ", host="a"))
    [peer] = [peer for peer in found if peer["uid"] == user.number]
    left = peer.pop("seconds")
    ends = {"uid": user.number, "local": A.address(4), "peer": B.address(4)}
    check(peer == ends | {"answer": answer} and most - 30 <= left <= most, f"{peer}, {left} s")


@scenario
def silence_and_answers_are_shown() -> None:
    """By sdp_ss, for each user, as long as they count. sdp_chk tells the silence of the host that it asks."""
    user, other = User(12), User(13)
    with _server(uapi.IPPROTO_SDP) as server:
        _connected(user, server, OVER_SDP)
    _remembered(user, "sdp", 600)
    with device_gone(B), _server() as server:
        _connected(other, server, SILENT)
        _remembered(other, "silent", 60)
        text = network.command("sdp_ss", "-P", host="a")
        check(any(line.startswith("silent") for line in text.splitlines()), text)
        # It fails, because the host has no SDP.
        said = network.command("sh", "-c", f"sdp_chk {B.address(4)} {PORT} || true", host="a")
        check(f"was silent when user {other.number} asked it" in said, said)
    _remembered(user, "sdp", 600)
    time.sleep(SILENCE_ENDS)
    shown = network.command("sdp_ss", "-HP", host="a").split()
    check(str(other.number) not in shown, "silence that no longer counts")


@scenario
def silent_peer_is_found_by_one_event() -> None:
    """A poller sees one event, when the connection can be used."""
    user = User(2)
    with device_gone(B), _server() as server, user.either() as client:
        client.setblocking(False)
        poller = select.epoll()
        with poller:
            poller.register(client, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
            poller.poll(0)
            check(client.connect_ex((B.address(4), PORT)) == errno.EINPROGRESS, "no EINPROGRESS")
            events = poller.poll(limits.seconds(SOON))
            check(events == [(client.fileno(), select.EPOLLOUT)], f"{events}")
            check(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, "an error")
            check(_way(client) == SILENT, f"{_way(client)}")
            check(client.connect_ex((B.address(4), PORT)) == 0, "connect() is not over")
            check(client.connect_ex((B.address(4), PORT)) == errno.EISCONN, "not connected")
            client.settimeout(limits.seconds(20))
            _talk(client, server)


@scenario
def silent_peer_that_asks_is_asked_again() -> None:
    """A Hello from the peer ends its silence for all."""
    user = User(3)
    with device_gone(B), _server() as server:
        _connected(user, server, SILENT)
        _connected(user, server, SKIPPED)
    with namespace("a"):
        mine = raw_sdp()
    with mine, either("b") as theirs:
        mine.bind((A.address(4), PORT))
        mine.listen(1)
        mine.settimeout(limits.seconds(20))
        theirs.connect((A.address(4), PORT))
        end, _ = mine.accept()
        end.close()
    with _server(uapi.IPPROTO_SDP) as server:
        _connected(user, server, OVER_SDP)


@scenario
def peer_that_has_answered_is_waited_for() -> None:
    """It may be busy: TCP's attempt begins when the connection manager has given up."""
    user = User(4)
    with _server(uapi.IPPROTO_SDP) as server:
        _connected(user, server, OVER_SDP)
    with device_gone(B), _server() as server:
        with user.either() as client:
            client.settimeout(None)
            took = _connect(client)
            check(_way(client) == SILENT, f"{_way(client)}")
            _talk(client, server)
        check(took > SOON, f"{took} s: nothing was waited for")
        _connected(user, server, SKIPPED)


@scenario
def silent_peer_without_a_server_is_refused_by_both() -> None:
    """TCP's refusal does not end SDP's attempt; the error is TCP's, as without SDP."""
    user = User(5)
    with device_gone(B), user.either() as client:
        client.settimeout(None)
        before = time.monotonic()
        error = client.connect_ex((B.address(4), PORT))
        took = time.monotonic() - before
        check(error == errno.ECONNREFUSED, errno.errorcode.get(error, "connected to nothing"))
        check(took > SOON, f"{took} s: SDP was not waited for")


def _attempts() -> int:
    """How many of TCP's attempts are under way on host a."""
    with namespace("a"):
        lines = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[3] == SYN_SENT for line in lines)


def _race(sock: socket.socket) -> None:
    """Begins to connect without waiting; returns when TCP's attempt is beside SDP's."""
    sock.setblocking(False)
    sock.connect_ex((B.address(4), PORT))
    limits.until("TCP's attempt", limits.seconds(SOON), lambda: _attempts() == 1)


@contextlib.contextmanager
def _full_server() -> Iterator[socket.socket]:
    """A server of TCP alone that answers no further attempt until it has accepted."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server())
        server.listen(0)
        with namespace("a"):
            full = stack.enter_context(socket.create_connection((B.address(4), PORT)))
        check(full.getpeername()[1] == PORT, "another peer")
        yield server


@scenario
def calls_amid_a_race_end_both_attempts() -> None:
    """close(), shutdown() and a disconnect while neither SDP nor TCP has an answer."""
    user = User(6)
    for call in ("close", "shutdown", "disconnect"):
        with user.either() as client:
            with device_gone(B), _full_server():
                _race(client)
                if call == "close":
                    client.close()
                elif call == "shutdown":
                    client.shutdown(socket.SHUT_RDWR)
                else:
                    forget_peer(client)
                limits.until("the end of TCP's attempt", limits.seconds(SOON), lambda: _attempts() == 0)
            if call == "disconnect":
                # The silence of a moment is no answer.
                client.settimeout(limits.seconds(20))
                with _server(uapi.IPPROTO_SDP) as server:
                    _connect(client)
                    check(_way(client) == OVER_SDP, f"{_way(client)}")
                    _talk(client, server)


@scenario
def socket_listens_after_a_race() -> None:
    """TCP's attempt ends with the call that ends the connect(), and nothing of it reaches the listener."""
    user = User(15)
    for end in (forget_peer, lambda sock: sock.shutdown(socket.SHUT_RDWR)):
        with user.either() as listener:
            with device_gone(B), _full_server():
                _race(listener)
                end(listener)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((A.address(4), PORT))
                listener.listen(1)
            # Workers of the attempt have had their time.
            time.sleep(0.2)
            listener.settimeout(limits.seconds(20))
            with namespace("b"):
                client = socket.create_connection((A.address(4), PORT), limits.seconds(20))
            with client:
                _talk(client, listener)


@scenario
def socket_uses_sdp_alone_after_a_race() -> None:
    """An answer over SDP is not held for an attempt of TCP that has ended."""
    user = User(16)
    with user.either() as client:
        with device_gone(B), _full_server():
            _race(client)
            forget_peer(client)
            client.setsockopt(socket.IPPROTO_TCP, SDP_TRANSPORT, uapi.SDP_TRANSPORT_SDP)
            check(_attempts() == 0, "TCP's attempt goes on")
        client.settimeout(limits.seconds(20))
        with _server(uapi.IPPROTO_SDP) as server:
            took = _connect(client)
            check(took < limits.seconds(SOON), f"{took} s")
            _talk(client, server)


@scenario
def connection_that_the_peer_resets_at_once_is_not_made_again() -> None:
    """A server that accepts over TCP and resets has not refused."""
    user = User(17)
    with device_gone(B), _server() as server, user.either() as client:

        def reset() -> None:
            end, _ = server.accept()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

        client.settimeout(None)
        thread = threading.Thread(target=reset)
        thread.start()
        before = time.monotonic()
        error = client.connect_ex((B.address(4), PORT))
        took = time.monotonic() - before
        thread.join()
        check(error in (0, errno.ECONNRESET), errno.errorcode.get(error, str(error)))
        check(took < limits.seconds(SOON), f"{took} s")
        server.settimeout(limits.seconds(SOON))
        with contextlib.suppress(TimeoutError):
            server.accept()
            raise Failure("a second connection")


@scenario
def late_answer_over_tcp_is_noticed() -> None:
    """TCP's second packet is answered, a second behind the first."""
    user = User(18)
    with device_gone(B), user.either() as client, _full_server() as server:
        before = time.monotonic()
        _race(client)
        server.accept()[0].close()
        poller = select.poll()
        poller.register(client, select.POLLOUT)
        check(bool(poller.poll(limits.seconds(20) * 1000)), "no connection")
        took = time.monotonic() - before
        check(took < limits.seconds(1.5), f"{took} s")
        check(_way(client) == SILENT, f"{_way(client)}")
        client.settimeout(limits.seconds(20))
        _talk(client, server)


@scenario
def late_answer_ends_the_attempt_of_tcp() -> None:
    """The peer's device comes while both attempts are under way: SDP has the connection."""
    user = User(7)
    with user.either() as client, _full_server():
        with device_gone(B):
            _race(client)
        with namespace("b"):
            listener = raw_sdp()
        with listener:
            listener.bind((B.address(4), PORT))
            listener.listen(1)
            listener.settimeout(limits.seconds(20))
            client.settimeout(limits.seconds(20))
            poller = select.poll()
            poller.register(client, select.POLLOUT)
            check(bool(poller.poll(limits.seconds(20) * 1000)), "no connection")
            check(_way(client) == OVER_SDP, f"{_way(client)}")
            limits.until("the end of TCP's attempt", limits.seconds(SOON), lambda: _attempts() == 0)
            _talk(client, listener)


@packet_scenario
def both_answers_that_are_late_are_one_connection() -> None:
    """SDP's answer comes while TCP's attempt is on its way: a server accepts one connection."""
    user = User(8)
    with network.disturbed("delay", "30ms"), _server(uapi.IPPROTO_SDP) as server:
        for way in ((uapi.SDP_TRANSPORT_TCP, errno.ETIMEDOUT), OVER_SDP):
            # The second time the peer has answered before.
            _connected(user, server, way)
            server.settimeout(limits.seconds(SOON))
            with contextlib.suppress(TimeoutError):
                server.accept()
                raise Failure("a second connection")
            server.settimeout(limits.seconds(20))
