# SPDX-License-Identifier: MIT
"""All cases, in the order of the report."""

from cases import close, correct, credit, fuzz, hello_acks, hellos, messages, order, transport

__all__ = [
    "close",
    "correct",
    "credit",
    "fuzz",
    "hello_acks",
    "hellos",
    "messages",
    "order",
    "transport",
]
