# SPDX-License-Identifier: MIT
"""SRP: read bytes are the written ones."""

from __future__ import annotations

from sdptests.consumers import fabric, srp, storage
from sdptests.consumers.fabric import FAR, NEAR, SELF, End
from sdptests.scenarios.register import scenario


def _pieces(near: End, far: End) -> str:
    srp.needed()
    with srp.target(near, far), srp.initiator(near, far) as initiator:
        fabric.check_joined(near, far)
        return storage.exchange_many(initiator.disk, 5)


@scenario
def srp_has_pieces_of_all_shapes() -> str:
    """Requests from several memory areas, at any sector."""
    return _pieces(NEAR, FAR)


@scenario
def srp_has_pieces_by_a_device_to_itself() -> str:
    """Initiator and target on one device."""
    return _pieces(SELF, SELF)


@scenario
def srp_carries_a_file_system() -> str:
    """With concurrent writers."""
    srp.needed()
    with srp.target(NEAR, FAR), srp.initiator(NEAR, FAR) as initiator:
        return storage.carry_files(initiator.disk)
