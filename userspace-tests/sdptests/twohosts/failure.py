# SPDX-License-Identifier: MIT
"""The exception for a failed case."""

from typing import TypeVar

T = TypeVar("T")


class Failure(Exception):
    """The reason of a failure, for the readers of the report."""


def check(condition: object, message: str) -> None:
    """Fail with `message` unless `condition` holds."""
    if not condition:
        raise Failure(message)


def parsed(found: T | None, text: str, what: str) -> T:
    """The match, or a failure that shows the text without one."""
    if found is None:
        raise Failure(f"{what} not found in:\n{text.strip()}")
    return found
