# SPDX-License-Identifier: MIT
"""The one way in which a case fails."""

from typing import TypeVar

T = TypeVar("T")


class Failure(Exception):
    """What went wrong, in words for the person who reads the report."""


def check(condition: object, message: str) -> None:
    """Fail with `message` unless `condition` holds."""
    if not condition:
        raise Failure(message)


def parsed(found: T | None, text: str, what: str) -> T:
    """What was found, or a failure which shows the text that has none of it."""
    if found is None:
        raise Failure(f"{what} not found in:\n{text.strip()}")
    return found
