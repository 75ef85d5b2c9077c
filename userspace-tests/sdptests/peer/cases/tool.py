# SPDX-License-Identifier: MIT
"""Tests of the raw peer itself, without the module under test."""

from __future__ import annotations

import errno
import os
import signal

from sdptests.peer.peer import Peer, Rejected, Status, namespace, refuses
from sdptests.peer.register import case
from sdptests.peer.scene import ADDRESSES, Scene
from sdptests.twohosts.failure import check

HERE, THERE = ADDRESSES[4]
PORT = 6999


def _pair(scene: Scene, **settings: int) -> tuple[Peer, Peer]:
    active, passive = scene.peer(**settings), scene.peer(**settings)
    with namespace("b"):
        passive.listen(THERE, PORT)
    with namespace("a"):
        active.connect(HERE, THERE, PORT, b"request")
    check(passive.expect("req").data == b"request".ljust(92, b"\0"), "the private data of the REQ")
    passive.reply(b"reply")
    check(active.expect("rep").data == b"reply".ljust(196, b"\0"), "the private data of the REP")
    active.rtu()
    passive.expect("established")
    return active, passive


@case("tool: two raw peers")
def two(scene: Scene) -> None:
    """Private data and messages arrive as they were sent."""
    active, passive = _pair(scene, receive_size=100000)
    for source, sink in ((active, passive), (passive, active)):
        for message in (b"", b"x", bytes(range(256)) * 256, b"y" * 100000):
            check(source.completion(source.send(message)) == Status.SUCCESS, "sending")
            check(sink.expect("message").data == message, f"{len(message)} bytes")
        check(source.completion(source.write()) == Status.SUCCESS, "a write of nothing")
    active.dreq()
    passive.expect("dreq")
    passive.drep()
    active.expect("drep")


@case("tool: an empty receive queue, and nobody at all")
def failures(scene: Scene) -> None:
    """The completions of a sender without credits, and of a sender without a peer."""
    active, _passive = _pair(scene, posted=0, rnr_retry=1)
    status = active.completion(active.send(b"x"))
    check(status == Status.RNR_RETRY_EXC_ERR, status.name)
    active.close()
    _passive.close()
    active, passive = _pair(scene, retry=1)
    passive.vanish()
    status = active.completion(active.send(b"x"))
    check(status == Status.RETRY_EXC_ERR, status.name)


@case("tool: rejections")
def rejections(scene: Scene) -> None:
    """Before and after the REP, and without an answer."""
    active, passive = scene.peer(), scene.peer()
    with namespace("b"):
        passive.listen(THERE, PORT)
    with namespace("a"):
        active.connect(HERE, THERE, PORT, b"")
    passive.expect("req")
    passive.reject(77)
    check(active.expect("rej").number == 77, "the reason")
    passive.close()
    active.close()
    active = scene.peer()
    with namespace("a"):
        active.connect(HERE, THERE, PORT, b"")
    check(active.expect("rej").number == Rejected.INVALID_SERVICE_ID, "the reason without anybody")


@case("tool: nonsense is refused")
def nonsense(scene: Scene) -> None:
    """Each fails with an error, and the peer stays usable."""
    peer = scene.peer()
    for line, number in (
        ("", errno.EMSGSIZE),
        ("nonsense", errno.EOPNOTSUPP),
        ("set", errno.EINVAL),
        ("set nothing 1", errno.ENOENT),
        ("set retry", errno.EINVAL),
        ("set retry 8", errno.ERANGE),
        ("set retry x", errno.EINVAL),
        ("connect", errno.EINVAL),
        (f"connect {HERE} {THERE} 65536 -", errno.ERANGE),
        (f"connect {HERE} {THERE} 1 abc", errno.EINVAL),
        (f"connect {HERE} {THERE} 1 zz", errno.EINVAL),
        ("listen 10.0.0.99 1", errno.EADDRNOTAVAIL),
        ("send 00", errno.ENOTCONN),
        ("post 1", errno.ENOTCONN),
        ("reply -", errno.ENOTCONN),
        ("rtu", errno.ENOTCONN),
        ("dreq", errno.ENOTCONN),
        ("drep", errno.ENOTCONN),
        ("reject 1", errno.ENOTCONN),
        ("x" * 300000, errno.EMSGSIZE),
    ):
        refuses(number, peer.command, line)
    with namespace("a"):
        refuses(errno.EMSGSIZE, peer.connect, HERE, THERE, 1, bytes(93))
        peer.listen(HERE, PORT)
        refuses(errno.EISCONN, peer.connect, HERE, THERE, 1, b"")
        refuses(errno.EBUSY, scene.peer().listen, HERE, PORT)


@case("tool: a script is killed in the middle of everything")
def killed(scene: Scene) -> None:
    """Connections in every state; the end of the process removes them all."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scene.request(scene.hello())
            scene.greet()
            scene.greet().peer.rtu()
            scene.greet().peer.vanish()
            waiting = scene.peer()
            with namespace("a"):
                waiting.listen(HERE, PORT)
            os.write(write, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(write)
    ready = os.read(read, 1)
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    check(ready == b"x", "the script has failed by itself")
    # One was established, and is reset.
    stream = scene.listener.accept()
    scene.keep(stream)
    found, _data = stream.end()
    check(found == errno.ECONNRESET, errno.errorcode.get(found, str(found)))
    stream.close()
    with namespace("a"):
        scene.peer().listen(HERE, PORT)
