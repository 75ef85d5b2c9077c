# SPDX-License-Identifier: MIT
"""The costs of other values of a knob, beside those of its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sdptests.bench.spread import LESS, MORE, Spread
from sdptests.twohosts.report import say

DEFAULT = "default"
_NAME, _CELL = 26, 20


@dataclass
class Way:
    """Costs by load and round: us for a message one way, or ms for each MiB."""

    whole: dict[str, dict[int, float]] = field(default_factory=dict)
    kernel: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, at: int, load: str, whole: float, kernel: float | None) -> None:
        """Adds a result of a round."""
        self.whole.setdefault(load, {})[at] = whole
        if kernel is not None:
            self.kernel.setdefault(load, {})[at] = kernel


def show(ways: Mapping[str, Way], part: str) -> None:
    """Prints the ratios to the default in the same rounds; `-` is less, `+` is more, where all of
    the spread of enough rounds is."""
    default: dict[str, dict[int, float]] = getattr(ways[DEFAULT], part) if DEFAULT in ways else {}
    if not default:
        return
    heading = f"{part}, of the default's"
    say(f"\n{heading:<{_NAME}}" + "".join(f"{load:>{_CELL}}" for load in default))
    for name, way in ways.items():
        found = [Spread.of_ratios(getattr(way, part).get(load, {}), default[load]) for load in default]
        if any(found):
            say(f"{name:<{_NAME}}" + "".join(f"{_cell(one):>{_CELL}}" for one in found))


def _cell(ratio: Spread | None) -> str:
    if ratio is None:
        return ". "
    return ratio.short() + {LESS: "-", MORE: "+"}.get(ratio.beside_one(), " ")
