"""Small multiples: several pictures in one SVG, each below its heading, as large as can still be read."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from mindlab.draw import style
from mindlab.draw.board import wrap
from mindlab.draw.frames import FONTS, text
from mindlab.draw.shown import placed, size

WIDTH = 800
_EDGE, _TOP, _LINE = 12, 44, 15
_LEAST = 0.8  # a picture is not drawn smaller than this part of its own size to stand beside another
_MOST = 3


class Tile(NamedTuple):
    """One picture: its SVG, its heading, and what it was drawn with."""

    svg: str
    heading: str
    note: str


def multiples(tiles: Sequence[Tile], title: str, line: str, alt: str) -> str:
    """The SVG of all tiles, side by side where they fit, with a title above and a line below."""
    across = _across(tiles)
    column = WIDTH / across
    parts = [text(_EDGE, 26, title, 15, extra=' font-weight="bold"')]
    y = float(_TOP)
    for start in range(0, len(tiles), across):
        drawn, tall = _row(tiles[start : start + across], column, y)
        parts += drawn
        y += tall
    for said in wrap(line, (WIDTH - 2 * _EDGE) / 96, 8.5):
        parts.append(text(_EDGE, y + 8, said, 11, fill=style.FADED))
        y += _LINE
    height, label = round(y + 6), html.escape(alt)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{label}" font-family="{FONTS}">'
        f"<title>{html.escape(title)}</title><desc>{label}</desc>"
        f'<rect width="100%" height="100%" fill="{style.PAPER}" stroke="{style.GRID}"/>{"".join(parts)}</svg>'
    )


def _across(tiles: Sequence[Tile]) -> int:
    """How many stand side by side."""
    widest = max(size(tile.svg)[0] for tile in tiles)
    fit = [n for n in range(1, _MOST + 1) if WIDTH / n - 2 * _EDGE >= _LEAST * widest]
    return min(max(fit, default=1), len(tiles))


def _row(tiles: Sequence[Tile], column: float, y: float) -> tuple[list[str], float]:
    """The parts of one row whose top is at y, and the row's height."""
    room = column - 2 * _EDGE
    notes = [wrap(tile.note, room / 96, 9) for tile in tiles]
    head = 20 + _LINE * max(len(lines) for lines in notes)
    parts, tallest = [], 0.0
    for i, (tile, lines) in enumerate(zip(tiles, notes, strict=True)):
        x = i * column + _EDGE
        parts.append(text(x, y + 14, tile.heading, 13, extra=' font-weight="bold"'))
        parts += [
            text(x, y + 14 + _LINE * (k + 1), said, 11.5, fill=style.FADED) for k, said in enumerate(lines)
        ]
        wide, tall = size(tile.svg)
        scale = min(1.0, room / wide)
        parts.append(placed(tile.svg, x, y + head, wide * scale, tall * scale))
        tallest = max(tallest, tall * scale)
    return parts, head + tallest + 20
