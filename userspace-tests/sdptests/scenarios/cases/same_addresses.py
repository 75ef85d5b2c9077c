# SPDX-License-Identifier: MIT
"""A program connects again from the port of a connection that it has just closed."""

from __future__ import annotations

import socket

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener, Stream
from sdptests.scenarios import leftovers
from sdptests.scenarios.network import A, B
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native
from sdptests.twohosts.failure import check

ROUNDS = 40


def _connect(port: int, listener: Listener) -> Stream:
    with namespace("a"):
        sock = native.make("sdp", A.address(4))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    native.bind(sock, A.address(4), port)
    native.connect(sock, listener.address, listener.port)
    return Stream(sock)


@scenario
def the_same_addresses_are_used_again_at_once() -> str:
    """Despite pending messages of the earlier connection; its other end stays open."""
    with namespace("b"):
        listener = Listener(B.address(4), backlog=ROUNDS)
    port = 0
    kept = []
    for number in range(ROUNDS):
        client = _connect(port, listener)
        port = client.names()[0][1]
        server = listener.accept()
        kept.append(server)
        if number % 4:
            client.send(bytes(number))
        if number % 4 == 2:
            # No message is in flight, not even the end of the stream.
            check(len(server.receive(number)) == number, "bytes")
        client.close()
        if number % 4 == 3:
            check(server.end() == (0, bytes(number)), "another end")
    waiting = leftovers.stats("a")["orphans"]
    for number, server in enumerate(kept):
        # Written bytes have arrived, despite the new connection.
        _how, data = server.end()
        expected = 0 if number % 4 in (0, 2, 3) else number
        check(len(data) == expected, f"{len(data)} bytes of {expected} in round {number}")
        server.close()
    listener.close()
    leftovers.await_empty_tables()
    return f"{waiting} closed connections at the end"
