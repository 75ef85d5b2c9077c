# SPDX-License-Identifier: MIT
"""rlo_bridge: devices of containers that come, go, move, and of a daemon that dies."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from sdptests.scenarios import containers, limits
from sdptests.scenarios.containers import BRIDGE, Container, Daemon
from sdptests.scenarios.network import command
from sdptests.scenarios.register import Skip, long_scenario, scenario
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import check

ONE, TWO, THREE = Container(1), Container(2), Container(3)
# Namespaces that start and stop together, and how often. The kernel shows each device in each namespace,
# by some 200 files, which take the debug kernel a hundredth of a second.
MANY, TIMES = (limits.amount(50, 20), 5) if limits.SOAK else (8, 1)


def _needs_rlo() -> None:
    if KIND != "rlo":
        raise Skip("rlo_bridge makes rlo devices")


def _name(container: Container) -> str:
    return f"rlo-{BRIDGE}-{container.index}"


@scenario
def containers_of_a_bridge_are_connected_by_sdp() -> None:
    """Ports from before the daemon, and later ones; a port that leaves loses its device."""
    _needs_rlo()
    with containers.bridge() as daemon:
        daemon.end()
        containers.start(ONE, TWO)
        daemon.begin()
        there = containers.device(ONE) and containers.device(TWO)
        check(there, "it is ready before it has made devices")
        containers.connect(ONE, TWO)
        containers.start(THREE)
        containers.await_devices(THREE)
        containers.connect(THREE, ONE)
        containers.stop(THREE)
        containers.await_none(THREE)
        command("ip", "link", "set", TWO.port, "nomaster")
        containers.await_none(TWO)
        command("ip", "link", "set", TWO.port, "master", BRIDGE)
        containers.await_devices(TWO)
        containers.connect(TWO, ONE)
        daemon.end()


@scenario
def bridges_are_apart() -> None:
    """Two tenants on two bridges: each has devices, and no connection leads to the other's."""
    _needs_rlo()
    other = Container(9, "br1")
    with containers.bridge() as first, containers.bridge("br1") as second:
        containers.start(ONE, TWO, other)
        containers.await_devices(ONE, TWO, other)
        containers.connect(ONE, TWO)
        check(containers.are_apart(ONE, other), "a tenant reaches another bridge")
        second.end()
        check(not containers.device(other) and containers.device(ONE), "the wrong devices went")
        check(first.runs(), "the other daemon has ended")


@scenario
def names_do_not_matter() -> None:
    """Both ends and the namespace are renamed: the device is the same, and goes in the end."""
    _needs_rlo()
    with containers.bridge():
        containers.start(ONE, TWO)
        containers.await_devices(ONE, TWO)
        before = containers.device(ONE)
        command("ip", "-n", ONE.host, "link", "set", "eth0", "name", "tenant")
        command("ip", "link", "set", ONE.port, "name", "renamed")
        Path("/run/netns/cx").touch()
        command("mount", "--bind", f"/run/netns/{ONE.host}", "/run/netns/cx")
        command("ip", "netns", "del", ONE.host)
        containers.start(THREE)
        containers.await_devices(THREE)
        check(containers.device(ONE) == before, f"{before}, then {containers.devices()}")
        command("ip", "netns", "del", "cx")
        containers.await_none(ONE)


@scenario
def an_interface_moves_to_another_namespace() -> None:
    """The device follows it, also if the interface comes back."""
    _needs_rlo()
    with containers.bridge():
        containers.start(ONE, TWO)
        containers.await_devices(ONE, TWO)
        command("ip", "netns", "add", THREE.host)
        for source, target in ((ONE, THREE), (THREE, ONE)):
            command("ip", "-n", source.host, "link", "set", "eth0", "netns", target.host)
            containers.configure(ONE, target.host)
            limits.until(
                f"the device in {target.host}",
                limits.seconds(20),
                lambda host=target.host: _has_device(host, "eth0"),
            )
        containers.connect(ONE, TWO)


