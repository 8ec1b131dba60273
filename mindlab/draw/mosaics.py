"""Photographs made tile by tile, beside the one that was made whole, and where each of them is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.heat import GREYS
from mindlab.draw.picture import describe
from mindlab.predict.tilings import Tiling

_WIDEST, _TALLEST, _GAP, _ABOVE, _BELOW = 2.4, 2.1, 0.22, 0.26, 0.42
_CROSSES = 200
"""So many values that are not finite are crossed out one by one; all of them are counted."""


@dataclass(frozen=True)
class _Made:
    """One picture (height, width, 3), and its error (height, width); None for the right one."""

    name: str
    picture: np.ndarray
    error: np.ndarray | None = None
    off: np.ndarray | None = None
    """The error of each colour by itself."""

    @property
    def finite(self) -> np.ndarray:
        """The errors that are numbers."""
        assert self.error is not None
        numbers: np.ndarray = self.error[np.isfinite(self.error)]
        return numbers

    @property
    def largest(self) -> float:
        return float(self.finite.max(initial=0.0))

    @property
    def mean(self) -> float:
        """Of all values, each colour by itself: what `(picture - want).abs().mean()` says."""
        assert self.off is not None
        numbers = self.off[np.isfinite(self.off)]
        return float(numbers.mean()) if numbers.size else 0.0

    @property
    def broken(self) -> int:
        return int(self.error.size - self.finite.size) if self.error is not None else 0


@dataclass(frozen=True)
class _Look:
    """What all columns share: the tiles, black and white, the error that is black, the language."""

    lengths: Sequence[Sequence[int]]
    between: tuple[float, float]
    black: float
    beyond: bool
    lang: str


def seams(
    pictures: Mapping[str, Any],
    want: Any,
    ax: Axes | None = None,
    *,
    lengths: Sequence[Sequence[int]] = (),
    between: tuple[float, float] = (-1.0, 1.0),
    top: float | None = None,
    name: str = "",
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with photographs in their own colours, the right one first, and below each where it is wrong.

    `want` is the right one, called `name`, `pictures` are the others by theirs: (3, height, width), or with a
    batch of 1, values `between` black and white. The error of a pixel is that of its worst colour, from white
    (0) to black: `top`, or the largest of all; the mean beside it is that of all values. `lengths` are the
    tiles' heights and widths in pixels (`Tiling.lengths`): marks stand outside where two meet, so that
    nothing hides a seam. NaN and infinity are crossed out and counted. Raises ValueError for pictures that
    differ in size, or tiles that do not fit.
    """
    lang = labels.choose(language)
    made = _made(pictures, want, name or labels.say("on_one_card", lang))
    height, width = made[0].picture.shape[:2]
    _check(made, lengths, between, top)
    most = max(one.largest for one in made[1:])
    look = _Look(lengths, between, top or most or 1.0, bool(top and most > top), lang)
    plan = _Plan(len(made), (height, width), 0.42 if title else 0.12)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    for column, one in enumerate(made):
        _draw_column(board, one, plan, plan.x(column), look)
    _draw_scale(board, plan, look)
    board.foot(foot)
    describe(board.ax, _alt(made, lengths, title, line))
    return board.ax


def _made(pictures: Mapping[str, Any], want: Any, name: str) -> list[_Made]:
    right = _colours("want", want)
    if not pictures:
        raise ValueError("there is no picture beside the right one: give some by name")
    made = [_Made(name, right)]
    for one, data in pictures.items():
        picture = _colours(one, data)
        if picture.shape != right.shape:
            sizes = [" x ".join(map(str, each.shape[:2])) for each in (picture, right)]
            raise ValueError(f"{one} is {sizes[0]} pixels, want {sizes[1]}: join the tiles first")
        off = np.abs(picture - right)
        made.append(_Made(one, picture, off.max(-1), off))
    return made


def _colours(name: str, data: Any) -> np.ndarray:
    """(height, width, 3) as float64."""
    values = np.asarray(data.detach().cpu().double() if hasattr(data, "detach") else data, dtype=float)
    if values.ndim == 4 and len(values) == 1:
        values = values[0]
    if values.ndim != 3 or values.shape[0] != 3 or not values.size:
        raise ValueError(f"{name} has shape {values.shape}: give (3, height, width)")
    return np.moveaxis(values, 0, -1)


def _check(
    made: Sequence[_Made], lengths: Sequence[Sequence[int]], between: tuple[float, float], top: float | None
) -> None:
    sizes = made[0].picture.shape[:2]
    sums = Tiling(tuple(map(tuple, lengths))).size  # refuses tiles of no pixels
    if lengths and sums != sizes:
        raise ValueError(f"tiles of {sums} pixels for pictures of {sizes}: give heights, then widths")
    if not -math.inf < between[0] < between[1] < math.inf:
        raise ValueError(
            f"between={between}: give the value of black first, then a larger one of white, both finite"
        )
    if top is not None and not 0 < top < math.inf:
        raise ValueError(f"top={top}: give an error above 0 to be black")


class _Plan:
    """Where everything stands, in inches: a column a picture, its error below it."""

    def __init__(self, columns: int, shape: tuple[int, int], top: float) -> None:
        room = (style.FULL_WIDTH - 2 * MARGIN) / columns - _GAP
        cell = min(min(_WIDEST, room) / shape[1], _TALLEST / shape[0])
        self.size = (cell * shape[1], cell * shape[0])
        self.pitch = max(self.size[0], min(room, 1.3)) + _GAP
        self.top = top
        self.below = top + _ABOVE + self.size[1] + _BELOW
        self.width = max(2 * MARGIN + columns * self.pitch, 4.2)
        self.height = self.below + self.size[1] + 0.14

    def x(self, column: int) -> float:
        """The left edge of a column."""
        return MARGIN + _GAP / 2 + column * self.pitch


