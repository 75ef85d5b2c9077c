# SPDX-License-Identifier: MIT
"""Sorts packets into connections, and joins each connection's packets to messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sdptests.twohosts.failure import Failure, check
from sdptests.wire.frames import SEND_FIRST, SEND_LAST, SEND_ONLY, SENDS, Frame

BSDH_LENGTH = 16
DATA = 0xFF


@dataclass
class Message:
    """One SDP message: the packet with its header, and the contents of all its packets."""

    head: Frame
    content: bytes

    def bsdh(self, name: str) -> int:
        """A field of the header, as parsed by tshark."""
        return self.head.number(f"infiniband_sdp.bsdh.{name}")


@dataclass
class Direction:
    """The packets of one sender."""

    source: str
    destination: str
    # The receiver's queue pair, which is the only one in packets.
    queue_pair: int
    messages: list[Message] = field(default_factory=list)
    _open: Message | None = None
    _seen: set[int] = field(default_factory=set)

    def add(self, frame: Frame) -> None:
        """The next packet of this direction."""
        psn = frame.number("infiniband.bth.psn")
        if psn in self._seen:
            # Retransmitted, because the first one's acknowledgement was late.
            return
        self._seen.add(psn)
        if frame.opcode in (SEND_FIRST, SEND_ONLY):
            check(self._open is None, f"frame {frame.text('frame.number')} starts within a message")
            self._open = Message(frame, frame.carried())
            self.messages.append(self._open)
        else:
            check(self._open is not None, f"frame {frame.text('frame.number')} continues nothing")
            assert self._open is not None
            self._open.content += frame.carried()
        if frame.opcode in (SEND_LAST, SEND_ONLY):
            self._open = None

    def stream(self) -> bytes:
        """The stream bytes of this direction."""
        return b"".join(
            message.content[BSDH_LENGTH:]
            for message in self.messages
            if message.bsdh("mid") == DATA
        )


@dataclass
class Connection:
    """A REQ, its REP, and the messages of both directions."""

    request: Frame
    reply: Frame
    # From the side that has connected, and from the other one.
    active: Direction
    passive: Direction

    @property
    def port(self) -> int:
        """The destination port."""
        return self.request.number("infiniband.cm.req.serviceid") & 0xFFFF


def sort(frames: Iterable[Frame]) -> list[Connection]:
    """The connections of a capture."""
    requests: dict[int, Frame] = {}
    connections: dict[int, Connection] = {}
    directions: dict[tuple[str, int], Direction] = {}
    for frame in frames:
        if frame.has("infiniband.cm.req.serviceid"):
            requests.setdefault(frame.number("infiniband.cm.req"), frame)
        elif frame.has("infiniband.cm.rep.localqpn"):
            _reply(frame, requests, connections, directions)
        elif frame.opcode in SENDS:
            key = frame.destination, frame.number("infiniband.bth.destqp")
            if key not in directions:
                raise Failure(f"frame {frame.text('frame.number')} is of an unknown connection")
            directions[key].add(frame)
    return list(connections.values())


def _reply(
    frame: Frame,
    requests: dict[int, Frame],
    connections: dict[int, Connection],
    directions: dict[tuple[str, int], Direction],
) -> None:
    identity = frame.number("infiniband.cm.rep.remotecommid")
    check(identity in requests, f"frame {frame.text('frame.number')} answers no REQ")
    if identity in connections:
        return
    request = requests[identity]
    to_passive = frame.source, frame.number("infiniband.cm.rep.localqpn")
    to_active = request.source, request.number("infiniband.cm.req.localqpn")
    active = Direction(to_active[0], *to_passive)
    passive = Direction(to_passive[0], *to_active)
    directions[to_passive] = active
    directions[to_active] = passive
    connections[identity] = Connection(request, frame, active, passive)
