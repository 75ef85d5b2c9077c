# SPDX-License-Identifier: MIT
"""SRP: a SCSI target that exports its own memory, and an initiator that uses it.

The target has one port number for all its devices, and knows an initiator by an address.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from sdptests.consumers import storage
from sdptests.consumers.fabric import End
from sdptests.scenarios import limits
from sdptests.scenarios.network import command
from sdptests.scenarios.register import Skip

_PORT = 4711
_CONFIG = Path("/sys/kernel/config")
_TARGET = _CONFIG / "target"
_FABRIC = _TARGET / "srpt"
_STORES = _TARGET / "core" / "rd_mcp_0"
_INITIATORS = Path("/sys/class/infiniband_srp")
_REMOTE_PORTS = Path("/sys/class/srp_remote_ports")
_HOSTS = Path("/sys/class/scsi_host")
_IDENTIFIER = Path("/sys/module/ib_srpt/parameters/srpt_service_guid")
# The number of pages, of 4 KiB each.
_PAGES = 12288


def needed() -> None:
    """Skips if the kernel does not support it."""
    if not _INITIATORS.exists() or not _IDENTIFIER.exists():
        raise Skip("needs a kernel with both ends of SRP")
    if not os.path.ismount(_CONFIG):
        command("mount", "-t", "configfs", "none", str(_CONFIG))


def _port_name(end: End) -> str:
    """The target's name of the port: the lower half of its first GID."""
    gid = Path(f"/sys/class/infiniband/{end.device}/ports/1/gids/0").read_text().strip()
    return ":".join(gid.split(":")[4:])


@contextlib.contextmanager
def _made(*directories: Path) -> Iterator[None]:
    with contextlib.ExitStack() as undo:
        for directory in directories:
            directory.mkdir()
            undo.callback(directory.rmdir)
        yield


@contextlib.contextmanager
def _store() -> Iterator[Path]:
    """Zeroed memory."""
    store = _STORES / "consumers"
    with _made(_STORES, store):
        (store / "control").write_text(f"rd_pages={_PAGES}")
        (store / "enable").write_text("1")
        yield store


@contextlib.contextmanager
def _listening() -> Iterator[None]:
    """The target's one port number, on all addresses of the first namespace."""
    number = _FABRIC / "discovery_auth" / "rdma_cm_port"
    number.write_text(str(_PORT))
    try:
        yield
    finally:
        number.write_text("0")


@contextlib.contextmanager
def target(near: End, far: End) -> Iterator[None]:
    """The far end exports memory to the near one meanwhile."""
    name = _port_name(far)
    port = _FABRIC / name
    group = port / name
    unit = group / "lun" / "lun_0"
    with contextlib.ExitStack() as undo:
        if not _FABRIC.exists():
            undo.enter_context(_made(_FABRIC))
        store = undo.enter_context(_store())
        undo.enter_context(_made(port, group, unit))
        link = unit / "store"
        link.symlink_to(store)
        undo.callback(link.unlink)
        # The target looks up the initiator by the address of the wrong end.
        for end in {near, far}:
            acl = group / "acls" / end.address_in_full
            seen = acl / "lun_0"
            undo.enter_context(_made(acl, seen))
            entry = seen / "unit"
            entry.symlink_to(unit)
            undo.callback(entry.unlink)
        undo.enter_context(_listening())
        (group / "enable").write_text("1")
        undo.callback((group / "enable").write_text, "0")
        yield


def _bracketed(end: End) -> str:
    address = end.seen_from(end)
    return f"[{address}]" if ":" in address else address


class Initiator:
    """A session with the target, and the disk that comes with it."""

    def __init__(self, near: End, far: End, **timeouts: int | str) -> None:
        identifier = f"{int(_IDENTIFIER.read_text(), 16):016x}"
        before = {kind: set(kind.iterdir()) for kind in (_HOSTS, _REMOTE_PORTS)}
        words = (
            f"id_ext={identifier}",
            f"ioc_guid={identifier}",
            f"src={_bracketed(near)}",
            f"dest={_bracketed(far)}:{_PORT}",
        )
        (_INITIATORS / f"srp-{near.device}-1" / "add_target").write_text(",".join(words))
        new = {kind: set(kind.iterdir()) - known for kind, known in before.items()}
        (self._host,) = new[_HOSTS]
        (self._port,) = new[_REMOTE_PORTS]
        # Set in an order without contradictions.
        for timeout, value in timeouts.items():
            (self._port / timeout).write_text(str(value))
        self.disk = storage.await_disk(lambda: self._host.glob("device/target*/*/block/sd*"))

    @property
    def there(self) -> bool:
        """Whether the kernel still has it."""
        return self._host.exists()

    def log_out(self) -> None:
        """Deletes it."""
        with contextlib.suppress(OSError):
            (self._port / "delete").write_text("1")
        limits.until("the end of the session", limits.seconds(20), lambda: not self.there)


def initiator(near: End, far: End, **timeouts: int | str) -> AbstractContextManager[Initiator]:
    """A session that is deleted afterwards."""
    one = Initiator(near, far, **timeouts)
    return storage.gone_afterwards(one, one.log_out)
