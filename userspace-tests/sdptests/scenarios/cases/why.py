# SPDX-License-Identifier: MIT
"""sdp_ss --why and sdp_chk --why: each cause is made to happen, and is named with its bytes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener, Stream
from sdptests.scenarios import limits, network, uncopied
from sdptests.scenarios.actor import Actor, Line
from sdptests.scenarios.cases import ipsec
from sdptests.scenarios.cases.seeing import either, only
from sdptests.scenarios.cases.silent_peer import User
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native, uapi
from sdptests.twohosts.failure import check

# Bytes of a call below each threshold, and of one above the threshold of `uncopied`.
FEW, MANY = 1000, 32768
Shares = dict[tuple[str, str], int]
IP_TRANSPARENT = 19
PR_SET_NO_NEW_PRIVS = 38


def _sums(shares: list[dict]) -> Shares:
    """Bytes by direction and cause, or way if there is no cause."""
    for share in shares:
        check(("cause" in share) == ("remedy" in share), f"no remedy: {share}")
    return {(one["direction"], one.get("cause", one["way"])): one["bytes"] for one in shares}


def _shares(host: str) -> Shares:
    """Of the one connection of the host."""
    return _sums(only(host, "--why", "state", "established").get("why", []))


def _all(host: str) -> Shares:
    """Of the namespace."""
    return _sums(json.loads(network.command("sdp_ss", "-N", host, "--summary", "--why", "--json")))


@contextlib.contextmanager
def _connection(*options: tuple[int, bytes]) -> Iterator[tuple[socket.socket, Stream]]:
    """A client of a, which blocks, and its end on b, which does not."""
    with namespace("b"):
        listener = Listener(B.address(4))
    with namespace("a"):
        client = native.make("sdp", B.address(4))
        for option, value in options:
            client.setsockopt(socket.SOL_TCP, option, value)
        native.connect(client, B.address(4), listener.port)
    end = listener.accept()
    listener.close()
    with client:
        yield client, end
    end.close()


def _send(client: socket.socket, end: Stream) -> Shares:
    """A short call and a long one. Neither may wait. Returns the sender's shares."""
    client.setblocking(False)
    for length in (FEW, MANY):
        check(client.send(bytes(length)) == length, "a part was sent")
        check(len(end.receive(length)) == length, "the bytes")
    return _shares("a")


@scenario
def an_event_loop_copies_long_messages() -> None:
    """Short ones are short; the reader is told that the sender has chosen; sums by namespace."""
    with uncopied.lending():
        before = _all("a")
        with _connection() as (client, end):
            shares = _send(client, end)
            check(shares == {("sent", "short"): FEW, ("sent", "nowait"): MANY}, f"{shares}")
            check(_shares("b") == {("received", "sender"): FEW + MANY}, f"{_shares('b')}")
            text = network.command("sdp_ss", "--why", host="a")
            for words in ("an event loop", "-> lend the memory", f"(the namespace's: {uncopied.THRESHOLD})"):
                check(words in text, f"no {words} in\n{text}")
        after = _all("a")
    moved = {key: n - before.get(key, 0) for key, n in after.items() if n != before.get(key)}
    check(moved == shares, f"{moved} and not {shares}")


@scenario
def what_a_connection_copies_for_good_has_one_cause() -> None:
    """Off by the knob or the program, off at the peer, an exception, a device; the owner of the threshold."""
    with namespace("a"):
        excepted = uncopied.KNOBS / "zcopy_except"
    with uncopied.lending():
        with _connection((uapi.SDP_ZCOPY_THRESH, struct.pack("i", 0))) as (client, end):
            check(_send(client, end) == {("sent", "off"): FEW + MANY}, f"{_shares('a')}")
        with _connection((uapi.SDP_ZCOPY_THRESH, struct.pack("i", 2 * MANY))) as (client, end):
            check(_send(client, end) == {("sent", "short"): FEW + MANY}, f"{_shares('a')}")
            text = network.command("sdp_ss", "--why", host="a")
            check(f"(the program's: {2 * MANY})" in text, text)
        with namespace("a"):
            excepted.write_text(B.address(4))
        try:
            with _connection() as (client, end):
                check(_send(client, end) == {("sent", "excepted"): FEW + MANY}, f"{_shares('a')}")
        finally:
            with namespace("a"):
                excepted.write_text("\n")
        with namespace("b"):
            (uncopied.KNOBS / "zcopy_thresh").write_text("0")
        with _connection() as (client, end):
            check(_send(client, end) == {("sent", "peer"): FEW + MANY}, f"{_shares('a')}")
    # A device of rlo has the limits of the time at which it is made.
    pages = Path("/sys/module/rlo/parameters/max_mr_pages")
    if not pages.exists():
        return
    usual = pages.read_text()
    try:
        with network.device_gone(A):
            pages.write_text("1")
        with uncopied.lending(), _connection() as (client, end):
            check(_send(client, end) == {("sent", "device"): FEW + MANY}, f"{_shares('a')}")
    finally:
        pages.write_text(usual)
        with network.device_gone(A):
            pass


@contextlib.contextmanager
def _writer(client: socket.socket, calls: int = 1, length: int = MANY) -> Iterator[None]:
    """A thread makes so many long calls that may wait."""

    def write() -> None:
        for _ in range(calls):
            client.sendall(bytes(length))

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join(limits.seconds(20))
    check(not thread.is_alive(), "the writer still waits")


