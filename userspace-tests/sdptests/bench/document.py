# SPDX-License-Identifier: MIT
"""Parts of the documents that benches print."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from sdptests.bench import spread as rounds_of
from sdptests.twohosts.report import say


def captured(tell: Callable[[], None]) -> str:
    """What it prints, without the empty lines around it."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        tell()
    return text.getvalue().strip("\n")


@contextlib.contextmanager
def fenced() -> Iterator[None]:
    """What is printed meanwhile is a block of code."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        yield
    lines = text.getvalue().strip("\n")
    say(f"```\n{lines}\n```")


def machine() -> str:
    """A sentence about this machine."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    name = f" ({found[1].strip()})" if found else ""
    count = len(os.sched_getaffinity(0))
    return f"One run on Linux {os.uname().release} with {count} processors{name}."


def spread(rounds: int) -> str:
    """What the spread of so many rounds is."""
    dropped = rounds_of.outermost(rounds)
    range_ = f"leaves out the {dropped} least and the {dropped} greatest"
    return (
        f"The spread {range_ if dropped else 'is from the least to the greatest'}; the median of very "
        f"many rounds lies in it with a probability of {100 * rounds_of.certainty(rounds):.0f} %. "
        f"Fewer than {rounds_of.DECIDING} rounds decide nothing."
    )
