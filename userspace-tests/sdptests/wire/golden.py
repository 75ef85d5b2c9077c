# SPDX-License-Identifier: MIT
"""The engine's golden messages, as parsed by stock tshark.

Each is in rust/vectors as bytes and as a line of text. The bytes are put into a forged
capture, and tshark's result must match the text. tshark parses the name and place of extended
headers, but only the Hello's fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from sdptests import checkout
from sdptests.twohosts.failure import Failure, check
from sdptests.twohosts.hosts import Host
from sdptests.wire import forgery
from sdptests.wire.capture import ip_bytes
from sdptests.wire.connections import BSDH_LENGTH
from sdptests.wire.rules import HELLO, HELLO_ACK

VECTORS = checkout.TOP / "rust/vectors"

# tshark's name of the extended header, and its length.
HEADERS = {
    "RdmaWrCompl": ("rwch", 4),
    "RdmaRdCompl": ("rrch", 4),
    "ModeChange": ("mch", 4),
    "ChRcvBuf": ("crbh", 4),
    "ChRcvBufAck": ("crbah", 4),
    "SuspComm": ("suspch", 8),
    "SinkAvail": ("sinkah", 20),
    "SrcAvail": ("srcah", 16),
    "Hello": ("hh", None),
    "HelloAck": ("hah", None),
}
FLAGS = {"oob_pres": 1, "oob_pend": 2, "req_pipe": 4}
# Fields of the Hello: the text's names, and tshark's.
HELLO_FIELDS = {
    "cap": "cap",
    "max_adverts": "maxadverts",
    "ext_max_adverts": "extmaxadverts",
    "desired_rcv_size": "desremrcvsz",
    "local_rcv_size": "localrcvsz",
    "port": "localport",
}
# tshark expects at least one byte of payload in Data.
EMPTY_DATA = "Data"


@dataclass(frozen=True)
class Golden:
    """One message, and its description."""

    name: str
    content: bytes
    # The name of its kind, the words after that, and those with a value.
    kind: str
    words: tuple[str, ...]
    values: dict[str, str]

    @property
    def mid(self) -> int:
        """Its kind on the wire."""
        return self.content[0]


def _golden(file: Path) -> Golden:
    content = bytes.fromhex("".join(line.split("#")[0] for line in file.read_text().splitlines()))
    told = file.with_suffix(".txt").read_text().splitlines()
    kind, *words = next(line for line in told if not line.startswith("#")).split()
    values = dict(word.split("=", 1) for word in words if "=" in word)
    return Golden(file.stem, content, kind.split("(")[0], tuple(words), values)


def every() -> list[Golden]:
    """All messages."""
    found = [_golden(file) for file in sorted(VECTORS.glob("*.hex"))]
    check(found, f"there is no golden message in {VECTORS}")
    return found


def check_read(host: Host, file: Path) -> None:
    """tshark's result matches the descriptions."""
    wanted = every()
    forgeries = [forgery.between(number, _carrying(golden)) for number, golden in enumerate(wanted)]
    forgery.write(file, forgeries)
    packets = _packets(host, file)
    for golden, one in zip(wanted, forgeries, strict=True):
        its = [packet for packet in packets if one.client[0] in packet.hosts]
        # The third is the RTU, which has no private data.
        place = {HELLO: 0, HELLO_ACK: 1}.get(golden.mid, 3)
        try:
            check(len(its) > place, f"tshark sees {len(its)} messages")
            _compare(golden, its[place])
        except Failure as failure:
            raise Failure(f"{golden.name}: {failure}") from failure
        for other in wanted:
            # No other kind matches.
            check(
                other.kind == golden.kind or not _matches(other, its[place]),
                f"{golden.name} passes for {other.name}",
            )


def _carrying(golden: Golden) -> forgery.Forgery:
    """A connection with the message at the place of its kind."""
    if golden.mid == HELLO:
        return forgery.Forgery(hello=golden.content)
    if golden.mid == HELLO_ACK:
        return forgery.Forgery(hello_ack=golden.content)
    return forgery.Forgery(messages=(golden.content,))