@scenario
def calls_that_may_wait_are_read_or_copied_for_a_cause() -> None:
    """By Reads or Writes; declined by an event loop; a reader that is away; no regions."""
    with uncopied.lending():
        with _connection() as (client, end):
            with _writer(client):
                end.receive(MANY)
            shares = _shares("b")
            check(0 < shares.get(("received", "nowait"), 0) <= MANY, f"{shares}")
            end.sock.setblocking(True)
            for _ in range(20):
                with _writer(client):
                    end.sock.recv(MANY, socket.MSG_WAITALL)
            shares = _shares("a")
            uncopied_bytes = [n for (_, how), n in shares.items() if how.startswith("no copy")]
            check(sum(uncopied_bytes) >= MANY, f"{shares}")
        calls = 200
        with _connection() as (client, end), _writer(client, calls):
            limits.until(
                "a writer whose bytes nobody reads",
                limits.seconds(30),
                lambda: _shares("a").get(("sent", "busy"), 0) > 0,
            )
            end.receive(calls * MANY, limits.seconds(30))
    for host in (A, B):
        with network.device_gone(host):
            pass
    with uncopied.regions(0), uncopied.lending(), _connection() as (client, end):
        with _writer(client):
            end.receive(MANY)
        check(_shares("a") == {("sent", "limit"): MANY}, f"{_shares('a')}")
    # The last parts of a piece are below the threshold that all of it has reached.
    most = 4 * MANY
    own = (uapi.SDP_ZCOPY_THRESH, struct.pack("i", most))
    with uncopied.regions(0), uncopied.lending(), _connection(own) as (client, end):
        with _writer(client, length=most):
            end.receive(most)
        check(_shares("a") == {("sent", "limit"): most}, f"{_shares('a')}")


@scenario
def shared_memory_is_not_borrowed() -> None:
    """A program that lends it to SDP_BORROW is told why it is copied."""
    shared = mmap.mmap(-1, MANY)
    room = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(room))
    # The counter, the report behind it, and its one range.
    room[64:88] = struct.pack("=QQII", 0, at + 128, 1, 0)
    borrow = struct.pack("=QiIIIII", at, -1, 0, uncopied.THRESHOLD, 0, 0, 0)
    asked = (socket.SOL_TCP, uapi.SDP_BORROW, struct.pack("=Q", at + 64))
    with uncopied.lending(), _connection((uapi.SDP_BORROW, borrow)) as (client, end):
        check(client.sendmsg([shared], [asked]) == MANY, "a part was sent")
        end.receive(MANY)
        check(_shares("a") == {("sent", "memory"): MANY}, f"{_shares('a')}")


def _tcp(client: socket.socket, server: socket.socket, cause: str) -> None:
    """The connection is TCP's for this cause, with the bytes of TCP."""
    client.connect((B.address(4), server.getsockname()[1]))
    with server.accept()[0] as end:
        client.sendall(b"five!")
        check(end.recv(5, socket.MSG_WAITALL) == b"five!", "other bytes")
        end.sendall(b"and seven"[:7])
        check(client.recv(7, socket.MSG_WAITALL) == b"and sev", "other bytes")
        shares = _shares("a")
        check(shares == {("sent", cause): 5, ("received", cause): 7}, f"{cause}: {shares}")
        total = _all("a")
        check(shares.items() <= total.items(), f"{cause}: {total}")


@scenario
def a_socket_on_tcp_says_why_and_how_much() -> None:
    """Chosen, an option, no listener over SDP, no device, silence, remembered silence, IPsec."""
    with namespace("b"):
        server = socket.create_server((B.address(4), 7040))
    with server:
        with either("a") as client:
            client.setsockopt(socket.SOL_TCP, uapi.SDP_TRANSPORT, uapi.SDP_TRANSPORT_TCP)
            _tcp(client, server, "chosen")
        with either("a") as client:
            client.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
            _tcp(client, server, "option")
        with either("a") as client:
            _tcp(client, server, "refused")
        with network.device_gone(A), either("a") as client:
            _tcp(client, server, "no_device")
        user = User(40)
        with network.device_gone(B):
            for cause in ("silent", "remembered"):
                with user.either() as client:
                    _tcp(client, server, cause)
        directions = [(host, way) for host in ("a", "b") for way in ("in", "out")]
        with ipsec.demanded(4, *(ipsec.Policy(*one) for one in directions)), either("a") as client:
            _tcp(client, server, "ipsec")


def _sandboxed(line: Line, port: int, over: str) -> None:
    """Connects, sends, and waits; over TCP in what may be a sandbox."""
    if over == "tcp":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with native.make(over, B.address(4)) as sock:
        native.connect(sock, B.address(4), port)
        sock.setblocking(False)
        sock.send(bytes(MANY))
        line.say("sent")
        line.hear()


@scenario
def sdp_chk_says_why_of_a_process() -> None:
    """An event loop, a sandbox, and a process that is not there."""
    for over, words in (
        ("sdp", ["an event loop", "-> lend the memory", f"{MANY} bytes sent: copies"]),
        ("tcp", ["no_new_privs", "no socket of SDP", "sdp_run"]),
    ):
        with uncopied.lending():
            with namespace("b"), native.listen(over, B.address(4)) as listener:
                actor = Actor("a", _sandboxed, native.own_name(listener)[1], over)
                with native.accept(listener) as end:
                    check(actor.word(limits.seconds(20)) == "sent", "the actor")
                    end.recv(MANY, socket.MSG_WAITALL)
                    text = network.command("sdp_chk", "--why", str(actor.pid))
                    missing = [word for word in words if word not in text]
                    check(not missing, f"no {missing} in\n{text}")
                    actor.end()
    gone = network.command("sh", "-c", f"sdp_chk --why {actor.pid} || echo status $?")
    check("BAD" in gone and "status 1" in gone, gone)
