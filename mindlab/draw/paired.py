"""Two products after each other, the first cut by columns and the second by rows: nothing is sent between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.draw.products import leading, subscript
from mindlab.draw.sheets import Scale, Sheet, draw_sheet, scale_for, shape_of, shapes_of

_HEAD, _BELOW, _SIGN, _CHIP = 0.24, 0.24, 0.3, 0.45
_ARROW = 0.72
"""Inches between A and the middle, for the arrow with its word."""


def pair(
    x: Any,
    first: Any,
    middle: Any,
    second: Any,
    y: Any,
    ax: Axes | None = None,
    *,
    between: str = "GeLU",
    names: tuple[str, str] = ("A", "B"),
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with a row a rank: X, its columns of A, the middle, its rows of B, its partial sum; then Y.

    `x` (b, s, h) is held by all ranks. By rank: `first` (h, f_r), `middle` (b, s, f_r), `second` (f_r, h'),
    and the partial sums `y` (b, s, h'): tensors or shapes. `between` is what happens to the middle, element
    by element or head by head; `names` are the matrices'. Raises ValueError for shapes that do not fit.
    """
    lang = labels.choose(language)
    rows = _rows(x, first, middle, second, y, names)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    plan = _Plan(rows, 0.4 if title else 0.12)
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    _draw_heads(board, plan, leading(rows[0][0].shape), names, lang)
    for rank, row in enumerate(rows):
        _draw_row(board, plan, row, rank, between)
    _draw_total(board, plan, rows)
    board.foot(foot)
    describe(board.ax, _alt(rows, between, title, line))
    return board.ax


Row = tuple[Sheet, Sheet, Sheet, Sheet, Sheet]


def _rows(x: Any, first: Any, middle: Any, second: Any, y: Any, names: tuple[str, str]) -> list[Row]:
    """By rank the five sheets, checked."""
    common = shape_of(x, "x")
    given = {names[0]: first, "the middle": middle, names[1]: second, "y": y}
    lists = [shapes_of(data, name) for name, data in given.items()]
    if len({len(one) for one in lists}) != 1:
        counts = ", ".join(f"{len(one)} of {name}" for name, one in zip(given, lists, strict=True))
        raise ValueError(f"tensors by rank: {counts}; give one of each a rank")
    rows = []
    for rank, (a, z, b, out) in enumerate(zip(*lists, strict=True)):
        fits = a[0] == common[-1] and z == (*common[:-1], a[1]) and b[0] == z[-1]
        if not fits or out != (*common[:-1], b[1]):
            raise ValueError(
                f"rank {rank}: {common} times {a}, the middle {z}, times {b}, result {out} do not fit; "
                "give matrices as (in, out): linear.weight.T"
            )
        low = subscript(rank)
        sheets = zip(
            (f"{names[0]}{low}", f"Z{low}", f"{names[1]}{low}", f"Y{low}"), (a, z, b, out), strict=True
        )
        one, two, three, four = (Sheet(name, shape, rank=rank) for name, shape in sheets)
        rows.append((Sheet("X", common), one, two, three, four))
    return rows


class _Plan:
    """Where everything stands, in inches. `whole`: s, h, the middle's f, and the h' of the result."""

    def __init__(self, rows: Sequence[Row], top: float) -> None:
        x, b = rows[0][0].shape, rows[0][3].shape
        self.whole = (x[-2], x[-1], sum(row[1].shape[1] for row in rows), b[1])
        self.scale: Scale = scale_for(self.whole, 1.15)
        self.top, self.first = top, top + 0.3
        sizes = [[self.size(row, which) for row in rows] for which in range(5)]
        self.centres, self.edges, at = [], [], MARGIN + _CHIP
        for which, column in enumerate(sizes):
            wide = max(0.62, *(size[0] for size in column))
            self.centres.append(at + wide / 2)
            self.edges.append((at, at + wide))
            at += wide + (_ARROW if which == 1 else _SIGN)
        self.total = at + 0.1
        self.pitch = max(size[1] for column in sizes for size in column) + _HEAD + _BELOW
        self.sum = (self.scale.of(self.whole[3]), self.scale.of(self.whole[0]))
        self.width = self.total + max(0.9, self.sum[0]) + MARGIN
        self.height = self.first + len(rows) * self.pitch + 0.02

    def size(self, row: Row, which: int) -> tuple[float, float]:
        """Width and height of a sheet of a row."""
        s, h, f, h2 = self.whole
        across, down = ((h, s), (f, h), (f, s), (h2, f), (h2, s))[which]
        return self.scale.part(row[which].shape[-1], across), self.scale.part(row[which].shape[-2], down)

    def middle(self, rank: int) -> float:
        """The line on which the sheets of a rank are centred."""
        return self.first + (rank + 0.5) * self.pitch + (_HEAD - _BELOW) / 2


