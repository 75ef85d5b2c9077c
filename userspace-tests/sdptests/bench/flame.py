# SPDX-License-Identifier: MIT
"""A flame graph: call chains as boxes, whose width is the time that was spent in them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_WIDTH, _ROW, _TEXT = 1200, 17, 7
# Narrower boxes are not drawn.
_NARROW = 0.3
_COLOURS = {"[sdp]": "#f4a259", "[rlo]": "#8cb369", "": "#9fb8d0"}


@dataclass
class Box:
    """A function below its caller."""

    samples: int = 0
    callees: dict[str, Box] = field(default_factory=dict)

    def depth(self) -> int:
        """Of the longest chain below."""
        return 1 + max((box.depth() for box in self.callees.values()), default=0)


def tree(stacks: Mapping[tuple[str, ...], int]) -> Box:
    """All chains, joined where they are the same."""
    root = Box()
    for chain, samples in stacks.items():
        box = root
        box.samples += samples
        for name in chain:
            box = box.callees.setdefault(name, Box())
            box.samples += samples
    return root


def _boxes(box: Box, left: float, row: int, scale: float) -> Iterator[str]:
    for name, callee in sorted(box.callees.items()):
        width = callee.samples * scale
        if width >= _NARROW:
            share = width / _WIDTH
            colour = _COLOURS.get(name[name.rfind("[") :] if name.endswith("]") else "", "#d0a9c0")
            shown = html.escape(name[: max(0, int(width / _TEXT) - 1)])
            yield (
                f'<g><title>{html.escape(name)}: {share:.2%}</title><rect x="{left:.1f}" '
                f'y="{row * _ROW}" width="{width:.1f}" height="{_ROW - 1}" fill="{colour}"/>'
                f'<text x="{left + 2:.1f}" y="{row * _ROW + 12}">{shown}</text></g>'
            )
            yield from _boxes(callee, left, row + 1, scale)
        left += width


def graph(title: str, stacks: Mapping[tuple[str, ...], int]) -> str:
    """As SVG; the outermost functions are at the top."""
    root = tree(stacks)
    height = (root.depth() + 1) * _ROW
    boxes = "\n".join(_boxes(root, 0, 1, _WIDTH / max(1, root.samples)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="monospace" font-size="11">\n<text x="2" y="12">{html.escape(title)}</text>\n'
        f"{boxes}\n</svg>\n"
    )
