# SPDX-License-Identifier: MIT
"""A capture, the programs' report about it, and the rules applied to both."""

from __future__ import annotations

from collections.abc import Callable

from sdptests.twohosts.failure import Failure, check
from sdptests.wire import connections, rules
from sdptests.wire.connections import Connection
from sdptests.wire.frames import Frame
from sdptests.wire.rules import Transfer

# The rules in an order in which each needs only earlier results, and their titles.
TITLES = {
    "recognised": "every message is recognised as SDP",
    "well_formed": "no packet is malformed",
    "sort": "every packet belongs to a connection of ours",
    "hello": "Hello says what the programs did",
    "hello_ack": "HelloAck answers it",
    "lengths": "Len counts the bytes of the message",
    "sequence": "MSeq counts the messages of each direction",
    "credits": "no message is sent without a credit",
    "payload": "the payload is the stream of the programs",
}


class Verdict:
    """One capture to be judged."""

    def __init__(self, frames: list[Frame], transfers: list[Transfer]) -> None:
        self._frames = frames
        self._transfers = transfers
        self._connections: list[Connection] = []
        self._rules: dict[str, Callable[[], None]] = {
            "recognised": lambda: rules.recognised(frames),
            "well_formed": lambda: rules.well_formed(frames),
            "sort": self._sort,
            "hello": lambda: self._each(rules.hello),
            "hello_ack": lambda: self._each(lambda found, _: rules.hello_ack(found)),
            "lengths": lambda: self._each(lambda found, _: rules.lengths(found)),
            "sequence": lambda: self._each(lambda found, _: rules.sequence(found)),
            "credits": lambda: self._each(lambda found, _: rules.credits(found)),
            "payload": lambda: self._each(rules.payload),
        }

    def apply(self, rule: str) -> None:
        """Applies one of the rules of TITLES."""
        self._rules[rule]()

    def broken(self) -> list[str]:
        """All broken rules, with reasons."""
        found = []
        for rule in TITLES:
            try:
                self.apply(rule)
            except Failure as failure:
                found.append(f"{rule}: {failure}")
        return found

    def _sort(self) -> None:
        check(self._frames, "there is no packet")
        self._connections = connections.sort(self._frames)
        check(
            len(self._connections) == len(self._transfers),
            f"{len(self._connections)} connections for {len(self._transfers)} transfers",
        )

    def _each(self, rule: Callable[[Connection, Transfer], None]) -> None:
        check(self._connections, "there is no connection")
        left = list(self._connections)
        for transfer in self._transfers:
            # Between the same hosts, the first connection is the first transfer.
            found = next(
                (
                    connection
                    for connection in left
                    if connection.request.source == transfer.client[0]
                    and connection.request.destination == transfer.server[0]
                ),
                None,
            )
            check(found is not None, f"no connection is {transfer}")
            assert found is not None
            left.remove(found)
            rule(found, transfer)