def _has_device(host: str, interface: str) -> bool:
    lines = command("rdma", "link", host=host).splitlines()
    return any(f"netdev {interface} " in line and "rlo-" in line for line in lines)


@scenario
def the_bridge_goes_and_comes_back() -> None:
    """Its containers lose their devices; those on the new bridge have some, without a restart."""
    _needs_rlo()
    with containers.bridge() as daemon:
        containers.start(ONE)
        containers.await_devices(ONE)
        command("ip", "link", "del", BRIDGE)
        containers.await_none(ONE)
        command("ip", "link", "add", BRIDGE, "up", "type", "bridge")
        command("ip", "link", "set", ONE.port, "master", BRIDGE)
        containers.start(TWO)
        containers.await_devices(ONE, TWO)
        containers.connect(ONE, TWO)
        check(daemon.runs(), "the daemon has ended")


@scenario
def the_daemon_is_killed() -> None:
    """The next one keeps what there is, removes what is stale, and makes what is missing."""
    _needs_rlo()
    with containers.bridge() as daemon:
        containers.start(ONE, TWO)
        containers.await_devices(ONE, TWO)
        before = containers.device(ONE)
        daemon.kill()
        command("ip", "link", "set", TWO.port, "nomaster")
        containers.start(THREE)
        check(containers.device(TWO) is not None, "the device of a dead daemon's port")
        daemon.begin()
        containers.await_none(TWO)
        containers.await_devices(THREE)
        check(containers.device(ONE) == before, f"{before}, then {containers.devices()}")
        containers.connect(ONE, THREE)


@scenario
def a_second_daemon_is_refused() -> None:
    """It says why, and the first one's devices stay."""
    _needs_rlo()
    with containers.bridge() as first:
        containers.start(ONE)
        containers.await_devices(ONE)
        before = containers.device(ONE)
        second = Daemon()
        check(second.wait() == 1 and "another process" in second.said(), second.said())
        check(first.runs() and containers.device(ONE) == before, "the first one suffered")


@scenario
def a_port_without_a_device_delays_no_other() -> None:
    """Another device has the name; the port gets its own when that is gone."""
    _needs_rlo()
    with containers.bridge() as daemon:
        command("ip", "link", "add", "z0", "type", "dummy")
        try:
            command("rdma", "link", "add", _name(TWO), "type", KIND, "netdev", "z0")
            containers.start(TWO)
            daemon.await_word("is on another interface")
            containers.start(ONE, THREE)
            containers.await_devices(ONE, THREE)
            check(containers.device(TWO) is None, "two devices have one name")
        finally:
            command("ip", "link", "del", "z0")
        containers.await_devices(TWO)


@scenario
def a_tenant_has_interfaces_of_its_own() -> None:
    """A bridge and a pair get nothing; a device that was there is left alone, and stays."""
    _needs_rlo()
    with containers.bridge() as daemon:
        command("ip", "netns", "add", "cx")
        text = (
            f"link add {BRIDGE} up type bridge\nlink add left type veth peer name right\n"
            f"link set left master {BRIDGE} up\nlink add tap type dummy\n"
        )
        command("ip", "-n", "cx", "-batch", "-", text=text)
        command("ip", "link", "add", "px", "type", "veth", "peer", "name", "eth0", "netns", "cx")
        command("rdma", "link", "add", "mine", "type", KIND, "netdev", "eth0", host="cx")
        command("ip", "link", "set", "px", "master", BRIDGE, "up")
        containers.start(ONE)
        containers.await_devices(ONE)
        daemon.await_word("left alone")
        names = [name for name, _ in containers.devices().values() if name.startswith("rlo-")]
        check(names == [_name(ONE)], f"{names}")
        daemon.end()
        names = [name for name, _ in containers.devices().values()]
        check("mine" in names, "a tenant's device is gone")