def _draw_column(board: Board, one: _Made, plan: _Plan, x: float, look: _Look) -> None:
    """A picture, and below it where it is wrong."""
    for y, draw in ((plan.top + _ABOVE, _draw_picture), (plan.below, _draw_error)):
        if draw is _draw_picture or one.error is not None:
            draw(board, one, (x, y), plan.size, look)
            _draw_marks(board, look.lengths, (x, y), plan.size)


def _draw_picture(
    board: Board, one: _Made, corner: tuple[float, float], size: tuple[float, float], look: _Look
) -> None:
    (x, y), (wide, tall) = corner, size
    board.text(x, y - 0.13, one.name, style.TEXT, ha="left", fontweight="bold")
    low, high = look.between
    shown = np.nan_to_num((one.picture - low) / (high - low), nan=1.0).clip(0, 1)
    shown = np.round(shown * 63) / 63  # six bits a colour: half the bytes, and no eye sees it
    board.ax.imshow(shown, extent=(x, x + wide, y + tall, y), interpolation="none", zorder=2)
    board.cell(x, y, wide, tall, facecolor="none", edgecolor=style.LINE, zorder=3)


def _draw_error(
    board: Board, one: _Made, corner: tuple[float, float], size: tuple[float, float], look: _Look
) -> None:
    assert one.error is not None
    (x, y), (wide, tall), lang = corner, size, look.lang
    said = [labels.say("largest", lang, value=f"{one.largest:.2g}")]
    said.append(labels.say("mean_error", lang, value=f"{one.mean:.2g}"))
    if one.broken:
        said[1] = labels.say("not_finite", lang, count=one.broken)
    for i, part in enumerate(said):
        board.text(x, y - 0.27 + 0.15 * i, part, style.SMALL, ha="left", color=style.FADED)
    shown = np.ma.masked_invalid(one.error)
    where = (x, x + wide, y + tall, y)
    board.ax.imshow(shown, cmap=GREYS, vmin=0, vmax=look.black, extent=where, interpolation="none", zorder=2)
    board.cell(x, y, wide, tall, facecolor="none", edgecolor=style.LINE, zorder=3)
    places = np.argwhere(~np.isfinite(one.error))[:_CROSSES]
    if len(places):
        rows, columns = one.error.shape
        across, down = x + (places[:, 1] + 0.5) * wide / columns, y + (places[:, 0] + 0.5) * tall / rows
        board.ax.scatter(across, down, s=10 * board.scale, marker="x", color=style.INK, lw=0.8, zorder=4)


def _draw_marks(
    board: Board, lengths: Sequence[Sequence[int]], corner: tuple[float, float], size: tuple[float, float]
) -> None:
    """Short lines outside the frame where tiles meet: heights left and right, widths above and below."""
    (x, y), (wide, tall) = corner, size
    look: dict[str, Any] = {"color": style.INK, "lw": 1.1 * board.scale, "solid_capstyle": "butt"}
    for along, (side, length) in zip(lengths, ((0, tall), (1, wide)), strict=False):
        for border in list(accumulate(along))[:-1]:
            at = border / sum(along) * length
            for edge, step in ((0.0, -1), (wide if side == 0 else tall, 1)):
                far = edge + step * 0.06
                if side == 0:
                    board.ax.plot((x + edge + step * 0.01, x + far), (y + at, y + at), **look)
                else:
                    board.ax.plot((x + at, x + at), (y + edge + step * 0.01, y + far), **look)


def _draw_scale(board: Board, plan: _Plan, look: _Look) -> None:
    """The greys and their numbers, below the right picture."""
    x, y = plan.x(0), plan.below
    wide = min(plan.size[0], 1.3)
    board.text(x, y - 0.12, labels.say("error", look.lang), style.SMALL, ha="left", color=style.FADED)
    ramp = np.linspace(0, 1, 64)[None]
    where = (x, x + wide, y + 0.16, y)
    board.ax.imshow(ramp, cmap=GREYS, vmin=0, vmax=1, extent=where, interpolation="none", zorder=2)
    board.cell(x, y, wide, 0.16, facecolor="none")
    board.text(x, y + 0.26, "0", style.TINY, ha="left")
    most = f"{'≥ ' * look.beyond}{look.black:.2g}"
    board.text(x + wide, y + 0.26, most, style.TINY, ha="right")


def _alt(made: Sequence[_Made], lengths: Sequence[Sequence[int]], title: str, line: str) -> str:
    height, width = made[0].picture.shape[:2]
    said = [title or f"Photographs of {height} x {width} pixels, made in several ways"]
    if lengths:
        said.append(f"{' x '.join(str(len(along)) for along in lengths)} tiles")
    for one in made[1:]:
        assert one.error is not None
        found = np.where(np.isfinite(one.error), one.error, -1.0)
        row, column = np.unravel_index(int(found.argmax()), found.shape)
        said.append(
            f"{one.name}: off by {one.largest:.2g} at most (row {row}, column {column}), "
            f"by {one.mean:.2g} on average"
        )
        said += [f"{one.broken} of its values are not finite"] if one.broken else []
    return ". ".join([*said, line] if line else said) + "."
