"""Rows of small pictures, such as a model makes them: one row beside another, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe

_LARGEST, _GAP, _HEAD, _LETTER = 0.62, 0.08, 0.22, 0.085
_INK = LinearSegmentedColormap.from_list("ink", [style.PAPER, style.INK])


def images(
    rows: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    columns: Sequence[object] = (),
    between: tuple[float, float] = (-1.0, 1.0),
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with one row of small grey pictures for each name, all of one size and in one scale.

    `rows` maps a name to pictures (count, height, width), or (count, 1, height, width). `between` are the
    values of paper and of ink; what lies beyond is drawn as these. `columns` stand above. NaN and infinity
    are crossed out. Grey, for colour means rank. Raises ValueError for pictures that differ in size.
    """
    lang = labels.choose(language)
    pictures = {name: _stack(name, one) for name, one in rows.items()}
    _check(pictures, columns, between)
    plan = _Plan(pictures, bool(columns), 0.42 if title else 0.12)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    for column, said in enumerate(columns):
        board.text(plan.x(column) + plan.size[0] / 2, plan.top - 0.11, str(said), style.SMALL)
    for row, (words, stack) in enumerate(zip(plan.names, pictures.values(), strict=True)):
        for i, part in enumerate(words):
            y = plan.y(row) + plan.size[1] / 2 + (i - (len(words) - 1) / 2) * 0.16
            board.text(MARGIN, y, part, style.TEXT, ha="left")
        for column, one in enumerate(stack):
            thumbnail(board, one, plan.x(column), plan.y(row), plan.size, between)
    board.foot(foot)
    describe(board.ax, _alt(pictures, columns, (title, line), between[1] - between[0]))
    return board.ax


def thumbnail(
    board: Board,
    picture: np.ndarray,
    x: float,
    y: float,
    size: tuple[float, float],
    between: tuple[float, float] = (-1.0, 1.0),
) -> None:
    """Draws one picture (height, width), its upper left corner at (x, y), in a frame."""
    wide, tall = size
    finite = np.isfinite(picture)
    shown = np.ma.masked_array(picture, ~finite)
    low, high = between
    where = (x, x + wide, y + tall, y)
    board.ax.imshow(shown, cmap=_INK, vmin=low, vmax=high, extent=where, interpolation="none", zorder=2)
    board.cell(x, y, wide, tall, facecolor="none", edgecolor=style.LINE, zorder=3)
    if not finite.all():
        places = np.argwhere(~finite)
        across = x + (places[:, 1] + 0.5) * wide / picture.shape[1]
        down = y + (places[:, 0] + 0.5) * tall / picture.shape[0]
        area = 10 * board.scale
        board.ax.scatter(across, down, s=area, marker="x", color=style.INK, linewidths=0.8, zorder=4)


def photograph(board: Board, picture: Any, x: float, y: float, size: tuple[float, float]) -> None:
    """Draws one picture (3, height, width), -1 to 1, in its own colours, its upper left corner at (x, y).

    Six bits a colour: half the bytes, and no eye sees it.
    """
    shown = np.round((np.moveaxis(np.asarray(picture), 0, -1) / 2 + 0.5).clip(0, 1) * 63) / 63
    where = (x, x + size[0], y + size[1], y)
    board.ax.imshow(shown, extent=where, interpolation="none", zorder=2)


class _Plan:
    """Where everything stands, in inches."""

    def __init__(self, pictures: Mapping[str, np.ndarray], headed: bool, top: float) -> None:
        longest = max(len(name) for name in pictures)
        columns = max(len(stack) for stack in pictures.values())
        height, width = next(iter(pictures.values())).shape[1:]
        self.label = min(2.3, max(0.5, longest * _LETTER)) + 0.2
        self.names = [wrap(name, self.label - 0.15, style.TEXT) or [""] for name in pictures]
        room = style.FULL_WIDTH - 2 * MARGIN - self.label
        cell = min(_LARGEST, room / columns - _GAP)
        unit = cell / max(height, width)
        self.size: tuple[float, float] = (unit * width, unit * height)
        self.top = top + (_HEAD if headed else 0)
        self.pitch: float = max(self.size[1] + _GAP, 0.16 * max(len(name) for name in self.names))
        self.width = max(2 * MARGIN + self.label + columns * (self.size[0] + _GAP), 4.2)
        self.height = self.top + len(pictures) * self.pitch + 0.06

    def x(self, column: int) -> float:
        """The left edge of a column."""
        return MARGIN + self.label + column * (self.size[0] + _GAP)

    def y(self, row: int) -> float:
        """The upper edge of a row."""
        return self.top + row * self.pitch


def _stack(name: str, data: Any) -> np.ndarray:
    """Pictures (count, height, width) as float64."""
    values = np.asarray(data.detach().cpu().double() if hasattr(data, "detach") else data, dtype=float)
    if values.ndim == 4 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 3 or not values.size:
        raise ValueError(f"{name} has shape {values.shape}: give (count, height, width)")
    return values


def _check(
    pictures: Mapping[str, np.ndarray], columns: Sequence[object], between: tuple[float, float]
) -> None:
    """Raises ValueError for rows that cannot stand below each other."""
    if not pictures:
        raise ValueError("there is no row: give pictures by name")
    sizes = {name: stack.shape[1:] for name, stack in pictures.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {height} x {width}" for name, (height, width) in sizes.items())
        raise ValueError(f"pictures differ in size ({said}): give all rows one height and width")
    most = max(len(stack) for stack in pictures.values())
    if columns and len(columns) != most:
        raise ValueError(f"{len(columns)} columns for {most} pictures: give one name for each of them")
    if not between[0] < between[1]:
        raise ValueError(f"between={between}: give the value of paper first, then a larger one of ink")


def _alt(
    pictures: Mapping[str, np.ndarray], columns: Sequence[object], words: tuple[str, str], scale: float
) -> str:
    title, line = words
    first = next(iter(pictures))
    said = [title or f"{len(pictures)} rows of small pictures"]
    if columns:
        said.append("Columns: " + ", ".join(map(str, columns)))
    said.append(f"Row {first}: {len(pictures[first])} pictures{_not_finite(pictures[first])}")
    for name, stack in list(pictures.items())[1:]:
        row = f"Row {name}: {len(stack)} pictures"
        if stack.shape == pictures[first].shape:
            row += _not_finite(stack) or f", {_difference(stack, pictures[first], scale)}"
        said.append(row)
    return ". ".join([*said, line] if line else said) + "."


def _not_finite(stack: np.ndarray) -> str:
    count = int((~np.isfinite(stack)).sum())
    return f", {count} of their values are not finite" if count else ""


def _difference(stack: np.ndarray, first: np.ndarray, scale: float) -> str:
    """How far a row is from the first one, as an eye would say it, with the number; `scale`: paper to ink."""
    if not np.isfinite(first).all():
        return "beside a first row that is not finite"
    apart = np.abs(stack - first)
    seen = "looks like the first row" if apart.max() < scale / 40 else "differs from the first row"
    return f"{seen}, by {apart.max():.2g} at most"