@scenario
def a_tenant_renames_while_its_device_is_made() -> str:
    """Two interfaces exchange their names: in the end only the one on the bridge has a device."""
    _needs_rlo()
    with containers.bridge():
        command("ip", "netns", "add", ONE.host)
        command("ip", "-n", ONE.host, "link", "add", "other", "type", "dummy")
        stopped = threading.Event()
        swap = "link set eth0 name x\nlink set other name eth0\nlink set x name other\n"
        thread = threading.Thread(target=_repeat, args=(stopped, ONE.host, swap))
        line = f"{ONE.port} type veth peer name eth0 address {ONE.hardware} netns {ONE.host}"
        command("ip", "link", "add", *line.split())
        thread.start()
        time.sleep(0.2)
        command("ip", "link", "set", ONE.port, "master", BRIDGE, "up")
        took = containers.await_devices(ONE)
        stopped.set()
        thread.join(limits.seconds(20))
        names = [name for name, _ in containers.devices().values() if name.startswith("rlo-")]
        check(len(names) == 1, f"{names}")
    return f"after {took:.1f} s"


def _repeat(stopped: threading.Event, host: str, text: str) -> None:
    while not stopped.is_set():
        command("ip", "-n", host, "-batch", "-", text=text)


@scenario
def a_bridge_in_a_namespace_of_its_own() -> None:
    """As rootless engines have it, beside a bridge of the same name."""
    _needs_rlo()
    command("ip", "netns", "add", "rootless")
    try:
        with containers.bridge() as outer, containers.bridge(host="rootless") as inner:
            containers.start(ONE)
            command("ip", "netns", "add", TWO.host)
            line = f"px type veth peer name eth0 address {TWO.hardware} netns {TWO.host}"
            command("ip", "-n", "rootless", "link", "add", *line.split())
            command("ip", "-n", "rootless", "link", "set", "px", "master", BRIDGE, "up")
            containers.await_devices(ONE, TWO)
            inner.end()
            check(containers.device(ONE) and not containers.device(TWO), f"{containers.devices()}")
            check(outer.runs(), "the outer daemon has ended")
            outer.end()
    finally:
        command("ip", "netns", "del", "rootless")


@scenario
def many_namespaces_start_and_stop_at_once() -> str:
    """Within a time limit, and nothing is left."""
    _needs_rlo()
    all_of_them = [Container(number) for number in range(1, MANY + 1)]
    times = []
    with containers.bridge():
        for _ in range(TIMES):
            begin = time.monotonic()
            containers.start(*all_of_them)
            containers.await_devices(*all_of_them)
            made = time.monotonic() - begin
            containers.connect(all_of_them[0], all_of_them[-1])
            begin = time.monotonic()
            containers.stop(*all_of_them)
            containers.await_none(*all_of_them)
            times.append(f"{made:.1f} s up, {time.monotonic() - begin:.1f} s down")
    return f"{MANY}: " + ", ".join(times)


@long_scenario
def a_thousand_containers_start_and_stop() -> str:
    """Eight at a time: each has its device, and the daemon holds at last what it held at first."""
    _needs_rlo()
    some = [Container(number) for number in range(1, 9)]
    rounds, warm = 125, 5
    waited = 0.0
    with containers.bridge() as daemon:
        for number in range(rounds):
            containers.start(*some)
            waited += containers.await_devices(*some)
            if number % 25 == 0:
                containers.connect(some[0], some[-1])
            containers.stop(*some)
            containers.await_none(*some)
            if number == warm:
                before = _settled(daemon)
        after = _settled(daemon)
    for what, amount in before.items():
        spare = 2048 if what == "KiB" else 0
        check(after[what] <= amount + spare, f"{what}: {amount} after {warm} rounds, then {after[what]}")
    return f"{1000 * waited / rounds:.0f} ms from the last port to the devices of all eight; {after}"


def _settled(daemon: Daemon) -> dict[str, int]:
    """The daemon's amounts without containers: it has the main thread alone."""
    limits.until("the end of threads", limits.seconds(20), lambda: daemon.holds()["threads"] == 1)
    return daemon.holds()
