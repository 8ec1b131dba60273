"""A layer as a row of stages: what each rank holds, cut along the sequence, along features, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe

_WIDE, _TALL, _GAP, _ABOVE, _BELOW = 1.0, 1.25, 0.95, 0.5, 0.34
ROWS = "sequence"
WHOLE, SUM = "", "sum"


@dataclass(frozen=True)
class Stage:
    """One stage: its name, along what it is cut ("sequence", "heads", "hidden", …), the sizes by rank.

    `dim` "" means that every rank holds all of it, "sum" that each holds a term of the sum.
    """

    name: str
    dim: str
    sizes: tuple[int, ...]
    arrow: str = ""
    """What leads to it from the stage before: "all-gather"."""


def stages(
    given: Sequence[Any],
    ax: Axes | None = None,
    *,
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with a box a stage, sequence down and features across, in the colours of who holds what.

    `given` lists stages (name, dim, sizes by rank) and, between two of them, texts: the call that leads from
    one to the next. `dim` "sequence" cuts the box across; "heads", "hidden" or any other word cuts it
    upright; "" means that every rank holds it whole (sizes: the whole, once for each rank), "sum" that each
    rank holds a term. Raises ValueError for other numbers of ranks from stage to stage.
    """
    lang = labels.choose(language)
    found = stages_of(given)
    across = min(len(found), 4)
    width = max(2 * MARGIN + across * _WIDE + (across - 1) * _GAP + 0.5, 4.2)
    tall = _ABOVE + _TALL + _BELOW
    line = labels.say("by_hand", lang) if provenance is None else provenance
    legend = labels.say("axes_of_stage", lang)
    foot = [one for text in (legend, line) if text for one in wrap(text, width - 2 * MARGIN)]
    top = 0.4 if title else 0.1
    down = -(-len(found) // across)
    board = Board(ax, width, top + down * tall + foot_height(foot), lang)
    if title:
        board.title(title)
    for i, stage in enumerate(found):
        x = MARGIN + 0.25 + (i % across) * (_WIDE + _GAP)
        y = top + (i // across) * tall + _ABOVE
        _draw_stage(board, stage, (x, y), lang)
        if i:
            _draw_arrow(board, stage.arrow, (x, y), wrapped=i % across == 0)
    board.foot(foot)
    describe(board.ax, _alt(found, title, line))
    return board.ax


def stages_of(given: Sequence[Any]) -> list[Stage]:
    """The stages, each with the text that stands before it. Raises ValueError as `stages` does."""
    found: list[Stage] = []
    arrow = ""
    for one in given:
        if isinstance(one, str):
            arrow = f"{arrow}, {one}" if arrow else one
            continue
        name, dim, sizes = one
        found.append(Stage(name, dim, tuple(int(size) for size in sizes), arrow))
        arrow = ""
    if not found or not found[0].sizes:
        raise ValueError("no stages: give (name, dim, sizes by rank), such as ('norm', 'sequence', [4, 4])")
    for stage in found:
        if len(stage.sizes) != len(found[0].sizes):
            raise ValueError(
                f"{stage.name!r} has {len(stage.sizes)} sizes, {found[0].name!r} has {len(found[0].sizes)}: "
                "give one a rank"
            )
        if min(stage.sizes) < 0 or (stage.dim in (WHOLE, SUM) and len(set(stage.sizes)) > 1):
            raise ValueError(
                f"{stage.name!r} has sizes {list(stage.sizes)}: give 0 or more, and one size for all ranks "
                "where each holds the whole or a term of it"
            )
    if found[0].arrow or arrow:
        raise ValueError(
            f"{found[0].arrow or arrow!r} stands at an end: a text leads from a stage to the next"
        )
    return found


def _draw_stage(board: Board, stage: Stage, corner: tuple[float, float], lang: str) -> None:
    x, y = corner
    for i, said in enumerate(reversed(wrap(stage.name, _WIDE + _GAP - 0.1, style.SMALL)[:2])):
        board.text(x + _WIDE / 2, y - 0.14 - 0.15 * i, said, style.SMALL, fontweight="bold")
    if stage.dim == SUM:
        _draw_terms(board, len(stage.sizes), corner)
    elif stage.dim == WHOLE:
        _draw_whole(board, len(stage.sizes), corner)
    else:
        _draw_cut(board, stage, corner)
    key = {WHOLE: "held_whole", SUM: "held_terms", ROWS: "cut_sequence"}.get(stage.dim)
    shown = labels.say(key, lang) if key else labels.say("cut_along", lang, dim=labels.term(stage.dim, lang))
    board.text(x + _WIDE / 2, y + _TALL + 0.14, shown, style.TINY, color=style.FADED)


def _draw_cut(board: Board, stage: Stage, corner: tuple[float, float]) -> None:
    (x, y), whole = corner, max(1, sum(stage.sizes))
    board.cell(x, y, _WIDE, _TALL, facecolor=style.EMPTY)
    for rank, (end, size) in enumerate(zip(accumulate(stage.sizes), stage.sizes, strict=True)):
        start, share = (end - size) / whole, size / whole
        if not size:
            continue
        if stage.dim == ROWS:
            spot = (x, y + start * _TALL, _WIDE, share * _TALL)
        else:
            spot = (x + start * _WIDE, y, share * _WIDE, _TALL)
        board.fill(*spot, rank)
        points = min(style.TEXT, 0.62 * min(spot[2:]) * 72)
        if points >= 5.5:
            board.on_fill(spot[0] + spot[2] / 2, spot[1] + spot[3] / 2, str(rank), points, rank)


def _draw_whole(board: Board, ranks: int, corner: tuple[float, float]) -> None:
    """Grey, with the signs of all ranks."""
    board.cell(*corner, _WIDE, _TALL, facecolor=style.EMPTY)
    _draw_chips(board, ranks, corner)


def _draw_terms(board: Board, ranks: int, corner: tuple[float, float]) -> None:
    """A sheet a rank, one behind the other, each of full size."""
    step = min(0.07, 0.3 / ranks)
    for rank in reversed(range(ranks)):
        x, y = corner[0] + rank * step, corner[1] + rank * step
        board.fill(x, y, _WIDE - (ranks - 1) * step, _TALL - (ranks - 1) * step, rank)
    middle = (corner[0] + _WIDE / 2 - (ranks - 1) * step / 2, corner[1] + _TALL / 2 - (ranks - 1) * step / 2)
    board.on_fill(*middle, "+", style.TITLE, 0)


def _draw_chips(board: Board, ranks: int, corner: tuple[float, float]) -> None:
    columns = 1 if ranks == 1 else 2 if ranks <= 4 else 3 if ranks <= 9 else 4
    rows = -(-ranks // columns)
    size = min(0.26, 0.8 * _WIDE / columns, 0.8 * _TALL / rows)
    for rank in range(ranks):
        across = (rank % columns + 0.5) * _WIDE / columns
        board.chip(rank, corner[0] + across, corner[1] + (rank // columns + 0.5) * _TALL / rows, size)


def _draw_arrow(board: Board, said: str, corner: tuple[float, float], wrapped: bool) -> None:
    """From the stage before, with the call's name; at the beginning of a row it comes from the left edge."""
    x, y = corner[0], corner[1] + _TALL / 2
    if wrapped:
        board.arrow((x - 0.3, y), (x - 0.06, y), style.GRID, 3.0, head=7.0)
        board.text(x - 0.3, corner[1] - 0.34, said, style.TINY, ha="left")
        return
    board.arrow((x - _GAP + 0.1, y), (x - 0.1, y), style.GRID, 3.0, head=7.0)
    for i, part in enumerate(reversed(wrap(said, _GAP, style.TINY))):
        board.text(x - _GAP / 2, y - 0.16 - 0.13 * i, part, style.TINY)


def _alt(found: Sequence[Stage], title: str, line: str) -> str:
    said = [title or f"What each of {len(found[0].sizes)} ranks holds, stage by stage"]
    for stage in found:
        sizes = ", ".join(f"rank {rank} {size}" for rank, size in enumerate(stage.sizes))
        how = {WHOLE: "every rank holds all of it", SUM: "every rank holds a term of the sum"}.get(
            stage.dim, f"cut along {stage.dim}: {sizes}"
        )
        before = f"after {stage.arrow}, " if stage.arrow else ""
        said.append(f"{before}{stage.name}: {how}")
    return ". ".join([*said, line] if line else said) + "."