def _draw_heads(board: Board, plan: _Plan, lead: str, names: tuple[str, str], lang: str) -> None:
    """Above each column what it is, and its dims."""
    y = plan.top + 0.14
    first, second = names
    heads = (f"X ({lead}h)", f"{first} (h, f)", f"Z ({lead}f)", f"{second} (f, h')", f"Y ({lead}h')")
    for x, head in zip(plan.centres, heads, strict=True):
        board.text(x, y, head, style.TINY, color=style.FADED)
    board.text(plan.total + (plan.width - MARGIN - plan.total) / 2, y, labels.say("sum_of", lang), style.TINY)


def _draw_row(board: Board, plan: _Plan, row: Row, rank: int, between: str) -> None:
    y = plan.middle(rank)
    board.chip(rank, MARGIN + 0.16, y, 0.28)
    for which, sheet in enumerate(row):
        wide, tall = plan.size(row, which)
        draw_sheet(board, sheet, (plan.centres[which] - wide / 2, y - tall / 2), (wide, tall))
    for which, sign in ((0, "·"), (2, "·"), (3, "=")):
        middle = (plan.edges[which][1] + plan.edges[which + 1][0]) / 2
        board.text(middle, y, sign, style.TITLE, fontweight="bold")
    start, end = plan.edges[1][1] + 0.06, plan.edges[2][0] - 0.06
    board.arrow((start, y), (end, y), style.GRID, 3.0, head=7.0)
    board.text((start + end) / 2, y - 0.17, between, style.SMALL)


def _draw_total(board: Board, plan: _Plan, rows: Sequence[Row]) -> None:
    """At the right the sum of all results, and a line that joins them."""
    top, bottom = plan.middle(0), plan.middle(len(rows) - 1)
    edge, x = plan.edges[4][1] + 0.1, plan.total
    for rank in range(len(rows)):
        board.ax.plot([edge, edge + 0.12], [plan.middle(rank)] * 2, color=style.LINE, lw=1.2 * board.scale)
    board.ax.plot([edge + 0.12] * 2, [top, bottom], color=style.LINE, lw=1.2 * board.scale)
    y = (top + bottom) / 2
    board.arrow((edge + 0.12, y), (x - 0.04, y), style.GRID, 2.5, head=6.0)
    shape, (wide, tall) = rows[0][4].shape, plan.sum
    total = Sheet("Y", shape, sources=tuple(range(len(rows))))
    draw_sheet(board, total, (x + (plan.width - MARGIN - x - wide) / 2, y - tall / 2), (wide, tall))


def _alt(rows: Sequence[Row], between: str, title: str, line: str) -> str:
    said = [title or f"Two products on {len(rows)} ranks, the first cut by columns, the second by rows"]
    for rank, row in enumerate(rows):
        x, a, z, b, y = ("×".join(map(str, sheet.shape)) for sheet in row)
        said.append(f"rank {rank}: {x} times {a}, {between}, {z} times {b} is {y}")
    said.append("The results are partial sums of Y, added up at the end; the middle stays cut")
    return ". ".join([*said, line] if line else said) + "."