@dataclass(frozen=True)
class Packet:
    """tshark's result for one packet."""

    hosts: tuple[str, ...]
    # By their names, the first of each.
    fields: dict[str, ElementTree.Element]
    malformed: bool

    @property
    def kind(self) -> str:
        """The name of the message's kind."""
        shown = self.fields["infiniband_sdp.bsdh.mid"].get("showname", "")
        return shown.removeprefix("MID: ").split(" ")[0]

    def number(self, name: str) -> int:
        """A field's value."""
        field = self.fields.get(f"infiniband_sdp.{name}")
        if field is None:
            raise Failure(f"tshark sees no {name}")
        return int(field.get("show", ""), 0)

    def place(self, name: str) -> tuple[int, int]:
        """The offset of a header in the message, and its length."""
        field = self.fields.get(f"infiniband_sdp.{name}")
        if field is None:
            raise Failure(f"tshark sees no {name}")
        start = int(self.fields["infiniband_sdp.bsdh"].get("pos", "0"))
        return int(field.get("pos", "0")) - start, int(field.get("size", "0"))


def _packets(host: Host, file: Path) -> list[Packet]:
    command = ["tshark", "-2", "-n", "-r", str(file), "-Y", "infiniband_sdp", "-T", "pdml"]
    packets = []
    for packet in ElementTree.fromstring(host.run(command).stdout):
        fields: dict[str, ElementTree.Element] = {}
        for field in packet.iter("field"):
            fields.setdefault(field.get("name", ""), field)
        hosts = tuple(
            fields[name].get("show", "")
            for name in ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
            if name in fields
        )
        malformed = any(proto.get("name") == "_ws.malformed" for proto in packet)
        packets.append(Packet(hosts, fields, malformed))
    return packets


def _matches(golden: Golden, packet: Packet) -> bool:
    try:
        _compare(golden, packet)
    except Failure:
        return False
    return True


def _compare(golden: Golden, packet: Packet) -> None:
    check(packet.kind == golden.kind, f"tshark takes it for {packet.kind}")
    _equal(packet, "bsdh.mid", golden.mid)
    _equal(packet, "bsdh.len", len(golden.content))
    _equal(packet, "bsdh.bufs", int(golden.values["bufs"]))
    _equal(packet, "bsdh.mseq", int(golden.values.get("mseq", "0")))
    _equal(packet, "bsdh.mseqack", int(golden.values.get("ack", "0")))
    flags = sum(bit for word, bit in FLAGS.items() if word in golden.words)
    _equal(packet, "bsdh.flags", flags)
    payload = int(golden.values.get("payload", "0"))
    empty = golden.kind == EMPTY_DATA and payload == 0
    check(packet.malformed == empty, "tshark takes it for malformed" if not empty else "no fault")
    seen = [name for name, _ in HEADERS.values() if f"infiniband_sdp.{name}" in packet.fields]
    if golden.kind in HEADERS:
        name, length = HEADERS[golden.kind]
        check(seen == [name], f"tshark sees {seen}, not {name}")
        start, size = packet.place(name)
        check(start == BSDH_LENGTH, f"{name} begins at {start}")
        if length is not None:
            check(len(golden.content) == BSDH_LENGTH + length + payload, "its parts do not add up")
            check(size >= length, f"{name} has {size} bytes")
    else:
        check(not seen, f"tshark sees {seen}")
    if golden.kind == EMPTY_DATA and payload > 0:
        start, size = packet.place("Data")
        check(start == BSDH_LENGTH and size >= payload, f"{size} bytes of payload at {start}")
    if golden.mid == HELLO:
        _compare_hello(golden, packet)


def _compare_hello(golden: Golden, packet: Packet) -> None:
    major, minor = golden.values["version"].split(".")
    _equal(packet, "hh.majv", int(major))
    _equal(packet, "hh.minv", int(minor))
    _equal(packet, "hh.ipv", 6 if ":" in golden.values["src"] else 4)
    for told, name in HELLO_FIELDS.items():
        _equal(packet, f"hh.{name}", int(golden.values[told]))
    for told, name in (("src", "src_ip"), ("dst", "dst_ip")):
        field = packet.fields[f"infiniband_sdp.hh.{name}"]
        found = bytes.fromhex(field.get("value", ""))
        check(found == ip_bytes(golden.values[told]), f"{name} is {field.get('show')}")


def _equal(packet: Packet, name: str, value: int) -> None:
    found = packet.number(name)
    check(found == value, f"{name} is {found}, not {value}")
