# SPDX-License-Identifier: MIT
"""Invalid or forged Hellos: they are refused and counted, and no socket appears."""

from __future__ import annotations

from sdptests.peer.peer import Rejected, namespace
from sdptests.peer.register import case
from sdptests.peer.scene import ADDRESSES, Scene
from sdptests.peer.stream import Connecting, Listener
from sdptests.peer.wire import Hello, Mid
from sdptests.twohosts.failure import check

HERE, THERE = ADDRESSES[4]

MALFORMED: dict[str, dict[str, object]] = {
    "version 0x11": {"version": 0x11},
    "version 0x32": {"version": 0x32},
    "version 0x00": {"version": 0x00},
    "IPV 0": {"ipv": 0},
    "IPV 5": {"ipv": 5},
    "IPV 15": {"ipv": 15},
    "MaxAdverts 0": {"max_adverts": 0},
    "LocalRcvSz 0": {"rcv_size": 0},
    "LocalRcvSz 15": {"rcv_size": 15},
    "LocalRcvSz 16": {"rcv_size": 16},
    "LocalRcvSz 37, a byte to a message": {"rcv_size": 37},
    "LocalRcvSz 527": {"rcv_size": 527},
    "Len 0": {"length": 0},
    "Len 91": {"length": 91},
    "Len 93": {"length": 93},
    "Len 2^32-1": {"length": 2**32 - 1},
    "the MID of HelloAck": {"mid": Mid.HELLO_ACK},
    "the MID of Data": {"mid": Mid.DATA},
    "an unknown MID": {"mid": 0x77},
    "MSeq 1": {"mseq": 1},
    "MSeqAck 1": {"mseq_ack": 1},
    "OOB_PRES": {"flags": 1},
    "a reserved flag": {"flags": 0x80},
}

# Well-formed Hellos that cannot be true.
DISHONEST: dict[str, dict[str, object]] = {
    "another host's source address": {"src": "10.0.0.77"},
    "the victim's own source address": {"src": THERE},
    "the source address 0.0.0.0": {"src": "0.0.0.0"},
    "the source address 127.0.0.1": {"src": "127.0.0.1"},
    "the source address 127.1.2.3": {"src": "127.1.2.3"},
    "a multicast source address": {"src": "224.0.0.1"},
    "the broadcast source address": {"src": "255.255.255.255"},
    "the destination address 127.0.0.1": {"dst": "127.0.0.1"},
    "127.0.0.1 for both addresses": {"src": "127.0.0.1", "dst": "127.0.0.1"},
    "another host's destination address": {"dst": "10.0.0.77"},
    "the destination address 0.0.0.0": {"dst": "0.0.0.0"},
    "a multicast destination address": {"dst": "224.0.0.1"},
    "the attacker's own address as destination": {"dst": HERE},
    "an address of the initial namespace": {"dst": "10.0.1.1"},
    "IPv6 addresses on the path of IPv4": {"src": ADDRESSES[6][0], "dst": ADDRESSES[6][1]},
    "loopback IPv6 addresses": {"src": "::1", "dst": "::1"},
    "IPv4-mapped addresses": {"src": f"::ffff:{HERE}", "dst": f"::ffff:{THERE}"},
}


def _refused(scene: Scene, hello: Hello | bytes, **counts: int) -> None:
    with scene.request(hello, posted=0, receive_size=4096) as peer:
        reason = peer.expect("rej", "rep")
        check(reason.kind == "rej", "the Hello was accepted")
        check(reason.number == Rejected.CONSUMER_DEFINED, f"the reason is {reason.number}")
    scene.moved(hellos_refused=1, passive_opens=0, established=0, **counts)
    check(scene.listener.is_idle(), "a connection has appeared")


#= test: HELLO-11
def _add(name: str, wrong: dict[str, object], violations: int) -> None:
    @case(f"hello: {name}")
    def run(scene: Scene) -> None:
        _refused(scene, scene.hello(**wrong), violations=violations)


for _name, _wrong in MALFORMED.items():
    _add(_name, _wrong, 1)
for _name, _wrong in DISHONEST.items():
    _add(_name, _wrong, 0)


def _forged(scene: Scene, listener: Listener, src: str, dst: str) -> None:
    """A REQ of the module's own device to itself, as an attacker could send it."""
    ip = 6 if ":" in src else 4
    peer = scene.peer(posted=0, receive_size=4096)
    own = ADDRESSES[ip][1]
    with namespace("b"):
        hello = scene.hello(ip, src=src, dst=dst)
        peer.connect(own, own, listener.port, hello.pack())
    reason = peer.expect("rej", "rep")
    check(reason.kind == "rej", f"a Hello from {src} to {dst} was accepted")
    check(reason.number == Rejected.CONSUMER_DEFINED, f"the reason is {reason.number}")
    check(listener.is_idle(), "a connection has appeared")


def _add_forged(name: str, listens: str, src: str, dst: str) -> None:
    @case(f"hello: forged, {name}")
    def run(scene: Scene) -> None:
        with namespace("b"):
            listener = Listener(listens)
        scene.keep(listener)
        _forged(scene, listener, src, dst)
        # A socket that really exists gets through.
        with namespace("b"):
            connecting = Connecting(dst, listener.port)
        stream = connecting.stream()
        scene.keep(stream)
        scene.keep(listener.accept())
        scene.moved(hellos_refused=1, passive_opens=1)


_add_forged("from 127.0.0.1 to 127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1")
_add_forged("from ::1 to ::1", "::1", "::1", "::1")
_add_forged("from the victim's address to itself", THERE, THERE, THERE)
_add_forged("from the victim's IPv6 address to itself", *(3 * ADDRESSES[6][1:]))
_add_forged("from 127.0.0.1 to the victim's address", THERE, "127.0.0.1", THERE)


@case("hello: no private data at all")
def empty(scene: Scene) -> None:
    """The CM pads with zeros, so the module parses zeros."""
    _refused(scene, b"", violations=1)


@case("hello: cut off in the middle of the addresses")
def cut(scene: Scene) -> None:
    """The rest is zeros, so the destination address is not local."""
    _refused(scene, scene.hello().pack()[:40], violations=0)


@case("hello: random bytes")
def noise(scene: Scene) -> None:
    """The length is wrong for every format."""
    _refused(scene, bytes(range(160, 252)), violations=1)


@case("hello: a port where nobody listens")
def no_listener(scene: Scene) -> None:
    """Like TCP's answer to a SYN to a closed port."""
    peer = scene.peer()
    with namespace("a"):
        peer.connect(HERE, THERE, 9, scene.hello().pack())
    reason = peer.expect("rej").number
    check(reason in (Rejected.INVALID_SERVICE_ID, Rejected.CONSUMER_DEFINED), f"reason {reason}")


#= test: HELLO-9
@case("hello: what is reserved is ignored")
def reserved(scene: Scene) -> None:
    """Capabilities and extensions of future peers."""
    hello = scene.hello(
        capabilities=15,
        reserved=0xFF,
        ext_max_adverts=0xFFFF,
        max_adverts=255,
        desired_rcv_size=0,
        version=0x2F,
    )
    victim = scene.establish(hello=hello)
    scene.works(victim)
    scene.parts(victim)
