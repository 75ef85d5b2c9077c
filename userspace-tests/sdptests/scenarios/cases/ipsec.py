# SPDX-License-Identifier: MIT
"""Policies of IPsec (`ip xfrm policy`): a connection that they demand to be transformed is TCP's."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdptests.peer.peer import namespace
from sdptests.scenarios import leftovers, network, traffic
from sdptests.scenarios.network import A, B, End
from sdptests.scenarios.register import scenario
from sdptests.twohosts import native, uapi
from sdptests.twohosts.failure import check

TCP = uapi.SDP_TRANSPORT_TCP
# Of AES-GCM: 16 bytes and a salt.
KEY = "0x" + "27" * 20


@dataclass(frozen=True)
class Policy:
    """A host's demands on packets in one direction."""

    host: str
    direction: str
    # After `template`: "level use" for one that may be left out. Without a template: an action.
    template: bool = True
    rest: str = ""
    selector: str = ""

    def words(self, version: int) -> list[str]:
        """Of `ip xfrm policy add`."""
        here, there = (A, B) if self.host == "a" else (B, A)
        source, target = (here, there) if self.direction == "out" else (there, here)
        ends = ["src", source.address(version), "dst", target.address(version)]
        words = [*ends, "proto", "tcp", *self.selector.split(), "dir", self.direction]
        if not self.template:
            return [*words, *self.rest.split()]
        means = ["proto", "esp", "mode", "transport", "reqid", "1"]
        return [*words, "tmpl", *ends, *means, *self.rest.split()]


def _xfrm(host: str, *words: str) -> None:
    network.command("ip", "-n", host, "xfrm", *words)


@contextlib.contextmanager
def _policies(version: int, *policies: Policy) -> Iterator[None]:
    try:
        for policy in policies:
            _xfrm(policy.host, "policy", "add", *policy.words(version))
        yield
    finally:
        for host in ("a", "b"):
            _xfrm(host, "policy", "flush")


@contextlib.contextmanager
def _states(version: int) -> Iterator[None]:
    """The hosts have keys for both directions."""
    try:
        for host in ("a", "b"):
            for spi, (source, target) in ((0x1001, (A, B)), (0x1002, (B, A))):
                ends = ["src", source.address(version), "dst", target.address(version)]
                means = ["proto", "esp", "spi", hex(spi), "reqid", "1", "mode", "transport"]
                cipher = ["aead", "rfc4106(gcm(aes))", KEY, "128"]
                _xfrm(host, "state", "add", *ends, *means, *cipher)
        yield
    finally:
        for host in ("a", "b"):
            _xfrm(host, "state", "flush")


@contextlib.contextmanager
def demanded(version: int, *policies: Policy) -> Iterator[None]:
    """IPsec is demanded, and both hosts have keys."""
    with _states(version), _policies(version, *policies):
        yield


def _outcome(family: str, version: int) -> str:
    """The result of a connection from a to b: the bytes came, or the error of connect()."""
    with namespace("b"):
        listener = native.listen(family, B.address(version))
    with listener, namespace("a"), native.make(family, B.address(version)) as client:
        try:
            native.connect(client, *native.own_name(listener))
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))
        with native.accept(listener) as server:
            client.sendall(b"there")
            check(server.recv(10) == b"there", "the bytes")
            server.sendall(b"and back")
            check(client.recv(10) == b"and back", "the bytes back")
    return "works"


def _refused(host: str) -> int:
    return leftovers.stats(host)["ipsec_refused"]


DEMANDS = (
    ("what leaves the client", "a", "out", "ENETUNREACH"),
    ("what comes to the client", "a", "in", "ENETUNREACH"),
    ("what comes to the server", "b", "in", "ECONNREFUSED"),
    ("what leaves the server", "b", "out", "ECONNREFUSED"),
)


@scenario
def a_policy_of_ipsec_keeps_sdp_from_sending_plain_bytes() -> None:
    """On either side, in either direction, with keys and without."""
    for version in (4, 6):
        for with_keys in (False, True):
            keys = _states(version) if with_keys else contextlib.nullcontext()
            with keys:
                for what, host, direction, expected in DEMANDS:
                    name = f"IPv{version}, {what}, {'with' if with_keys else 'without'} keys"
                    before = _refused(host)
                    with _policies(version, Policy(host, direction)):
                        answer = _outcome("sdp", version)
                    check(answer == expected, f"{name}: {answer} and not {expected}")
                    count = _refused(host) - before
                    check(count == 1, f"{name}: {count} were counted")
        check(_outcome("sdp", version) == "works", f"IPv{version}, without policies")
    traffic.works()


@scenario
def policies_of_ipsec_that_concern_others_do_not_matter() -> None:
    """Of another port, or one that plain packets fulfil; one that prohibits, prohibits."""
    for version in (4, 6):
        for what, policy in (
            ("another port", Policy("a", "out", selector="dport 9")),
            ("another port of the server", Policy("b", "in", selector="dport 9")),
            ("one that allows", Policy("a", "out", template=False, rest="action allow")),
            ("one that may be left out", Policy("b", "in", rest="level use")),
        ):
            for family in ("tcp", "sdp"):
                with _policies(version, policy):
                    answer = _outcome(family, version)
                check(answer == "works", f"IPv{version}, {what}, {family}: {answer}")
        prohibits = Policy("a", "out", template=False, rest="action block")
        for family in ("tcp", "sdp"):
            with _policies(version, prohibits):
                answer = _outcome(family, version)
            check(answer == "EPERM", f"IPv{version}, one that prohibits, {family}: {answer}")
    traffic.works()


