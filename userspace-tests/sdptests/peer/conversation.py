# SPDX-License-Identifier: MIT
"""A peer's side of an established connection. It obeys the rules unless told otherwise.

Numbers, lengths and credits of the other side's messages are checked as well.
"""

from __future__ import annotations

from collections import deque

from sdptests.peer.peer import PATIENCE, Peer, Status
from sdptests.peer.wire import BSDH, Flags, Header, Message, Mid
from sdptests.twohosts.failure import Failure, check

# Minimum credits for sending payload, a control message, and a credit update.
PAYLOAD, CONTROL, GRANT = 3, 2, 1


class Conversation:
    """Numbers and credits of both directions."""

    def __init__(self, peer: Peer, granted: int, credits: int, rcv_size: int, own: int) -> None:
        self.peer = peer
        # The last number sent, and the last received.
        self.mseq = 0
        self.received = 0
        # Posted receive buffers, and the last number that the other side may use.
        self.posted = granted
        self.limit = granted
        # The credits granted by the other side.
        self.credits = credits
        self.room = rcv_size - BSDH.size
        self._own_rcv_size = own
        # Whether each used buffer is replaced and announced before the other side runs out of
        # credits.
        self.generous = True
        # Messages received while waiting for credits, and the number of credit updates, which are
        # not stored.
        self._inbox: deque[Message] = deque()
        self.updates = 0
        # Whether the other side has asked for larger buffers, and still waits for the answer.
        self._asked = self._owes_size = False

    def message(self, mid: int = Mid.DATA, rest: bytes = b"", **wrong: int) -> bytes:
        """The next message; given fields replace the correct ones."""
        self.mseq += 1
        self.credits -= 1
        fields = {"mseq": self.mseq, "mseq_ack": self.received, "bufs": self.posted} | wrong
        header = Header(mid, **fields)
        self.limit = max(self.limit, header.mseq_ack + header.bufs)
        return header.pack(rest)

    def send(self, mid: int = Mid.DATA, rest: bytes = b"", **wrong: int) -> int:
        """Posts the next message, without checks; returns the number of the request."""
        return self.peer.send(self.message(mid, rest, **wrong))

    def put(self, mid: int = Mid.DATA, rest: bytes = b"", **what: int) -> None:
        """Sends a message by the rules, except for `what`, and waits until it has arrived."""
        length = BSDH.size + len(rest)
        carries = mid in (Mid.DATA, Mid.SRC_AVAIL) and length > BSDH.size
        self.await_credits(PAYLOAD if carries else CONTROL)
        status = self.peer.completion(self.send(mid, rest, **what))
        check(status == Status.SUCCESS, f"the message has ended with {status.name}")

    def update(self) -> None:
        """Send a credit update."""
        self.await_credits(GRANT)
        self.send()

    def await_credits(self, count: int, timeout: float = PATIENCE) -> None:
        """Receives messages until the other side has granted so much."""
        while self.credits < count:
            self.take_in(timeout)

    def take_in(self, timeout: float = PATIENCE) -> Message:
        """The next message from the wire, after the checks."""
        raw = self.peer.expect("message", timeout=timeout).data
        message = Message.parse(raw)
        self._judge(message, len(raw))
        self.received = message.mseq
        self.posted -= 1
        self.credits = message.bufs - (self.mseq - message.mseq_ack)
        mere = not message.payload and not message.flags & ~Flags.REQ_PIPE
        if message.mid == Mid.DATA and mere:
            self.updates += 1
        elif message.mid == Mid.CH_RCV_BUF and self.generous:
            check(not self._asked, "a second ChRcvBuf")
            self._asked = self._owes_size = True
        else:
            self._inbox.append(message)
        if self.generous:
            self.grant(1)
            if self._owes_size and self.credits >= CONTROL:
                # Buffers keep their size, which every peer may answer.
                self._owes_size = False
                size = self._own_rcv_size - BSDH.size
                self.send(Mid.CH_RCV_BUF_ACK, size.to_bytes(4, "big"))
            left = self.limit - self.received
            if left <= PAYLOAD and self.posted > left and self.credits >= GRANT:
                self.send()
        return message

    def take_in_all(self) -> None:
        """Receives the messages that have already arrived."""
        while any(event.kind == "message" for event in self.peer.events()):
            self.take_in()

    def inbox_is_empty(self) -> bool:
        """Only credit updates were received without being requested."""
        return not self._inbox

    def _judge(self, message: Message, length: int) -> None:
        check(message.length == length, f"Len {message.length} on {length} bytes")
        check(message.flags & ~7 == 0, f"flags {message.flags:#x}")
        check(message.mseq == self.received + 1, f"MSeq {message.mseq} after {self.received}")
        check(
            message.mseq_ack <= self.mseq, f"MSeqAck {message.mseq_ack}, but {self.mseq} were sent"
        )
        check(length <= self._own_rcv_size, f"{length} bytes into buffers of {self._own_rcv_size}")
        need = PAYLOAD if message.payload else GRANT
        check(
            message.mseq + need - 1 <= self.limit,
            f"message {message.mseq} (MID {message.mid:#x}, {len(message.payload)} bytes of "
            f"payload) without the credits: numbers up to {self.limit} were granted",
        )

    def grant(self, count: int) -> None:
        """Posts more buffers; the next message announces them."""
        self.peer.post(count)
        self.posted += count

    def receive(self, timeout: float = PATIENCE) -> Message:
        """The next message other than a pure credit update."""
        while not self._inbox:
            self.take_in(timeout)
        return self._inbox.popleft()

    def expect(self, mid: int, timeout: float = PATIENCE) -> Message:
        """The next message, which must be of this kind."""
        message = self.receive(timeout)
        if message.mid != mid:
            raise Failure(f"MID {message.mid:#x} instead of {Mid(mid).name}")
        return message

    def read(self, count: int, timeout: float = PATIENCE) -> bytes:
        """The next stream bytes, so many."""
        data = b""
        while len(data) < count:
            data += self.expect(Mid.DATA, timeout).payload
        return data

    def write(self, data: bytes, timeout: float = PATIENCE) -> None:
        """Sends all bytes, as credits allow."""
        view = memoryview(data)
        while view:
            self.await_credits(PAYLOAD, timeout)
            self.send(Mid.DATA, bytes(view[: self.room]))
            view = view[self.room :]
