"""A white card with inches as its units, and the few marks that all the pictures are made of.

y grows downwards, as one reads. On an Axes given by the person the card is scaled to fit, text included.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from mindlab.draw import labels, style
from mindlab.draw.picture import canvas, figure_of

_LINE = 0.16
"""The height of one line of small text, in inches."""
MARGIN = 0.15


class Board:
    """The card: `Board(ax, width, height, language)`; `ax` None makes a Picture of its own."""

    def __init__(self, ax: Axes | None, width: float, height: float, language: str) -> None:
        self.cjk = labels.cjk_font() if language == "zh" else ""
        self.width, self.height = width, height
        self.scale = 1.0 if ax is None else _scale(ax, width, height)
        self.ax: Axes = canvas(width, height, self.cjk) if ax is None else ax
        if ax is None:
            self.ax.set_position((0, 0, 1, 1))
        self.ax.set_xlim(0, width)
        self.ax.set_ylim(height, 0)
        self.ax.set_aspect("equal")
        self.ax.set_axis_off()
        self.cell(0, 0, width, height, edgecolor=style.GRID if ax is None else "none")

    @property
    def figure(self) -> Figure:
        """The figure that the card is in."""
        return figure_of(self.ax)

    def inset(self, x: float, y: float, width: float, height: float) -> Axes:
        """New Axes on the card, its upper left corner at (x, y), for another picture to draw on."""
        across, down = width / self.width, height / self.height
        ax = self.figure.add_axes((x / self.width, 1 - y / self.height - down, across, down))
        return ax

    def text(self, x: float, y: float, text: str, size: float = style.TEXT, **kwargs: Any) -> Text:
        """Text at a point, centred unless told otherwise."""
        placed = {"ha": "center", "va": "center", "color": style.INK, **kwargs}
        if "fontweight" in placed:
            placed["fontweight"] = style.bold(self.cjk)
        family = style.rc(self.cjk)["font.family"]
        return self.ax.text(x, y, text, fontsize=size * self.scale, fontfamily=family, **placed)

    def title(self, text: str, y: float = 0.25) -> None:
        """The line on top, at the left; a long one in smaller letters."""
        ems = sum(1.0 if ord(c) > 0x2E7F else 0.61 for c in text)
        fitting = (self.width - 2 * MARGIN) * 72 / max(1.0, ems)
        size = min(style.TITLE, max(style.TINY, fitting))
        self.text(MARGIN, y, text, size, ha="left", fontweight="bold")

    def foot(self, lines: Sequence[str]) -> None:
        """The lines of provenance at the bottom."""
        for i, line in enumerate(lines):
            y = self.height - 0.14 - (len(lines) - 1 - i) * _LINE
            self.text(MARGIN, y, line, style.SMALL, ha="left", color=style.FADED)

    def cell(self, x: float, y: float, width: float, height: float, **kwargs: Any) -> Rectangle:
        """A rectangle, its corner at (x, y)."""
        look = {"facecolor": style.PAPER, "edgecolor": style.INK, "lw": 0.7 * self.scale, **kwargs}
        patch = Rectangle((x, y), width, height, **look)
        self.ax.add_patch(patch)
        return patch

    def fill(self, x: float, y: float, width: float, height: float, rank: int, **kwargs: Any) -> Rectangle:
        """A rectangle in the colour (and hatch) of a rank."""
        return self.cell(x, y, width, height, facecolor=style.colour(rank), hatch=style.hatch(rank), **kwargs)

    def chip(self, rank: int, x: float, y: float, size: float = 0.3) -> None:
        """The sign of a rank: a rounded square in its colour, with its number, centred on (x, y)."""
        fill = style.colour(rank)
        box = f"round,pad=0,rounding_size={size * 0.22}"
        left, top = x - size / 2, y - size / 2
        look: dict[str, Any] = {
            "facecolor": fill,
            "edgecolor": style.INK,
            "lw": 0.8 * self.scale,
            "hatch": style.hatch(rank),
        }
        self.ax.add_patch(FancyBboxPatch((left, top), size, size, boxstyle=box, **look))
        self.on_fill(x, y, str(rank), min(style.TITLE, size * 34), rank)

    def on_fill(self, x: float, y: float, text: str, size: float, rank: int) -> Text:
        """Text on the colour of a rank; over a hatch it gets a plain ground."""
        fill = style.colour(rank)
        ground = {"boxstyle": "round,pad=0.12", "facecolor": fill, "edgecolor": "none"}
        bbox = ground if style.hatch(rank) else None
        return self.text(x, y, text, size, color=style.ink_on(fill), bbox=bbox, fontweight="bold")

    def tag(self, rank: int, x: float, y: float) -> Text:
        """The number of a rank on a square of its colour, centred on (x, y), above pictures."""
        fill = style.colour(rank)
        ground = {
            "boxstyle": "square,pad=0.2",
            "facecolor": fill,
            "edgecolor": style.INK,
            "lw": 0.5 * self.scale,
        }
        return self.text(x, y, str(rank), style.TINY, color=style.ink_on(fill), bbox=ground, zorder=5)

    def arrow(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        fill: str,
        width: float,
        *,
        bend: float = 0.0,
        head: float = 7.0,
        outline: bool = True,
    ) -> FancyArrowPatch:
        """A filled arrow with a dark outline, `width` points thick, its head `head` points long."""
        tail, broad, long = (n * self.scale for n in (width, width + head * 0.7, head))
        patch = FancyArrowPatch(
            start,
            end,
            arrowstyle=f"simple,tail_width={tail},head_width={broad},head_length={long}",
            connectionstyle=f"arc3,rad={bend}",
            facecolor=fill,
            edgecolor=style.INK if outline else "none",
            lw=0.6 * self.scale,
            shrinkA=0,
            shrinkB=0,
            zorder=3 if outline else 1.5,
        )
        self.ax.add_patch(patch)
        return patch


def wrap(text: str, width: float, size: float = style.SMALL) -> list[str]:
    """A text in lines that fit `width` inches at `size` points; Chinese may break anywhere."""
    if not text:
        return []
    wide = sum(ord(c) > 0x2E7F for c in text) / len(text)
    per_char = size / 72 * (0.51 + 0.49 * wide)
    columns = max(8, int(width / per_char))
    if wide > 0.3:
        return [text[i : i + columns] for i in range(0, len(text), columns)]
    return textwrap.wrap(text, columns, break_on_hyphens=False)


def foot_height(lines: Sequence[str]) -> float:
    """The inches that `Board.foot` needs for these lines."""
    return 0.12 + _LINE * len(lines)


def _scale(ax: Axes, width: float, height: float) -> float:
    box = ax.get_position()
    across, down = figure_of(ax).get_size_inches()
    return float(min(box.width * across / width, box.height * down / height))
