# SPDX-License-Identifier: MIT
"""The common command line of the scripts here."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from sdptests.twohosts import device, proof, register
from sdptests.twohosts.hosts import namespaces
from sdptests.twohosts.lab import Case, Lab
from sdptests.twohosts.proof import Outcome
from sdptests.twohosts.report import Ktap, Table


def main(groups: Mapping[str, Sequence[ModuleType]], description: str) -> None:
    """Runs the cases of a group's programs, and exits with 1 if one of them failed."""
    parser = register.parser(
        f"{description}\n\nPatterns are of names of programs. "
        "Run as root where the network namespaces a and b are the two hosts."
    )
    parser.add_argument("--group", choices=groups, default="all", help="these alone")
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
    options = parser.parse_args()
    known = {module.__name__.rpartition(".")[2]: module for module in groups[options.group]}
    programs = register.named(options, known)
    # A soak run uses the full length.
    small = options.small and not register.SOAK
    rounds = [Round(list(programs.values()), options.family)]
    play(rounds, Ktap() if options.ktap else Table(), small=small)


@dataclass(frozen=True)
class Round:
    """Programs over one family, and over one device if it matters which."""

    programs: Sequence[ModuleType]
    family: str
    device: str | None = None

    def cases(self, lab: Lab) -> list[Case]:
        """The cases of its programs."""
        return [case for module in self.programs for case in module.cases(lab)]


def play(rounds: Sequence[Round], report: Table | Ktap, *, small: bool) -> NoReturn:
    """Runs all rounds, and exits with 1 if a case failed."""
    with tempfile.TemporaryDirectory(prefix="sdp-apps-") as directory:
        # Programs of other users (a web server that drops root) must be able to read it.
        Path(directory).chmod(0o755)
        a, b = namespaces()
        labs = [Lab(a, b, one.family, small, Path(directory)) for one in rounds]
        names = []
        for one, lab in zip(rounds, labs, strict=True):
            names += [case.name for case in one.cases(lab)]
            names += [proof.NOTHING_LEFT] * (one.family == "sdp")
        report.begin(names)
        outcomes = []
        for one, lab in zip(rounds, labs, strict=True):
            for outcome in _outcomes(one, lab):
                outcomes.append(outcome)
                report.add(outcome)
        report.end(outcomes)
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)


def _outcomes(one: Round, lab: Lab) -> Iterator[Outcome]:
    if one.device:
        device.use(one.device)
    for case in one.cases(lab):
        yield proof.run(case, lab)
    if one.family == "sdp":
        yield proof.nothing_left(lab)
