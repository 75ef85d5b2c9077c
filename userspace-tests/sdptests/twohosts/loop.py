# SPDX-License-Identifier: MIT
"""The loop of all runners: tests one after the other, each reported at once."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sdptests.twohosts.ktap import Ktap


@dataclass(frozen=True)
class Result:
    """The result of a test."""

    # The reason of a failure; empty if the test has passed.
    wrong: str = ""
    note: str = ""
    # The reason why the test was not run.
    skipped: str = ""


def run(
    report: Ktap, tests: Iterable[tuple[str, Callable[[], Result]]], *, timed: bool = False
) -> None:
    """Runs named tests and reports them, with their seconds if `timed`."""
    for name, test in tests:
        begin = time.monotonic()
        result = test()
        took = f"{time.monotonic() - begin:.1f} s" if timed else ""
        notes = (result.wrong, result.note, took)
        report.add(name, not result.wrong, *notes, skipped=result.skipped)


def tried(
    test: Callable[[], object],
    *expected: type[Exception],
    skip: tuple[type[Exception], ...] = (),
) -> Result:
    """Runs a test, which may return a note.

    An exception of an `expected` type is a failure that says why; others end the run. If no type is
    expected, each exception is a failure with its traceback. An exception of a type in `skip` says
    why the test cannot run here.
    """
    failures = expected or (Exception,)
    try:
        said = test()
    except skip as reason:
        return Result(skipped=str(reason))
    except failures as error:
        return Result((str(error) if expected else "") or traceback.format_exc())
    return Result(note=said if isinstance(said, str) else "")