def _outcome_within(family: str, version: int, port: int) -> str:
    """As `_outcome`, from a to an address of a itself."""
    with namespace("a"), native.listen(family, A.address(version), port) as listener:
        with native.make(family, A.address(version)) as client:
            try:
                native.connect(client, A.address(version), port)
            except OSError as error:
                return errno.errorcode.get(error.errno or 0, str(error))
            native.accept(listener).close()
    return "works"


# Of packets to the listener's port and from it, and what becomes of SDP over IPv6.
WITHIN = (
    ("what the client sends", "out", "dport", "EPERM"),
    ("what the client gets", "in", "sport", "ENETUNREACH"),
    ("what the server gets", "in", "dport", "ECONNREFUSED"),
    ("what the server sends", "out", "sport", "ECONNREFUSED"),
)


@scenario
def policies_of_ipsec_hold_within_a_host_for_ipv6() -> None:
    """TCP over the loopback interface is exempt over IPv4 alone."""
    port = 5999
    for version in (4, 6):
        own = A.address(version)
        for what, direction, side, prohibited in WITHIN:
            expected = prohibited if version == 6 else "works"
            words = ["src", own, "dst", own, "proto", "tcp", side, str(port)]
            _xfrm("a", "policy", "add", *words, "dir", direction, "action", "block")
            try:
                # TCP would wait for its packets.
                answer = _outcome_within("sdp", version, port)
                if prohibited == "EPERM":
                    oracle = _outcome_within("tcp", version, port)
                    check(answer == oracle, f"IPv{version}, {what}: {answer}, and TCP {oracle}")
            finally:
                _xfrm("a", "policy", "flush")
            check(answer == expected, f"IPv{version}, {what}: {answer} and not {expected}")
        check(_outcome_within("sdp", version, port) == "works", f"IPv{version}, without policies")
    traffic.works()


@contextlib.contextmanager
def _without_policy(interface: str) -> Iterator[None]:
    """`disable_policy` of an interface of a."""
    path = f"/proc/sys/net/ipv6/conf/{interface}/disable_policy"
    with namespace("a"):
        knob = Path(path)
        knob.write_text("1")
    try:
        yield
    finally:
        with namespace("a"):
            knob.write_text("0")


@scenario
def disable_policy_counts_on_the_interface_that_has_the_address() -> None:
    """Of IPv6. Packets within a host come in by the loopback interface, which has not the address."""
    port = 5998
    own = A.address(6)
    words = ["src", own, "dst", own, "proto", "tcp", "dport", str(port), "dir", "in"]
    _xfrm("a", "policy", "add", *words, "action", "block")
    try:
        with _without_policy(A.link):
            for family in ("tcp", "sdp"):
                answer = _outcome_within(family, 6, port)
                check(answer == "works", f"{family}, on the interface with the address: {answer}")
        with _without_policy("lo"):
            # TCP would wait for its packets.
            answer = _outcome_within("sdp", 6, port)
            check(answer == "ECONNREFUSED", f"on another one: {answer}")
    finally:
        _xfrm("a", "policy", "flush")
    traffic.works()


def _bytes_of_states(host: str) -> int:
    """Bytes that IPsec has transformed there, in either direction."""
    words = network.command("ip", "-s", "-n", host, "xfrm", "state").split()
    # Limits are "(INF)(bytes),".
    counts = [word.split("(")[0] for word in words if word.endswith("(bytes),")]
    return sum(int(count) for count in counts if count)


def _either(end: End, version: int) -> socket.socket:
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with namespace(end.host):
        return socket.socket(family, socket.SOCK_STREAM, uapi.IPPROTO_SDP)


@scenario
def a_socket_for_both_is_on_tcp_where_ipsec_has_a_policy() -> None:
    """The bytes arrive, and IPsec has transformed them."""
    both = [Policy(host, direction) for host in ("a", "b") for direction in ("in", "out")]
    for version in (4, 6):
        with demanded(version, *both):
            with _either(B, version) as listener, _either(A, version) as client:
                listener.bind((B.address(version), 0))
                listener.listen(1)
                client.connect(listener.getsockname()[:2])
                server = listener.accept()[0]
                with server:
                    client.sendall(b"secret" * 1000)
                    received = server.recv(6000, socket.MSG_WAITALL)
                    check(received == b"secret" * 1000, f"IPv{version}: the bytes")
                used = client.getsockopt(socket.IPPROTO_TCP, uapi.SDP_TRANSPORT)
                check(used == TCP, f"IPv{version}: the transport is {used}")
                reason = client.getsockopt(socket.IPPROTO_TCP, uapi.SDP_FALLBACK_REASON)
                check(reason == errno.ENETUNREACH, f"IPv{version}: the reason is {reason}")
            transformed = _bytes_of_states("a")
            check(transformed > 6000, f"IPv{version}: {transformed} bytes were transformed")
    traffic.works()
