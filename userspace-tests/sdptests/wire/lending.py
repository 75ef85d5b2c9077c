# SPDX-License-Identifier: MIT
"""Two sockets with zero copy: their messages on the wire, as parsed by tshark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdptests import checkout
from sdptests.twohosts.failure import check
from sdptests.twohosts.lab import Lab
from sdptests.wire import connections, rules
from sdptests.wire.capture import capture
from sdptests.wire.connections import BSDH_LENGTH, Connection, Message
from sdptests.wire.frames import SENDS, Frame

IMPATIENT = checkout.TESTS / "wire/impatient"

DATA, SRC_AVAIL, SINK_AVAIL = 0xFF, 0xFE, 0xFD
SEND_SM, WR_COMPL, RD_COMPL, MODE_CHANGE = 0x04, 0x05, 0x06, 0x07
SRC_CANCEL, SINK_CANCEL, SINK_CANCEL_ACK = 0x08, 0x09, 0x0A
# The kinds that must occur, in either direction; ModeChange precedes the second of the others.
EXPECTED = {
    SRC_AVAIL: "SrcAvail",
    RD_COMPL: "RdmaRdCompl",
    SINK_AVAIL: "SinkAvail",
    WR_COMPL: "RdmaWrCompl",
    MODE_CHANGE: "ModeChange",
    SEND_SM: "SendSm",
    SRC_CANCEL: "SrcAvailCancel",
    SINK_CANCEL: "SinkAvailCancel",
    SINK_CANCEL_ACK: "SinkAvailCancelAck",
}
# The extended headers, by tshark's names.
HEADERS = {
    SRC_AVAIL: "srcah",
    SINK_AVAIL: "sinkah",
    WR_COMPL: "rwch",
    RD_COMPL: "rrch",
    MODE_CHANGE: "mch",
}
# Length of the extended header before the payload.
EXTENSION = {SRC_AVAIL: 16, SINK_AVAIL: 20}


@contextmanager
def threshold(lab: Lab, value: int) -> Iterator[None]:
    """Sets another value of the knob on both hosts."""
    name = "net.sdp.zcopy_thresh"
    before = {host: host.run(["sysctl", "-n", name]).stdout.strip() for host in (lab.a, lab.b)}
    for host in before:
        host.run(["sysctl", "-q", f"{name}={value}"])
    try:
        yield
    finally:
        for host, old in before.items():
            host.run(["sysctl", "-q", f"{name}={old}"])


def record(lab: Lab, file: Path) -> int:
    """One connection with every exchange; returns the number of bytes that its writer has sent."""
    a, b = lab.a, lab.b
    receive = [str(IMPATIENT), "receive", "--address", b.ipv4]
    with capture(a, b, file), b.start(receive, ready=r"listening (\d+)") as receiver:
        send = [str(IMPATIENT), "send", "--address", b.ipv4, "--port", str(receiver.number())]
        with a.start(send, ready=r'"bytes"') as sender:
            assert receiver.process.stdin is not None
            receiver.process.stdin.close()
            received = json.loads(receiver.finish().splitlines()[-1])["bytes"]
            sent = json.loads(sender.finish().splitlines()[-1])["bytes"]
        check(sent == received, f"{sent} bytes were sent and {received} received")
    return int(sent)


class Judgement:
    """One such connection."""

    def __init__(self, frames: list[Frame], total: int) -> None:
        # The packets of Reads and Writes are not messages.
        of_messages = [
            frame
            for frame in frames
            if frame.opcode in SENDS or frame.has("infiniband.cm.req") or frame.has("infiniband.cm.rep")
        ]
        self._frames = of_messages
        self._total = total
        found = connections.sort(of_messages)
        check(len(found) == 1, f"{len(found)} connections")
        self._connection: Connection = found[0]

    def headers(self) -> None:
        """Lengths, numbers and credits obey the usual rules."""
        rules.recognised(self._frames)
        rules.well_formed(self._frames)
        rules.lengths(self._connection)
        rules.sequence(self._connection)
        rules.credits(self._connection)

    def _messages(self) -> list[Message]:
        both = self._connection.active.messages + self._connection.passive.messages
        return sorted(both, key=lambda message: message.head.number("frame.number"))

    def kinds(self) -> None:
        """Every exchange occurs."""
        kinds = Counter(message.bsdh("mid") for message in self._messages())
        missing = [name for mid, name in EXPECTED.items() if not kinds[mid]]
        check(not missing, f"there is no {', '.join(missing)}, but {dict(kinds)}")

    def fields(self) -> None:
        """tshark finds the extended headers at their places, and nowhere else."""
        for message in self._messages():
            own = HEADERS.get(message.bsdh("mid"))
            seen = {name for name in HEADERS.values() if message.head.has(f"infiniband_sdp.{name}")}
            check(
                seen == ({own} if own else set()),
                f"frame {message.head.text('frame.number')}, MID {message.bsdh('mid'):#x}: {seen}",
            )

    def bytes(self) -> None:
        """Sent, inline, read and written bytes together are the writer's stream."""
        ours, theirs = self._connection.active.messages, self._connection.passive.messages
        by_message = sum(
            len(message.content) - BSDH_LENGTH - EXTENSION.get(message.bsdh("mid"), 0)
            for message in ours
            if message.bsdh("mid") in (DATA, SRC_AVAIL)
        )
        written = sum(_length(message) for message in ours if message.bsdh("mid") == WR_COMPL)
        read = sum(_length(message) for message in theirs if message.bsdh("mid") == RD_COMPL)
        check(read > 0 and written > 0, f"{read} bytes were read and {written} written")
        found = by_message + written + read
        check(
            found == self._total,
            f"{by_message} bytes in messages, {written} written and {read} read are not {self._total}",
        )


def _length(message: Message) -> int:
    return int.from_bytes(message.content[BSDH_LENGTH : BSDH_LENGTH + 4], "big")
