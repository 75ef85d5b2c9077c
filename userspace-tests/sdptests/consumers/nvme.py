# SPDX-License-Identifier: MIT
"""NVMe over RDMA: a target that exports the machine's memory, and a host that uses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from sdptests.consumers import storage
from sdptests.consumers.disk import MEMORY
from sdptests.consumers.fabric import End, add_device, remove_device
from sdptests.scenarios import limits
from sdptests.scenarios.network import command
from sdptests.scenarios.register import Skip
from sdptests.twohosts.failure import parsed

NAME = "nqn.2025-01.example:consumers"
_PORT = "4420"
_CONFIG = Path("/sys/kernel/config")
_TARGET = _CONFIG / "nvmet"
_CONNECT = Path("/dev/nvme-fabrics")
_CONTROLLERS = Path("/sys/class/nvme")


def needed() -> None:
    """Skips if the kernel does not support it."""
    if not _CONNECT.exists() or not MEMORY.exists():
        raise Skip("needs a kernel with NVMe over RDMA and memory disks")
    if not os.path.ismount(_CONFIG):
        command("mount", "-t", "configfs", "none", str(_CONFIG))
    if not _TARGET.exists():
        raise Skip("needs a kernel with the target of NVMe")


@contextlib.contextmanager
def target(end: End) -> Iterator[None]:
    """The end exports the memory meanwhile.

    The export ends with its device. The kernel's target destroys the listener of a port while it
    holds the lock of its configuration. It takes that lock also when a command arrives before the
    peer's RTU, while it holds the lock of the arriving queue: lockdep reports a circle. Without a
    device the listener is gone already.
    """
    subsystem = _TARGET / "subsystems" / NAME
    space = subsystem / "namespaces" / "1"
    port = _TARGET / "ports" / "1"
    link = port / "subsystems" / NAME
    with contextlib.ExitStack() as undo:
        for directory in (subsystem, space, port):
            directory.mkdir()
            undo.callback(directory.rmdir)
        (subsystem / "attr_allow_any_host").write_text("1")
        (space / "device_path").write_text(str(MEMORY))
        (space / "enable").write_text("1")
        undo.callback((space / "enable").write_text, "0")
        for name, value in (
            ("addr_trtype", "rdma"),
            ("addr_adrfam", "ipv6" if ":" in end.address else "ipv4"),
            ("addr_traddr", end.seen_from(end)),
            ("addr_trsvcid", _PORT),
        ):
            (port / name).write_text(value)
        link.symlink_to(subsystem)
        undo.callback(add_device, end)
        undo.callback(link.unlink)
        undo.callback(remove_device, end)
        yield


class Host:
    """A controller of the target, and the disk that comes with it."""

    def __init__(self, near: End, far: End, **options: int) -> None:
        values: dict[str, object] = {
            "transport": "rdma",
            "traddr": far.seen_from(near),
            "host_traddr": near.seen_from(near),
            "trsvcid": _PORT,
            "nqn": NAME,
            "nr_io_queues": 2,
            "reconnect_delay": 1,
            "ctrl_loss_tmo": 5,
            **options,
        }
        with open(_CONNECT, "r+b", buffering=0) as file:
            file.write(",".join(f"{name}={value}" for name, value in values.items()).encode())
            answer = file.read(256).decode()
        words = dict(word.strip().split("=") for word in answer.split(",") if "=" in word)
        number = parsed(words.get("instance"), answer, "the number of the controller")
        self._directory = _CONTROLLERS / f"nvme{number}"
        self.disk = storage.await_disk(self._disks)

    def _disks(self) -> list[Path]:
        subsystem = next(self._directory.glob("subsystem/nvme-subsys*"), None)
        return [*self._directory.glob("nvme*n*"), *(subsystem or Path("/x")).glob("nvme*n*")]

    @property
    def there(self) -> bool:
        """Whether the kernel still has it."""
        return self._directory.exists()

    def state(self) -> str:
        """Its reported state."""
        return storage.state(self._directory)

    def reset(self) -> None:
        """Resets all its queues."""
        (self._directory / "reset_controller").write_text("1")

    def disconnect(self) -> None:
        """Deletes it."""
        with contextlib.suppress(OSError):
            (self._directory / "delete_controller").write_text("1")
        limits.until("the end of the controller", limits.seconds(20), lambda: not self.there)


def host(near: End, far: End, **options: int) -> AbstractContextManager[Host]:
    """A controller that is deleted afterwards."""
    one = Host(near, far, **options)
    return storage.gone_afterwards(one, one.disconnect)
