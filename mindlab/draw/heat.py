"""Where a result is wrong, and by how much: the error of every value, beside the values themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe

_ABOVE, _LEFT, _BELOW, _SCALE = 0.5, 0.42, 0.36, 0.8
_WIDEST, _TALLEST = 1.75, 2.1
GREYS = LinearSegmentedColormap.from_list("greys", [style.PAPER, "#1a1a1a"])


@dataclass(frozen=True)
class _Panel:
    """One image, its name, and the largest value in it."""

    name: str
    values: np.ndarray

    @property
    def largest(self) -> float:
        return float(self.values[np.isfinite(self.values)].max(initial=0.0))

    @property
    def broken(self) -> int:
        """How many values are NaN or infinite."""
        return int((~np.isfinite(self.values)).sum())


def error(
    got: Any,
    want: Any,
    ax: Axes | None = None,
    *,
    across: str = "feature",
    down: str = "position",
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with |got - want| at every place, beside |want|, in one scale from white (0) to black.

    `got` and `want` are tensors or arrays of one shape, (position, feature), or several `got` by name.
    Leading dims of size 1 are dropped. Grey, for colour means rank; the largest error stands above each
    image. NaN and infinity are crossed out and counted. Raises ValueError for shapes that differ.
    """
    lang = labels.choose(language)
    right = _plane(want, "want")
    several = got if isinstance(got, Mapping) else {labels.say("error", lang): got}
    panels = [_Panel(name, _difference(name, one, right)) for name, one in several.items()]
    panels.append(_Panel(labels.say("reference", lang), np.abs(right)))
    top = max(p.largest for p in panels) or 1.0
    across_, down_ = labels.term(across, lang), labels.term(down, lang)
    plan = _Plan(len(panels), right.shape, 0.4 if title else 0.1)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    for i, panel in enumerate(panels):
        _draw_panel(board, panel, plan.corner(i), plan.size, (top, lang, across_, down_))
    _draw_scale(board, plan, top)
    board.foot(foot)
    describe(board.ax, _alt(panels, (across, down), title, line))
    return board.ax


def _plane(data: Any, name: str) -> np.ndarray:
    values = np.asarray(data.detach().cpu().double() if hasattr(data, "detach") else data, dtype=float)
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{name} has shape {values.shape}: give two dims, such as (position, feature)")
    return values


def _difference(name: str, got: Any, want: np.ndarray) -> np.ndarray:
    plane = _plane(got, name)
    if plane.shape != want.shape:
        raise ValueError(f"{name} has shape {plane.shape}, want has {want.shape}: join the shards first")
    difference: np.ndarray = np.abs(plane - want)
    return difference


class _Plan:
    """Where everything stands, in inches."""

    def __init__(self, panels: int, shape: tuple[int, ...], top: float) -> None:
        cell = min(_WIDEST / shape[1], _TALLEST / shape[0])
        self.size = (max(1.2, cell * shape[1]), max(0.5, cell * shape[0]))
        self.top, self.pitch = top, _LEFT + self.size[0] + 0.2
        room = style.FULL_WIDTH - 2 * MARGIN - _SCALE
        self.across = max(1, min(panels, int(room / self.pitch)))
        self.tall = _ABOVE + self.size[1] + _BELOW
        self.width = max(2 * MARGIN + self.across * self.pitch + _SCALE, 4.2)
        self.height = top + -(-panels // self.across) * self.tall

    def corner(self, panel: int) -> tuple[float, float]:
        """The upper left corner of an image."""
        column, row = panel % self.across, panel // self.across
        return MARGIN + column * self.pitch + _LEFT, self.top + row * self.tall + _ABOVE


def _draw_panel(
    board: Board,
    panel: _Panel,
    corner: tuple[float, float],
    size: tuple[float, float],
    look: tuple[float, str, str, str],
) -> None:
    (x, y), (wide, tall), (top, lang, across, down) = corner, size, look
    board.text(x, y - 0.36, panel.name, style.TEXT, ha="left", fontweight="bold")
    said = labels.say("largest", lang, value=f"{panel.largest:.3g}")
    said += f" · {labels.say('not_finite', lang, count=panel.broken)}" if panel.broken else ""
    board.text(x, y - 0.15, said, style.SMALL, ha="left", color=style.FADED)
    where = (x, x + wide, y + tall, y)
    shown = np.ma.masked_invalid(panel.values)
    board.ax.imshow(shown, cmap=GREYS, vmin=0, vmax=top, extent=where, interpolation="none", zorder=2)
    board.cell(x, y, wide, tall, facecolor="none", zorder=3)
    _draw_broken(board, panel, corner, size)
    rows, columns = panel.values.shape
    for k, at in ((0, 0.5 / columns), (columns - 1, 1 - 0.5 / columns)):
        board.text(x + at * wide, y + tall + 0.09, str(k), style.TINY, color=style.FADED)
    for k, at in ((0, 0.5 / rows), (rows - 1, 1 - 0.5 / rows)):
        board.text(x - 0.06, y + at * tall, str(k), style.TINY, color=style.FADED, ha="right")
    board.text(x + wide / 2, y + tall + 0.22, across, style.SMALL)
    board.text(x - 0.3, y + tall / 2, down, style.SMALL, rotation=90)


def _draw_broken(board: Board, panel: _Panel, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """A cross on every value that is NaN or infinite."""
    rows, columns = panel.values.shape
    places = [(row, column) for row, column in np.argwhere(~np.isfinite(panel.values))]
    xs = [corner[0] + (column + 0.5) * size[0] / columns for _, column in places]
    ys = [corner[1] + (row + 0.5) * size[1] / rows for row, _ in places]
    if places:
        board.ax.scatter(xs, ys, s=10 * board.scale, marker="x", color=style.INK, linewidths=0.8, zorder=4)


def _draw_scale(board: Board, plan: _Plan, top: float) -> None:
    """The greys and their numbers, at the right."""
    x, y = board.width - MARGIN - _SCALE + 0.12, plan.top + _ABOVE
    tall = plan.size[1]
    ramp = np.linspace(1, 0, 64)[:, None]
    where = (x, x + 0.16, y + tall, y)
    board.ax.imshow(ramp, cmap=GREYS, vmin=0, vmax=1, extent=where, interpolation="none", zorder=2)
    board.cell(x, y, 0.16, tall, facecolor="none", zorder=3)
    for share in (1.0, 0.5, 0.0):
        board.text(x + 0.21, y + (1 - share) * tall, f"{share * top:.3g}", style.TINY, ha="left")


def _alt(panels: Sequence[_Panel], names: tuple[str, str], title: str, line: str) -> str:
    rows, columns = panels[0].values.shape
    said = [title or f"The error of a result of {rows} {names[1]}s and {columns} {names[0]}s"]
    for panel in panels[:-1]:
        finite = np.where(np.isfinite(panel.values), panel.values, -1.0)
        row, column = np.unravel_index(int(finite.argmax()), finite.shape)
        where = f"at {names[1]} {row}, {names[0]} {column}"
        said.append(f"{panel.name}: the largest error is {panel.largest:.3g}, {where}")
        said += [f"{panel.broken} values are not finite"] if panel.broken else []
    said.append(f"the largest value of the reference is {panels[-1].largest:.3g}")
    return ". ".join([*said, line] if line else said) + "."
