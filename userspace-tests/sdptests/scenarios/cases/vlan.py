# SPDX-License-Identifier: MIT
"""Addresses of VLAN interfaces above the interfaces of the devices."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from sdptests.peer.peer import namespace
from sdptests.peer.stream import Connecting, Listener
from sdptests.scenarios import leftovers, limits
from sdptests.scenarios.network import A, B, End, await_address, command
from sdptests.scenarios.register import Skip, scenario
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

ID = 10
COUNT = 100_000


def _address(end: End) -> str:
    return f"10.1.0.{end.number}"


@contextlib.contextmanager
def _vlans() -> Iterator[None]:
    for end, peer in ((A, B), (B, A)):
        link = f"{end.link}.{ID}"
        command(
            "ip", "-n", end.host, "-batch", "-",
            text=f"link add link {end.link} name {link} type vlan id {ID}\n"
            f"addr add {_address(end)}/24 dev {link}\nlink set {link} up\n"
            f"neigh replace {_address(peer)} lladdr {peer.hardware} nud reachable dev {link}\n",
        )  # fmt: skip
    try:
        for end in (A, B):
            await_address(end, _address(end))
        yield
    finally:
        for end in (A, B):
            command("ip", "-n", end.host, "link", "del", f"{end.link}.{ID}")


def _transfer(source: str, target: str) -> None:
    with namespace(target):
        listener = Listener(_address(A if target == "a" else B))
    with namespace(source):
        client = Connecting(listener.address, listener.port).stream(limits.seconds(10))
    server = listener.accept(limits.seconds(10))
    client.send(bytes(COUNT))
    check(server.receive(COUNT) == bytes(COUNT), "other bytes")
    for one in (client, server, listener):
        one.close()


@scenario
def addresses_of_a_vlan_are_connected() -> str:
    """Between two hosts, and within one; the device below serves them."""
    if KIND != "rlo":
        raise Skip("about rlo's completions of datagrams")
    with _vlans():
        for source, target in (("b", "a"), ("a", "b"), ("a", "a")):
            _transfer(source, target)
        leftovers.await_empty_tables()
        done = subprocess.run(
            ["ip", "netns", "exec", "a", "rdma", "link", "add", "rlovlan", "type", KIND, "netdev", f"{A.link}.{ID}"],
            capture_output=True,
            check=False,
        )
        check(done.returncode != 0, "a VLAN interface is a port")
    return f"VLAN {ID}"
