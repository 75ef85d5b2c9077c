# SPDX-License-Identifier: MIT
"""All cases. The report has them in the order of import: simple things first."""

# ruff: noqa: I001
from sdptests.peer.cases import (
    tool,
    correct,
    hellos,
    hello_acks,
    messages,
    order,
    close,
    credit,
    transport,
    lending,
    borrowing,
    writing,
    fuzz,
    fuzz_lending,
    kernel_users,
)

__all__ = [
    "borrowing",
    "close",
    "correct",
    "credit",
    "fuzz",
    "fuzz_lending",
    "hello_acks",
    "hellos",
    "kernel_users",
    "lending",
    "messages",
    "order",
    "tool",
    "transport",
    "writing",
]
