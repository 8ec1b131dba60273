"""How many bytes each rank holds, by kind: weights, activations, buffers; one case beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.predict import units

Case = Sequence[Mapping[str, float]]
"""By rank: bytes by kind."""

_ROW, _HEAD, _SUM = 0.29, 0.3, 0.85
_TINTS = (0.0, 0.45, 0.72, 0.86)
"""How much white is mixed into a rank's colour, by kind."""


def held(
    cases: Mapping[str, Case],
    ax: Axes | None = None,
    *,
    verb: str = "holds",
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with a bar a rank, as long as the bytes that it holds, in parts by kind, case by case.

    `cases` maps a name ("one card", "tensor parallel") to bytes by kind, by rank: [{"weights": 4096, …}, …].
    The kinds are tints of the rank's colour, lettered a, b, … as the line on top says. All bars share one
    scale; the sum stands at the end. `verb` is what a rank does with them ("sends").
    Raises ValueError without bytes, below 0, or for more than four kinds.
    """
    lang = labels.choose(language)
    kinds = _kinds(cases)
    most = max(sum(rank.values()) for case in cases.values() for rank in case)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    width = 6.8
    foot = wrap(line, width - 2 * MARGIN)
    top = (0.4 if title else 0.1) + 0.3
    rows = sum(len(case) * _ROW + _HEAD + 0.08 for case in cases.values())
    board = Board(ax, width, top + rows + 0.1 + (foot_height(foot) if foot else 0), lang)
    if title:
        board.title(title)
    _draw_legend(board, kinds, top - 0.16, lang)
    y = top
    for name, case in cases.items():
        board.text(MARGIN, y + 0.16, name, style.TEXT, ha="left", fontweight="bold")
        y += _HEAD
        for rank, mine in enumerate(case):
            board.chip(rank, MARGIN + 0.2, y + _ROW / 2, 0.24)
            _draw_bar(board, rank, [mine.get(kind, 0) for kind in kinds], y, most)
            y += _ROW
        y += 0.08
    board.foot(foot)
    describe(board.ax, _alt(cases, verb, title, line))
    return board.ax


def _kinds(cases: Mapping[str, Case]) -> list[str]:
    """The kinds in order of appearance, after a check of all values."""
    values = [n for case in cases.values() for mine in case for n in mine.values()]
    if not values or not any(values) or not all(0 <= n < float("inf") for n in values):
        raise ValueError("no bytes to draw: give by case and rank {'weights': 4096, 'activations': 512}")
    kinds = list(dict.fromkeys(kind for case in cases.values() for mine in case for kind in mine))
    if len(kinds) > len(_TINTS):
        raise ValueError(f"{len(kinds)} kinds ({', '.join(kinds)}): at most {len(_TINTS)} can be told apart")
    return kinds


def _letter(kind: int) -> str:
    return "abcd"[kind]


def _draw_legend(board: Board, kinds: Sequence[str], y: float, lang: str) -> None:
    x = MARGIN
    for i, kind in enumerate(kinds):
        fill = style.tinted(style.FADED, _TINTS[i])
        board.cell(x, y - 0.09, 0.2, 0.18, facecolor=fill)
        board.text(x + 0.1, y, _letter(i), style.TINY, color=style.ink_on(fill))
        said = labels.term(kind, lang)
        board.text(x + 0.27, y, said, style.SMALL, ha="left")
        x += 0.27 + 0.085 * len(said) * (1.5 if lang == "zh" else 1.0) + 0.25


def _draw_bar(board: Board, rank: int, parts: Sequence[float], y: float, most: float) -> None:
    """The parts of one bar, each with its letter where it fits, and their sum."""
    left = MARGIN + 0.42
    room = board.width - MARGIN - left - _SUM
    x = left
    for kind, nbytes in enumerate(parts):
        wide = room * nbytes / most
        if not nbytes:
            continue
        fill = style.tinted(style.colour(rank), _TINTS[kind])
        board.cell(x, y + 0.04, wide, _ROW - 0.08, facecolor=fill, hatch=style.hatch(rank))
        if wide >= 0.12:
            ground = {"boxstyle": "round,pad=0.1", "facecolor": fill, "edgecolor": "none"}
            look = {"bbox": ground} if style.hatch(rank) else {}
            board.text(
                x + wide / 2, y + _ROW / 2, _letter(kind), style.TINY, color=style.ink_on(fill), **look
            )
        x += wide
    board.text(x + 0.07, y + _ROW / 2, units.size(sum(parts)), style.SMALL, ha="left")


def _alt(cases: Mapping[str, Case], verb: str, title: str, line: str) -> str:
    said = [title or f"Bytes that each rank {verb}, by kind"]
    for name, case in cases.items():
        rows = (
            f"rank {rank} {verb} " + ", ".join(f"{units.size(n)} of {kind}" for kind, n in mine.items())
            for rank, mine in enumerate(case)
        )
        said.append(f"{name}: " + "; ".join(rows))
    return ". ".join([*said, line] if line else said) + "."
