"""Who holds what: a strip of cells a rank, before and after a collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.draw.pieces import Piece, Row, held, origins_of, pieces, short_sum
from mindlab.trace.run import Run

_HEAD = 0.36
_CHIP = 0.42
_SMALLEST = 5.5
"""Points below which a text in a cell is left out: nobody reads it."""


@dataclass(frozen=True)
class _Grid:
    """The measures of one block of strips, in inches."""

    ranks: int
    columns: int
    cell: float
    row: float
    head: float

    @property
    def width(self) -> float:
        return _CHIP + self.columns * self.cell

    @property
    def height(self) -> float:
        return self.head + self.ranks * self.row


def shards(
    before: Any,
    after: Any = None,
    ax: Axes | None = None,
    *,
    title: str = "",
    heads: tuple[str, str] | None = None,
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with what each rank holds: one row a rank, the colour of a cell is the rank that it came from.

    `before` and `after` are a Run (its values), tensors by rank, or rows of cells; a cell is a text, a
    number, a `Piece`, or None for an empty slot. In `after`, a text is traced back to the rank that alone
    held it before; "a0+b0" is drawn as a sum, with a band in the colours of its terms. The untraced is white.
    """
    lang = labels.choose(language)
    first = pieces(held(before))
    blocks = [first] if after is None else [first, pieces(held(after), origins_of(first))]
    names = heads or (labels.say("before", lang), labels.say("after", lang))
    grids, beside = _plan(blocks, _HEAD if after is not None or heads else 0.05)
    line = _provenance(before, after, lang) if provenance is None else provenance
    width = max(_width(grids, beside), 3.2 if ax is None else 0.0)
    foot = wrap(line, width - 2 * MARGIN)
    top = 0.4 if title else 0.1
    tall = max(g.height for g in grids) if beside else sum(g.height + 0.15 for g in grids)
    board = Board(ax, width, top + tall + 0.15 + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    x, y = MARGIN, top
    for block, grid, name in zip(blocks, grids, names, strict=False):
        _draw_block(board, block, grid, (x, y), name if len(blocks) > 1 or heads else "")
        x, y = (x + grid.width + _gap(beside), y) if beside else (x, y + grid.height + 0.15)
    if beside and len(blocks) > 1:
        middle = MARGIN + grids[0].width + _gap(beside) / 2
        _draw_then(board, (middle, top + grids[0].head + grids[0].ranks * grids[0].row / 2))
    board.foot(foot)
    describe(board.ax, _alt(blocks, names, title, line))
    return board.ax


def _plan(blocks: list[list[Row]], head: float) -> tuple[list[_Grid], bool]:
    """The measures of the blocks, and whether they stand beside each other."""
    columns = [max(1, max(len(row) for row in block)) for block in blocks]
    longest = max((len(_shown(p)) for block in blocks for row in block for p in row if p), default=1)
    wanted = min(1.2, max(0.4, 0.14 + 0.085 * longest))
    room = style.FULL_WIDTH - 2 * MARGIN - len(blocks) * _CHIP - _gap(True) * (len(blocks) - 1)
    beside = room / sum(columns) >= max(min(wanted, 0.34), _legible(longest))
    cell = min(wanted, room / sum(columns) if beside else (room - 0.5) / max(columns))
    grids = [
        _Grid(len(b), c, cell, 0.34 if len(b) <= 8 else 0.28, head)
        for b, c in zip(blocks, columns, strict=True)
    ]
    return grids, beside


def _legible(letters: int) -> float:
    """The narrowest cell, in inches, in which a text of so many letters is not left out (see `_fitting`)."""
    return _SMALLEST * 0.7 * letters / 72 + 0.09


def _gap(beside: bool) -> float:
    return 0.5 if beside else 0.0


def _width(grids: list[_Grid], beside: bool) -> float:
    widths = [grid.width for grid in grids]
    inner = sum(widths) + _gap(beside) * (len(grids) - 1) if beside else max(widths)
    return inner + 2 * MARGIN


def _draw_block(board: Board, block: list[Row], grid: _Grid, corner: tuple[float, float], name: str) -> None:
    x, y = corner
    board.text(x + _CHIP, y + 0.19, name, style.TEXT, ha="left", color=style.FADED)
    for rank, row in enumerate(block):
        top = y + grid.head + rank * grid.row
        board.chip(rank, x + 0.16, top + grid.row / 2 - 0.02, min(0.28, grid.row - 0.05))
        for column, piece in enumerate(row):
            _draw_piece(board, piece, (x + _CHIP + column * grid.cell, top), grid)


def _draw_piece(board: Board, piece: Piece | None, spot: tuple[float, float], grid: _Grid) -> None:
    wide, tall = grid.cell - 0.02, grid.row - 0.05
    if piece is None:
        board.cell(*spot, wide, tall, facecolor=style.PAPER, edgecolor=style.GRID, linestyle=":")
        return
    sources, size = piece.sources, _fitting(_shown(piece), wide - 0.06)
    if len(sources) == 1:
        board.fill(*spot, wide, tall, sources[0])
        if size:
            middle = (spot[0] + wide / 2, spot[1] + tall / 2 + 0.01)
            board.on_fill(*middle, _shown(piece), size, sources[0])
        return
    board.cell(*spot, wide, tall)
    band = 0.36 * tall if sources else 0.0
    _draw_band(board, sources, (spot[0], spot[1] + tall - band), wide, band)
    if size:
        fitted = min(size, 0.62 * (tall - band) * 72) if sources else size
        board.text(
            spot[0] + wide / 2, spot[1] + (tall - band) / 2 + 0.01, _shown(piece), fitted, fontweight="bold"
        )


def _draw_band(
    board: Board, sources: tuple[int, ...], spot: tuple[float, float], wide: float, tall: float
) -> None:
    """The colours of the terms of a sum, side by side along the foot of its cell."""
    each = wide / max(1, len(sources))
    for i, rank in enumerate(sources):
        board.fill(spot[0] + i * each, spot[1], each, tall, rank, lw=0.4 * board.scale)


def _draw_then(board: Board, middle: tuple[float, float]) -> None:
    x, y = middle
    board.arrow((x - 0.17, y), (x + 0.17, y), style.GRID, 5.0, head=9.0)


def _shown(piece: Piece) -> str:
    return short_sum(piece.text) if len(piece.sources) > 1 else piece.text


def _fitting(text: str, width: float) -> float:
    """The size in points at which a text fits, 0 if it would be too small to read."""
    size = min(style.TEXT, width * 72 / (0.7 * max(1, len(text))))
    return size if size >= _SMALLEST else 0.0


def _provenance(before: Any, after: Any, lang: str) -> str:
    run = next((data for data in (after, before) if isinstance(data, Run)), None)
    return run.provenance if run else labels.say("by_hand", lang)


def _alt(blocks: list[list[Row]], names: tuple[str, str], title: str, line: str) -> str:
    parts = [title or f"What each of {len(blocks[0])} ranks holds"]
    for name, block in zip(names, blocks, strict=False):
        rows = (f"rank {rank} holds {_row_in_words(row)}" for rank, row in enumerate(block))
        parts.append((f"{name}: " if len(blocks) > 1 else "") + "; ".join(rows))
    return ". ".join([*parts, line] if line else parts) + "."


def _row_in_words(row: Row) -> str:
    return ", ".join(piece.text for piece in row if piece is not None) or "nothing"
