"""Y = X W as three sheets, whole or cut over the ranks, and what each rank multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.draw.sheets import (
    Scale,
    Shape,
    Sheet,
    by_rank,
    draw_sheet,
    parts,
    scale_for,
    shape_of,
    shapes_of,
)

_ABOVE, _BELOW = 0.24, 0.24
"""Inches that the name of a sheet takes above it, and its shape below."""
_SIGN = 0.34


@dataclass(frozen=True)
class Product:
    """X, W and Y as a whole with their cuts, and by rank what it multiplies (none where nothing is cut)."""

    whole: tuple[Sheet, Sheet, Sheet]
    each: tuple[tuple[Sheet, Sheet, Sheet], ...] = ()
    summed: bool = False
    """Whether the ranks' results are added up (W cut by rows) or stand side by side (by columns)."""

    @property
    def cut(self) -> str:
        """The key of the words that name the cut."""
        return "" if not self.each else "cut_rows" if self.summed else "cut_columns"


def matmul(
    x: Any,
    w: Any,
    y: Any,
    ax: Axes | None = None,
    *,
    each: bool = True,
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with Y = X W as sheets in proportion, in the colours of the ranks that hold the parts.

    Each of `x` (b, s, h) or (s, h), `w` (h, h'), `y` is a tensor (or a shape) that all ranks hold, or a list
    of them by rank. `w` by rank: cut. With one `x` for all it is cut by columns, and the `y` stand side by
    side; with `x` by rank it is cut by rows, and the `y` are partial sums, each of full size. With `each`
    every rank's own product stands below the whole. Raises ValueError for shapes that do not fit.
    """
    lang = labels.choose(language)
    product = product_of(x, w, y)
    rows = product.each if each and len(product.each) > 1 else ()
    line = labels.say("by_hand", lang) if provenance is None else provenance
    plan = _Plan(product, rows, 0.4 if title else 0.12)
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    said = [labels.say(product.cut, lang, ranks=len(product.each))] if product.cut else []
    for text in said:
        board.text(MARGIN, plan.top + 0.1, text, style.SMALL, ha="left", color=style.FADED)
    draw_product(board, product.whole, (plan.left, plan.first), plan.large)
    for rank, row in enumerate(rows):
        corner = plan.place(rank)
        board.chip(rank, corner[0] + 0.16, corner[1] + plan.tall / 2, 0.28)
        draw_product(board, row, (corner[0] + 0.45, corner[1]), plan.small)
    if rows:
        _draw_result(board, product, (MARGIN, plan.last), (plan.small, lang))
    board.foot(foot)
    describe(board.ax, _alt(product, title, line))
    return board.ax


def product_of(x: Any, w: Any, y: Any) -> Product:
    """The Product of these tensors or shapes, or lists of them by rank. Raises ValueError for a misfit."""
    if not by_rank(w):
        if by_rank(x) or by_rank(y):
            raise ValueError("w is one for all ranks, but x or y is given by rank: give w by rank too")
        shapes = (shape_of(x, "x"), shape_of(w, "w"), shape_of(y, "y"))
        _check(*shapes, "")
        return Product(_named(*shapes))
    ws, ys = shapes_of(w, "w"), shapes_of(y, "y") if by_rank(y) else []
    xs = shapes_of(x, "x") if by_rank(x) else [shape_of(x, "x")] * len(ws)
    if not len(xs) == len(ws) == len(ys):
        raise ValueError(f"{len(xs)} x, {len(ws)} w and {len(ys)} y by rank: give one of each a rank")
    for rank, shapes in enumerate(zip(xs, ws, ys, strict=True)):
        _check(*shapes, f" of rank {rank}")
    return _by_rows(xs, ws, ys) if by_rank(x) else _by_columns(xs[0], ws, ys)


def draw_product(
    board: Board, sheets: Sequence[Sheet], corner: tuple[float, float], scale: tuple[Scale, Shape]
) -> None:
    """X, ·, W, =, Y from left to right, the sheets centred on one line; `corner` is that of their space."""
    (x, y), (inches, whole) = corner, scale
    middle = y + _ABOVE + _tallest(sheets, inches, whole) / 2
    for sheet, sign in zip(sheets, ("·", "=", ""), strict=True):
        wide, tall = _size(sheet, inches, whole)
        draw_sheet(board, sheet, (x, middle - tall / 2), (wide, tall))
        x += wide + _SIGN
        if sign:
            board.text(x - _SIGN / 2, middle, sign, style.TITLE, fontweight="bold")


def _by_columns(x: Shape, ws: list[Shape], ys: list[Shape]) -> Product:
    widths = [w[1] for w in ws]
    whole_w, whole_y = (x[-1], sum(widths)), (*x[:-1], sum(widths))
    named = _named(x, whole_w, whole_y)
    cut = (named[0], _cut(named[1], across=widths), _cut(named[2], across=widths))
    each = [
        (Sheet("X", x), Sheet(f"W{subscript(r)}", w, rank=r), Sheet(f"Y{subscript(r)}", y, rank=r))
        for r, (w, y) in enumerate(zip(ws, ys, strict=True))
    ]
    return Product(cut, tuple(each))


def _by_rows(xs: list[Shape], ws: list[Shape], ys: list[Shape]) -> Product:
    if len(set(ys)) > 1:
        raise ValueError(f"partial sums of shapes {ys}: cut by rows, every rank's y has the full shape")
    heights = [w[0] for w in ws]
    inner = sum(heights)
    named = _named((*xs[0][:-1], inner), (inner, ws[0][1]), ys[0])
    total = Sheet("Y", ys[0], sources=tuple(range(len(ws))), letters=named[2].letters)
    cut = (_cut(named[0], across=heights), _cut(named[1], down=heights), total)
    each = [
        tuple(Sheet(f"{n}{subscript(r)}", s, rank=r) for n, s in zip("XWY", shapes, strict=True))
        for r, shapes in enumerate(zip(xs, ws, ys, strict=True))
    ]
    return Product(cut, tuple((a, b, c) for a, b, c in each), summed=True)


def _named(x: Shape, w: Shape, y: Shape) -> tuple[Sheet, Sheet, Sheet]:
    lead = leading(x)
    letters = (f"({lead}h)", "(h, h')", f"({lead}h')")
    first, second, third = (
        Sheet(name, shape, letters=said) for name, shape, said in zip("XWY", (x, w, y), letters, strict=True)
    )
    return first, second, third


def _cut(sheet: Sheet, across: Sequence[int] = (), down: Sequence[int] = ()) -> Sheet:
    return Sheet(sheet.name, sheet.shape, parts(across), parts(down), letters=sheet.letters)


def leading(shape: Shape) -> str:
    """The names of all dims but the last, each with its comma."""
    return {2: "s, ", 3: "b, s, "}.get(len(shape), "…, ")


def subscript(rank: int) -> str:
    """The rank as a subscript."""
    return str(rank).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _check(x: Shape, w: Shape, y: Shape, whose: str) -> None:
    if len(w) != 2 or w[0] != x[-1]:
        raise ValueError(
            f"x{whose} {x} cannot multiply w{whose} {w}: w is (columns of x, columns of y); "
            "a Linear's weight lies the other way, give weight.T"
        )
    if y != (*x[:-1], w[1]):
        raise ValueError(f"x{whose} {x} times w{whose} {w} is {(*x[:-1], w[1])}, but y{whose} is {y}")


def _size(sheet: Sheet, scale: Scale, whole: Shape) -> tuple[float, float]:
    """Width and height in inches; `whole` is (s, h, h') of the whole product, of which this is a part."""
    s, h, h2 = whole
    kind = sheet.name[0]
    wide = scale.part(sheet.shape[-1], h if kind == "X" else h2)
    tall = scale.part(sheet.shape[-2], h if kind == "W" else s)
    return wide, tall


def _tallest(sheets: Sequence[Sheet], scale: Scale, whole: Shape) -> float:
    return max(_size(sheet, scale, whole)[1] for sheet in sheets)


class _Plan:
    """Where everything stands, in inches."""

    def __init__(self, product: Product, rows: Sequence[Sequence[Sheet]], top: float) -> None:
        x, w, _ = (sheet.shape for sheet in product.whole)
        whole = (x[-2], *w)
        self.top, self.first = top, top + (0.25 if product.cut else 0.0)
        self.large = (scale_for(whole, 1.35), whole)
        self.small = (scale_for(whole, 1.0 if len(rows) < 3 else 0.85), whole)
        self.columns = 1 if len(rows) < 3 else 2
        self.tall = max((_tallest(row, *self.small) for row in rows), default=0.0) + _ABOVE + _BELOW
        upper = _width(product.whole, *self.large)
        self.each = max((_width(row, *self.small) for row in rows), default=0.0) + 0.45
        lower = self.columns * self.each + (self.columns - 1) * 0.35
        ends = _result_width(product, self.small) if rows else 0.0
        self.width = max(upper, lower, ends, 3.9) + 2 * MARGIN + 0.1
        self.left = (self.width - upper) / 2
        self.shift = (self.width - lower) / 2
        self.second = self.first + _tallest(product.whole, *self.large) + _ABOVE + _BELOW + 0.1
        self.last = self.second + -(-len(rows) // self.columns) * self.tall
        end = _ABOVE + self.small[0].of(whole[0]) + _BELOW + 0.3 if rows else 0.0
        self.height = self.last + end + 0.02

    def place(self, rank: int) -> tuple[float, float]:
        """The upper left corner of a rank's product."""
        across, down = rank % self.columns, rank // self.columns
        return self.shift + across * (self.each + 0.35), self.second + down * self.tall


def _width(sheets: Sequence[Sheet], scale: Scale, whole: Shape) -> float:
    return sum(_size(sheet, scale, whole)[0] for sheet in sheets) + 2 * _SIGN


def _terms(product: Product, scale: tuple[Scale, Shape]) -> tuple[float, float, float]:
    """Of the last row: the inches between two Y, those of the whole, the factor that makes all fit in."""
    wide = [_size(row[2], *scale)[0] for row in product.each]
    gap = 0.26 if product.summed else 0.07
    whole = _size(product.whole[2], *scale)[0]
    room = style.FULL_WIDTH - 2 * MARGIN - 0.3 - _SIGN - gap * (len(wide) - 1)
    return gap, whole, min(1.0, room / (sum(wide) + whole))


def _result_width(product: Product, scale: tuple[Scale, Shape]) -> float:
    gap, whole, fit = _terms(product, scale)
    each = sum(_size(row[2], *scale)[0] for row in product.each)
    return fit * (each + whole) + gap * (len(product.each) - 1) + _SIGN


def _draw_result(
    board: Board, product: Product, corner: tuple[float, float], look: tuple[tuple[Scale, Shape], str]
) -> None:
    """Y0 + Y1 = Y, or Y0 | Y1 = Y, with the words for it."""
    scale, lang = look
    gap, _, fit = _terms(product, scale)
    key = "added_up" if product.summed else "side_by_side"
    board.text(corner[0], corner[1] + 0.12, labels.say(key, lang), style.SMALL, ha="left", color=style.FADED)
    x, y = (board.width - _result_width(product, scale)) / 2, corner[1] + 0.28 + _ABOVE
    for rank, row in enumerate(product.each):
        wide, tall = _size(row[2], *scale)
        draw_sheet(board, row[2], (x, y), (fit * wide, tall), room=fit * wide + gap)
        x += fit * wide + gap
        if rank + 1 < len(product.each) and product.summed:
            board.text(x - gap / 2, y + tall / 2, "+", style.TITLE, fontweight="bold")
    x += _SIGN - gap
    wide, tall = _size(product.whole[2], *scale)
    board.text(x - _SIGN / 2, y + tall / 2, "=", style.TITLE, fontweight="bold")
    draw_sheet(board, product.whole[2], (x, y), (fit * wide, tall))


def _alt(product: Product, title: str, line: str) -> str:
    shown = [" by ".join(map(str, sheet.shape)) for sheet in product.whole]
    parts_ = [title or "The product Y = X W", f"X is {shown[0]}, W is {shown[1]}, Y is {shown[2]}"]
    ranks = len(product.each)
    if ranks and product.summed:
        parts_.append(f"W is cut by rows and X by columns over {ranks} ranks, each result is a partial sum")
    elif ranks:
        parts_.append(
            f"W is cut by columns over {ranks} ranks, each rank has all of X, the results side by side"
        )
    for rank, row in enumerate(product.each):
        x, w, y = ("×".join(map(str, sheet.shape)) for sheet in row)
        parts_.append(f"rank {rank}: {x} times {w} is {y}")
    return ". ".join([*parts_, line] if line else parts_) + "."
