# SPDX-License-Identifier: MIT
"""The exclusive mode of the RDMA core's namespaces: a container sees its own device alone."""

from __future__ import annotations

import contextlib
import json

from sdptests.scenarios import containers, limits
from sdptests.scenarios.containers import BRIDGE, Container, Daemon
from sdptests.scenarios.network import command
from sdptests.scenarios.register import exclusive_scenario
from sdptests.twohosts.device import KIND
from sdptests.twohosts.failure import Failure, check

ONE, TWO = Container(1), Container(2)
MANY = [Container(number) for number in range(1, 41)]


def _devices(host: str | None) -> list[str]:
    """The devices in a namespace, without the harness's own one."""
    with contextlib.suppress(Failure):
        found = json.loads(command("rdma", "-j", "dev", host=host))
        return [device["ifname"] for device in found if device["ifname"] != f"{KIND}0"]
    return []


def _await(*some: Container) -> None:
    for one in some:
        limits.until(
            f"the device of {one.host}",
            limits.seconds(20),
            lambda name=one: _devices(name.host) == [f"rlo-{BRIDGE}-{name.index}"],
        )


@exclusive_scenario
def a_container_sees_its_own_device_alone() -> None:
    """Containers are connected over SDP; neither another container nor the host sees the device."""
    with containers.bridge(), containers.bridge("br1"):
        tenant = Container(9, "br1")
        containers.start(ONE, TWO, tenant)
        _await(ONE, TWO)
        limits.until(
            "the tenant's device", limits.seconds(20), lambda: _devices(tenant.host) == ["rlo-br1-1009"]
        )
        check(_devices(None) == [], f"the host sees {_devices(None)}")
        containers.connect(ONE, TWO)
        check(containers.are_apart(ONE, tenant), "a tenant reaches another bridge")


@exclusive_scenario
def the_next_daemon_finds_devices_inside() -> None:
    """A daemon dies; the next one keeps what there is, removes what is stale, and at last all."""
    with containers.bridge() as daemon:
        containers.start(ONE, TWO)
        _await(ONE, TWO)
        before = command("rdma", "dev", host=ONE.host)
        daemon.kill()
        command("ip", "link", "set", TWO.port, "nomaster")
        daemon.begin()
        limits.until("no device", limits.seconds(20), lambda: not _devices(TWO.host))
        check(command("rdma", "dev", host=ONE.host) == before, "the device is another one")
        second = Daemon()
        check(second.wait() == 1, second.said())
        daemon.end()
        check(_devices(ONE.host) == [], "the device stays")


@exclusive_scenario
def an_interface_takes_its_device_along() -> None:
    """It moves, and its namespace ends: the host does not get the device."""
    with containers.bridge():
        containers.start(ONE, TWO)
        _await(ONE, TWO)
        command("ip", "netns", "add", "cx")
        command("ip", "-n", ONE.host, "link", "set", "eth0", "netns", "cx")
        name = f"rlo-{BRIDGE}-{ONE.index}"
        limits.until("the device to move", limits.seconds(20), lambda: _devices("cx") == [name])
        check(_devices(ONE.host) == [], "two namespaces have it")
        containers.configure(ONE, "cx")
        containers.stop(TWO)
        command("ip", "netns", "del", "cx")
        limits.until("no device", limits.seconds(20), lambda: not _devices(None))


@exclusive_scenario
def a_container_costs_no_more_beside_many() -> str:
    """Forty start and stop."""
    with containers.bridge():
        containers.start(*MANY)
        took = limits.until(
            "the last device", limits.seconds(40), lambda: _devices(MANY[-1].host) != []
        )
        _await(*MANY)
        containers.connect(MANY[0], MANY[-1])
        containers.stop(*MANY)
    return f"{took:.1f} s from the last port to its device"
