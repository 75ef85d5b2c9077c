# SPDX-License-Identifier: MIT
"""The command line that all scripts here share."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from twohosts import proof
from twohosts.hosts import namespaces
from twohosts.lab import Lab
from twohosts.proof import Outcome
from twohosts.report import Ktap, Table


def main(programs: Sequence[ModuleType], description: str) -> None:
    """Run the cases of these programs, and exit with 1 if one of them failed."""
    known = {module.__name__.rpartition(".")[2]: module for module in programs}
    parser = argparse.ArgumentParser(
        description=description,
        epilog="Run as root where the network namespaces a and b are the two hosts.",
    )
    parser.add_argument("--ktap", action="store_true", help="tell outcomes as KTAP")
    parser.add_argument(
        "--small", action="store_true", help="less of everything, for a debug kernel"
    )
    parser.add_argument(
        "--family",
        choices=("sdp", "tcp"),
        default="sdp",
        help="tcp: try the scripts themselves where there is no SDP",
    )
    if len(known) > 1:
        parser.add_argument(
            "program", nargs="*", help=f"only these; all if none is named: {', '.join(known)}"
        )
    options = parser.parse_args()
    names = getattr(options, "program", None) or list(known)
    for name in names:
        if name not in known:
            parser.error(f"no program {name}: there are {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="sdp-apps-") as directory:
        # Other users' programs (a web server that drops root) may look into it.
        Path(directory).chmod(0o755)
        a, b = namespaces()
        # A soak is the same at full length.
        small = options.small and not os.environ.get("SOAK")
        lab = Lab(a, b, options.family, small, Path(directory))
        outcomes = _run([known[name] for name in names], lab, Ktap() if options.ktap else Table())
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)


def _run(programs: Sequence[ModuleType], lab: Lab, report: Table | Ktap) -> list[Outcome]:
    cases = [case for module in programs for case in module.cases(lab)]
    names = [case.name for case in cases]
    if lab.family == "sdp":
        names.append("no connection left")
    report.begin(names)
    outcomes = []
    for case in cases:
        outcomes.append(proof.run(case, lab))
        report.add(outcomes[-1])
    if lab.family == "sdp":
        outcomes.append(proof.nothing_left(lab))
        report.add(outcomes[-1])
    report.end(outcomes)
    return outcomes
