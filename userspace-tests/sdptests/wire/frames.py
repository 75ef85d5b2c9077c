# SPDX-License-Identifier: MIT
"""A capture as stock tshark parses it, one Frame for each RDMA packet.

tshark runs in two passes: it recognises a queue pair as an SDP one only after the connection's
REP, and a single pass would miss the packets before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import Host

# The fields of each packet. If a field occurs twice, the first value is taken.
FIELDS = (
    *("frame.number", "frame.protocols", "_ws.malformed", "_ws.expert.message"),
    *("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "udp.payload"),
    *("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"),
    *("infiniband.bth.padcnt", "infiniband.cm.req", "infiniband.cm.req.serviceid"),
    *("infiniband.cm.req.localqpn", "infiniband.cm.rep", "infiniband.cm.rep.remotecommid"),
    *("infiniband.cm.rep.localqpn",),
    *(f"infiniband_sdp.bsdh.{name}" for name in ("mid", "flags", "bufs", "len", "mseq", "mseqack")),
    *(
        f"infiniband_sdp.hh.{name}"
        for name in ("majv", "minv", "ipv", "maxadverts", "desremrcvsz", "localrcvsz", "localport")
    ),
    *("infiniband_sdp.hh.src_ip", "infiniband_sdp.hh.dst_ip", "infiniband_sdp.hah"),
    # Extended headers; tshark reports only their presence.
    *(f"infiniband_sdp.{name}" for name in ("srcah", "sinkah", "rwch", "rrch", "mch")),
)

BTH_LENGTH = 12
ICRC_LENGTH = 4

# BTH opcodes of the reliable connected service that carry SDP messages.
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0, 1, 2, 4
SENDS = (SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY)

# The length of everything before the private data of a CM REP: the datagram header, the MAD's own
# header, and the fields of the REP.
REP_PRIVATE_DATA = 8 + 24 + 36


@dataclass(frozen=True)
class Frame:
    """One packet."""

    fields: dict[str, str]

    def text(self, name: str) -> str:
        """A field as tshark prints it; empty if the packet does not have it."""
        return self.fields[name]

    def number(self, name: str) -> int:
        """A numeric field."""
        value = self.fields[name]
        if value == "":
            raise Failure(f"frame {self.fields['frame.number']} has no {name}")
        return int(value, 0)

    def has(self, name: str) -> bool:
        """Whether the packet has the field."""
        return self.fields[name] != ""

    @property
    def opcode(self) -> int:
        """The BTH's opcode; -1 for other packets."""
        return self.number("infiniband.bth.opcode") if self.has("infiniband.bth.opcode") else -1

    @property
    def source(self) -> str:
        """The sender's address."""
        return self.text("ip.src") or self.text("ipv6.src")

    @property
    def destination(self) -> str:
        """The receiver's address."""
        return self.text("ip.dst") or self.text("ipv6.dst")

    @property
    def is_sdp(self) -> bool:
        """Whether tshark recognises it as SDP."""
        return "infiniband_sdp" in self.text("frame.protocols").split(":")

    @property
    def is_malformed(self) -> bool:
        """Whether tshark cannot parse it."""
        return self.has("_ws.malformed") or "_ws.malformed" in self.text("frame.protocols")

    def carried(self) -> bytes:
        """The bytes between the base transport header and the checksum."""
        payload = bytes.fromhex(self.text("udp.payload").replace(":", ""))
        padding = self.number("infiniband.bth.padcnt")
        return payload[BTH_LENGTH : len(payload) - padding - ICRC_LENGTH]

    def rep_private_data(self) -> bytes:
        """The private data of a CM REP; tshark has no fields for a HelloAck's header."""
        return self.carried()[REP_PRIVATE_DATA:]


def read(host: Host, file: Path) -> list[Frame]:
    """All RDMA packets of a capture."""
    command = ["tshark", "-2", "-n", "-r", str(file), "-Y", "infiniband", "-T", "fields"]
    command += ["-E", "separator=/t", "-E", "occurrence=f"]
    for name in FIELDS:
        command += ["-e", name]
    output = host.run(command).stdout
    frames = []
    for line in output.splitlines():
        values = line.split("\t")
        if len(values) != len(FIELDS):
            raise Failure(f"tshark gave {len(values)} of {len(FIELDS)} fields: {line[:200]}")
        frames.append(Frame(dict(zip(FIELDS, values, strict=True))))
    return frames
