"""Positions against heads: which rank holds which cell before and after an exchange, and who sent what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe

_SIDE = 3.1
"""Inches: the width of a grid, and its height where there are as many heads as fit."""
_LEFT, _ABOVE = 0.52, 0.62


@dataclass(frozen=True)
class Held:
    """By cell, [position, head], the ranks that hold it."""

    ranks: int
    cells: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Positions, heads."""
        return self.cells.shape[0], self.cells.shape[1]


@dataclass(frozen=True)
class Area:
    """A rectangle of cells with one fate: positions and heads as (first, past the last), and its holders."""

    positions: tuple[int, int]
    heads: tuple[int, int]
    mine: tuple[int, ...]
    theirs: tuple[int, ...]

    @property
    def signs(self) -> tuple[int, ...]:
        """The ranks that it goes to, or comes from; none where it stays."""
        others = tuple(rank for rank in self.theirs if rank not in self.mine)
        return others or (self.theirs if self.theirs != self.mine else ())


def layout(
    before: Any,
    after: Any,
    ax: Axes | None = None,
    *,
    title: str = "",
    heads: tuple[str, str] | None = None,
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with two grids, sequence across and heads down: a cell has the colour of its holder.

    `before` and `after` are by rank: tensors or arrays whose last dim is (position, head), of any shape
    before it, or lists of such pairs. So an id-coded tensor (batch, sequence, heads, 2) can go through a real
    exchange and be drawn. The signs in the left grid say where an area goes, in the right one where it came
    from. A cell that several ranks hold is cut into bands. `heads` are the names of the grids. Raises
    ValueError for ids that are no pairs of whole numbers, and for other cells after than before.
    """
    lang = labels.choose(language)
    grids = held_by(before), held_by(after)
    _check(*grids)
    names = heads or (labels.say("before", lang), labels.say("after", lang))
    tall = min(_SIDE, max(1.1, 0.36 * grids[0].shape[1]))
    line = labels.say("by_hand", lang) if provenance is None else provenance
    width = style.FULL_WIDTH
    foot = wrap(line, width - 2 * MARGIN)
    top = 0.4 if title else 0.1
    height = top + _ABOVE + tall + 0.36 + (foot_height(foot) if foot else 0)
    board = Board(ax, width, height, lang)
    if title:
        board.title(title)
    _draw_both(board, grids, names, (top, tall), lang)
    board.foot(foot)
    describe(board.ax, _alt(grids, title, line))
    return board.ax


def _draw_both(
    board: Board, grids: tuple[Held, Held], names: tuple[str, str], place: tuple[float, float], lang: str
) -> None:
    """The two grids side by side, each below its name and what its signs mean; an arrow between them."""
    top, tall = place
    left, right = MARGIN + _LEFT, board.width - MARGIN - _SIDE - 0.05
    for x, own, name, key in ((left, 0, names[0], "goes_to"), (right, 1, names[1], "came_from")):
        found = list(areas(grids[own], grids[1 - own]))
        _draw_grid(board, found, (x, top + _ABOVE, _SIDE, tall), grids[own].shape, lang)
        board.text(x, top + 0.16, name, style.TEXT, ha="left", fontweight="bold")
        if any(area.signs and _sign_size(area, _room(area, grids[own].shape, tall)) for area in found):
            board.text(x, top + 0.36, labels.say(key, lang), style.SMALL, ha="left", color=style.FADED)
    middle, across = top + _ABOVE + tall / 2, (left + _SIDE + right - 0.3) / 2
    board.arrow((across - 0.2, middle), (across + 0.2, middle), style.GRID, 5.0, head=9.0)


def held_by(data: Any) -> Held:
    """The Held of id-coded shards by rank. Raises ValueError where an id is no (position, head)."""
    owners: dict[tuple[int, int], list[int]] = {}
    for rank, shard in enumerate(data):
        for pair in dict.fromkeys(_pairs(shard, rank)):
            owners.setdefault(pair, []).append(rank)
    if not owners:
        raise ValueError("no rank holds a cell: give by rank a tensor whose last dim is (position, head)")
    cells = np.empty([1 + max(pair[dim] for pair in owners) for dim in (0, 1)], dtype=object)
    for spot in np.ndindex(cells.shape):
        cells[spot] = tuple(owners.get((spot[0], spot[1]), ()))
    return Held(len(data), cells)


def areas(mine: Held, theirs: Held) -> Iterator[Area]:
    """The grid in rectangles: neighbours with the same holders in both grids are one."""
    fate = [
        [(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(mine.cells, theirs.cells, strict=True)
    ]
    for _, group in groupby(range(len(fate)), key=lambda position: fate[position]):
        positions = list(group)
        column = fate[positions[0]]
        for (held, other), several in groupby(range(len(column)), key=lambda head: column[head]):
            found = list(several)
            yield Area((positions[0], positions[-1] + 1), (found[0], found[-1] + 1), held, other)


def _pairs(shard: Any, rank: int) -> list[tuple[int, int]]:
    ids = np.asarray(shard.tolist() if hasattr(shard, "tolist") else list(shard))
    if ids.size == 0:
        return []
    if ids.ndim < 2 or ids.shape[-1] != 2 or (ids < 0).any() or (ids != ids.astype(np.int64)).any():
        raise ValueError(
            f"the ids of rank {rank} have shape {ids.shape}: the last dim must be (position, head), "
            "two whole numbers from 0 on"
        )
    return [(int(position), int(head)) for position, head in ids.reshape(-1, 2)]


def _check(before: Held, after: Held) -> None:
    if before.ranks != after.ranks:
        raise ValueError(f"{before.ranks} ranks before, {after.ranks} after: give the same ranks")
    if before.shape != after.shape:
        raise ValueError(f"positions x heads {before.shape} before, {after.shape} after: give the same cells")


def _draw_grid(
    board: Board,
    found: Sequence[Area],
    place: tuple[float, float, float, float],
    shape: tuple[int, int],
    lang: str,
) -> None:
    """The areas, thin lines between single cells, signs on top, and the axes with their ends."""
    x, y, wide, tall = place
    across, down = wide / shape[0], tall / shape[1]
    board.cell(x, y, wide, tall, linestyle=":", edgecolor=style.LINE)
    for area in found:
        (a, b), (c, d) = area.positions, area.heads
        spot = (x + a * across, y + c * down, (b - a) * across, (d - c) * down)
        _draw_area(board, spot, area)
    if across > 0.05:
        _draw_lines(board, place, shape)
    for area in found:
        (a, b), (c, d) = area.positions, area.heads
        middle = (x + (a + b) / 2 * across, y + (c + d) / 2 * down)
        _draw_signs(board, area, middle, _room(area, shape, tall))
    _draw_axes(board, place, shape, lang)


def _draw_area(board: Board, spot: tuple[float, float, float, float], area: Area) -> None:
    x, y, wide, tall = spot
    for i, rank in enumerate(area.mine):
        board.fill(x, y + i * tall / len(area.mine), wide, tall / len(area.mine), rank, lw=0.0)
    if area.mine:
        board.cell(x, y, wide, tall, facecolor="none", lw=1.1 * board.scale)


def _room(area: Area, shape: tuple[int, int], tall: float) -> tuple[float, float]:
    """Inches that an area is wide and high, in a grid `tall` inches high."""
    (a, b), (c, d) = area.positions, area.heads
    return (b - a) * _SIDE / shape[0], (d - c) * tall / shape[1]


def _sign_size(area: Area, room: tuple[float, float]) -> float:
    """How large its signs are; 0 where they have no room."""
    size = min(0.26, 0.78 * min(room[0] / max(1, len(area.signs)), room[1]))
    return size if area.mine and size >= 0.1 else 0.0


def _draw_signs(board: Board, area: Area, middle: tuple[float, float], room: tuple[float, float]) -> None:
    """The ranks at the other end of the exchange; the number of the holder where nothing moves."""
    signs, size = area.signs, _sign_size(area, room)
    if not size:
        return
    if not signs and len(area.mine) == 1:
        board.on_fill(*middle, str(area.mine[0]), min(style.TITLE, size * 34), area.mine[0])
    for i, rank in enumerate(signs):
        board.chip(rank, middle[0] + (i - (len(signs) - 1) / 2) * 1.2 * size, middle[1], size)


def _draw_lines(board: Board, place: tuple[float, float, float, float], shape: tuple[int, int]) -> None:
    x, y, wide, tall = place
    look: dict[str, Any] = {"color": style.INK, "lw": 0.35 * board.scale, "alpha": 0.55, "zorder": 1.2}
    for k in range(1, shape[0]):
        board.ax.plot([x + k * wide / shape[0]] * 2, [y, y + tall], **look)
    for k in range(1, shape[1]):
        board.ax.plot([x, x + wide], [y + k * tall / shape[1]] * 2, **look)


def _draw_axes(
    board: Board, place: tuple[float, float, float, float], shape: tuple[int, int], lang: str
) -> None:
    x, y, wide, tall = place
    across, down = wide / shape[0], tall / shape[1]
    for k in _ticks(shape[0], across):
        board.text(x + (k + 0.5) * across, y + tall + 0.1, str(k), style.TINY, color=style.FADED)
    for k in _ticks(shape[1], down):
        board.text(x - 0.1, y + (k + 0.5) * down, str(k), style.TINY, color=style.FADED, ha="right")
    board.text(x + wide / 2, y + tall + 0.27, labels.say("position", lang), style.SMALL)
    board.text(x - 0.4, y + tall / 2, labels.say("head", lang), style.SMALL, rotation=90)


def _ticks(count: int, side: float) -> range:
    """The numbers to write along an axis: all, or every so many that they stay apart."""
    return range(0, count, next(step for step in (2**k for k in range(40)) if step * side >= 0.2))


def _alt(grids: tuple[Held, Held], title: str, line: str) -> str:
    positions, heads = grids[0].shape
    said = [title or f"Which rank holds which of {positions} positions and {heads} heads, before and after"]
    for name, grid in zip(("before", "after"), grids, strict=True):
        words = (_holdings(grid, rank) for rank in range(grid.ranks))
        said.append(f"{name}: " + "; ".join(words))
    return ". ".join([*said, line] if line else said) + "."


def _holdings(grid: Held, rank: int) -> str:
    mine = [spot for spot in np.ndindex(grid.shape) if rank in grid.cells[spot]]
    if not mine:
        return f"rank {rank} holds nothing"
    positions, heads = _span(p for p, _ in mine), _span(h for _, h in mine)
    return f"rank {rank} holds positions {positions} of heads {heads}"


def _span(numbers: Iterable[int]) -> str:
    """Numbers in words: "0 to 3, 12 to 15"."""
    found = sorted(set(numbers))
    runs: list[list[int]] = []
    for n in found:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
