"""A tensor as a sheet: its last two dims in proportion, cut into the parts that the ranks hold.

Shared by the pictures of products (`products`, `paired`): what a sheet is, how large, how it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from mindlab.draw import style
from mindlab.draw.board import Board

Shape = tuple[int, ...]
Part = tuple[int, "int | None"]
"""How many rows or columns, and the rank that holds them; None: every rank does."""

LEAST, MOST = 0.24, 1.5
"""Inches: the shortest side of a sheet, and the longest."""


@dataclass(frozen=True)
class Sheet:
    """One tensor. `across` cuts its columns, `down` its rows; `sources` are the ranks summed up in it."""

    name: str
    shape: Shape
    across: tuple[Part, ...] = ()
    down: tuple[Part, ...] = ()
    rank: int | None = None
    """The one rank that holds all of it."""
    sources: tuple[int, ...] = ()
    letters: str = ""
    """The names of its dims: "(b, s, h)"."""


@dataclass(frozen=True)
class Scale:
    """Inches an element; no side is shorter than LEAST, unless it is a part of a longer one."""

    inches: float

    def of(self, size: int) -> float:
        """The inches that a side of so many elements gets."""
        return max(LEAST, size * self.inches)

    def part(self, size: int, whole: int) -> float:
        """The inches of a part of a side."""
        return self.of(whole) * size / whole


def scale_for(sizes: Sequence[int], most: float = MOST) -> Scale:
    """The Scale at which the largest of these sizes is `most` inches long."""
    return Scale(most / max(sizes))


def by_rank(data: Any) -> bool:
    """Whether this is one tensor a rank (a list, or what `tensor_split` returns) and not one for all."""
    return isinstance(data, list) or (isinstance(data, tuple) and bool(data) and not isinstance(data[0], int))


def shape_of(data: Any, name: str) -> Shape:
    """The shape of a tensor or array, or the shape itself. Raises ValueError below two dims or at a zero."""
    shape = tuple(int(n) for n in (data.shape if hasattr(data, "shape") else data))
    if len(shape) < 2 or min(shape) < 1:
        raise ValueError(f"{name} has shape {shape}: a sheet needs two dims or more, none of them 0")
    return shape


def shapes_of(data: Any, name: str) -> list[Shape]:
    """The shapes by rank."""
    return [shape_of(one, f"{name} of rank {rank}") for rank, one in enumerate(data)]


def parts(sizes: Sequence[int]) -> tuple[Part, ...]:
    """One part a rank, in the order of the ranks."""
    return tuple((size, rank) for rank, size in enumerate(sizes))


def draw_sheet(
    board: Board, sheet: Sheet, corner: tuple[float, float], size: tuple[float, float], room: float = 9.0
) -> None:
    """The sheet with its upper left corner there, `size` inches wide and high; its name above, shape below.

    A shape that needs more than `room` inches is left out.
    """
    (x, y), (wide, tall) = corner, size
    if sheet.rank is not None:
        board.fill(x, y, wide, tall, sheet.rank)
    elif sheet.sources:
        _draw_sum(board, sheet, corner, size)
    else:
        board.cell(x, y, wide, tall, facecolor=style.EMPTY)
        _draw_parts(board, sheet, corner, size)
    letters = f" {sheet.letters}" if sheet.letters else ""
    board.text(x + wide / 2, y - 0.13, sheet.name + letters, style.SMALL, fontweight="bold")
    shown = " × ".join(map(str, sheet.shape))
    if 0.062 * len(shown) <= room:
        board.text(x + wide / 2, y + tall + 0.12, shown, style.TINY, color=style.FADED)


def _draw_sum(board: Board, sheet: Sheet, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """White, Σ, and along the foot a band in the colours of all its terms, as in `draw.shards`."""
    (x, y), (wide, tall) = corner, size
    board.cell(x, y, wide, tall)
    band, each = min(0.16, 0.3 * tall), wide / len(sheet.sources)
    for i, rank in enumerate(sheet.sources):
        board.fill(x + i * each, y + tall - band, each, band, rank, lw=0.4 * board.scale)
    board.text(x + wide / 2, y + (tall - band) / 2, "Σ", style.TEXT, fontweight="bold")


def _draw_parts(board: Board, sheet: Sheet, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """The parts in their ranks' colours, with dashed lines where the sheet is cut."""
    (x, y), (wide, tall) = corner, size
    for (start, end), rank in _spans(sheet.across):
        _draw_part(board, (x + start * wide, y), ((end - start) * wide, tall), rank)
    for (start, end), rank in _spans(sheet.down):
        _draw_part(board, (x, y + start * tall), (wide, (end - start) * tall), rank)
    for (start, _), _ in _spans(sheet.across)[1:]:
        _draw_cut(board, (x + start * wide, y - 0.03), (x + start * wide, y + tall + 0.03))
    for (start, _), _ in _spans(sheet.down)[1:]:
        _draw_cut(board, (x - 0.03, y + start * tall), (x + wide + 0.03, y + start * tall))


def _draw_part(
    board: Board, corner: tuple[float, float], size: tuple[float, float], rank: int | None
) -> None:
    if rank is None:
        return
    board.fill(*corner, *size, rank, lw=0.0)
    board.cell(*corner, *size, facecolor="none")
    points = min(style.TEXT, 0.62 * min(size) * 72)
    if points >= 5.5:
        board.on_fill(corner[0] + size[0] / 2, corner[1] + size[1] / 2, str(rank), points, rank)


def _draw_cut(board: Board, start: tuple[float, float], end: tuple[float, float]) -> None:
    xs, ys = zip(start, end, strict=True)
    board.ax.plot(xs, ys, color=style.PAPER, lw=1.2 * board.scale, zorder=3)
    board.ax.plot(xs, ys, color=style.INK, lw=1.2 * board.scale, ls=(0, (3, 2)), zorder=4)


def _spans(cut: Sequence[Part]) -> list[tuple[tuple[float, float], int | None]]:
    """Where each part begins and ends, as shares of the whole; none for parts of size 0."""
    ends = list(accumulate(size for size, _ in cut))
    whole = ends[-1] if ends else 1
    return [
        (((end - size) / whole, end / whole), rank)
        for end, (size, rank) in zip(ends, cut, strict=True)
        if size
    ]
