"""Blocks that go round a ring: which rank holds whose block at each step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.arrows import moves
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.draw.rounds import Move, Round, bundled, in_rounds
from mindlab.predict import units
from mindlab.trace.run import Run

Holders = list[list[int | None]]
"""By step, by rank: whose block it holds; None: nobody's."""

_WIDE, _TALL, _HEAD, _LEFT = 0.62, 0.34, 0.34, 0.95
_POINT_TO_POINT = {"send", "isend", "recv", "irecv"}


def ring(
    run: Run | Sequence[Sequence[int | None]],
    ax: Axes | None = None,
    *,
    block: str = "KV",
    circles: bool = False,
    above: int = 8,
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with a row a rank and a column a step: a cell has the colour of the block's owner.

    `run` is a Run: every rank starts with its own block, and a rank that receives holds what the sender held
    (only point-to-point messages of more than `above` bytes are followed: the lengths that ranks may tell
    each other first have 8; what else was called is named at the foot). Or it is by rank the owners that the
    rank met, in order: [[0, 2, 1], [1, 0, 2], [2, 1, 0]]. With `circles` each transfer is also drawn on a
    ring of the ranks, in the colour of the block that it carries. `block` is what travels, for the labels.
    Raises ValueError for a run in which one rank receives from two at a time, and for rows of different
    lengths.
    """
    lang = labels.choose(language)
    holders, others = _of_run(run, above, lang) if isinstance(run, Run) else (_of_rows(run), [])
    foot = _foot(run, others, provenance, lang)
    steps, ranks = len(holders), len(holders[0])
    wide, gap = _measures(steps)
    rings = _Rings(passed_on(holders, block, lang) if circles else [], ranks)
    top = (0.4 if title else 0.1) + rings.height
    inner = _LEFT + steps * wide + (steps - 1) * gap
    width = max(inner + 2 * MARGIN, 4.2, rings.width + 0.1)
    lines = [one for text in foot for one in wrap(text, width - 2 * MARGIN)]
    height = top + _HEAD + ranks * (_TALL + 0.06) + 0.1 + (foot_height(lines) if lines else 0)
    board = Board(ax, width, height, lang)
    if title:
        board.title(title)
    rings.draw(board, top - rings.height, lang)
    _draw_grid(board, holders, ((width - inner) / 2, top), (wide, gap), (block, lang))
    board.foot(lines)
    describe(board.ax, _alt(holders, block, title, lines))
    return board.ax


def _measures(steps: int) -> tuple[float, float]:
    """The inches of a cell, and between two columns."""
    room = style.FULL_WIDTH - 2 * MARGIN - _LEFT
    gap = min(0.55, (room - steps * _WIDE) / max(1, steps - 1))
    return (_WIDE, gap) if gap >= 0.2 else ((room - 0.2 * (steps - 1)) / steps, 0.2)


def passed_on(holders: Holders, block: str = "KV", lang: str = "en") -> list[Round]:
    """The transfers between the steps, as rounds for `draw.moves`: each move has its block's name and colour.

    A block comes from the nearest rank to the left, round the ring, that held it the step before.
    """
    rounds = []
    for step, (before, after) in enumerate(pairwise(holders)):
        moved = []
        for rank, owner in enumerate(after):
            source = _source(before, rank, owner)
            if owner is not None and source is not None and source != rank:
                moved.append(Move(source, rank, 0, f"{block}{owner}", owner=owner))
        label = labels.say("between_steps", lang, before=step, after=step + 1)
        rounds.append(Round(tuple(sorted(moved, key=lambda move: move.source)), label=label))
    return rounds


def _source(before: Sequence[int | None], rank: int, owner: int | None) -> int | None:
    """The rank itself if it had the block, else the nearest to its left that had."""
    ranks = len(before)
    return next((r for r in ((rank - k) % ranks for k in range(ranks)) if before[r] == owner), None)


def _of_run(run: Run, above: int, lang: str) -> tuple[Holders, list[str]]:
    """The holders by step, and the names of the calls that are not followed."""
    holders: Holders = [list(range(run.ranks))]
    others: dict[str, None] = {}
    for one in map(bundled, in_rounds(run.events)):
        if not one.moves or not set(one.ops) <= _POINT_TO_POINT:
            others.update(dict.fromkeys(one.ops))
        elif max(move.nbytes for move in one.moves) <= above:
            others[labels.say("small_messages", lang, size=units.size(above))] = None
        else:
            holders.append(_after(one, holders[-1]))
    return holders, list(others)


def _after(one: Round, before: Sequence[int | None]) -> list[int | None]:
    """What is held after a round: the sender's block; nothing by a rank that only sent."""
    sources: dict[int, int] = {}
    for move in one.moves:
        if move.target in sources:
            both = f"from {sources[move.target]} and from {move.source}"
            raise ValueError(f"rank {move.target} receives {both} at once: draw it with ml.draw.moves")
        sources[move.target] = move.source
    senders = {move.source for move in one.moves}
    return [
        before[sources[rank]] if rank in sources else None if rank in senders else before[rank]
        for rank in range(len(before))
    ]


def _of_rows(rows: Sequence[Sequence[int | None]]) -> Holders:
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1 or lengths == [0]:
        raise ValueError(f"rows of {lengths} steps: give by rank the owners that it met, equally many a rank")
    return [list(column) for column in zip(*rows, strict=True)]


class _Rings:
    """The circles above the grid: a panel a transfer."""

    def __init__(self, rounds: Sequence[Round], ranks: int) -> None:
        self.rounds = rounds
        side, tall = 1.95 if ranks <= 4 else 2.6, (1.95 if ranks <= 4 else 2.6) if ranks > 2 else 0.75
        across = max(1, min(len(rounds), int((style.FULL_WIDTH - 0.2) / side)))
        down = -(-len(rounds) // across)
        self.width = across * side + 0.2 if rounds else 0.0
        self.height = 0.15 + down * (tall + 0.5) + 0.12 if rounds else 0.0

    def draw(self, board: Board, y: float, lang: str) -> None:
        """Drawn on new Axes, from y on."""
        if self.rounds:
            ax = board.inset((board.width - self.width) / 2, y, self.width, self.height)
            moves(self.rounds, ax, limit=len(self.rounds), provenance="", language=lang)


def _draw_grid(
    board: Board,
    holders: Holders,
    corner: tuple[float, float],
    size: tuple[float, float],
    words: tuple[str, str],
) -> None:
    (x, y), (wide, gap), (block, lang) = corner, size, words
    left = x + _LEFT
    pitch = _TALL + 0.06
    for rank in range(len(holders[0])):
        middle = y + _HEAD + rank * pitch + _TALL / 2
        board.text(x + 0.4, middle, labels.say("rank", lang), style.SMALL, ha="right", color=style.FADED)
        board.chip(rank, x + 0.6, middle, 0.28)
    for step, row in enumerate(holders):
        at = left + step * (wide + gap)
        name = f"{labels.say('step', lang)} {step}" if wide + gap > 0.55 else str(step)
        board.text(at + wide / 2, y + 0.17, name, style.SMALL, fontweight="bold")
        for rank, owner in enumerate(row):
            _draw_cell(board, owner, (at, y + _HEAD + rank * pitch), wide, block)
    for step, one in enumerate(passed_on(holders, block)):
        for move in one.moves:
            ends = (left + step * (wide + gap) + wide + 0.03, left + (step + 1) * (wide + gap) - 0.03)
            rows = (y + _HEAD + r * pitch + _TALL / 2 for r in (move.source, move.target))
            owner = holders[step][move.source]
            assert owner is not None, "a move carries a block"
            start, end = zip(ends, rows, strict=True)
            board.arrow(start, end, style.colour(owner), 1.6, head=5.5)


def _draw_cell(board: Board, owner: int | None, spot: tuple[float, float], wide: float, block: str) -> None:
    if owner is None:
        board.cell(*spot, wide, _TALL, edgecolor=style.GRID, linestyle=":")
        return
    board.fill(*spot, wide, _TALL, owner)
    text = f"{block}{owner}" if wide * 72 >= 0.62 * style.SMALL * len(f"{block}{owner}") else str(owner)
    board.on_fill(spot[0] + wide / 2, spot[1] + _TALL / 2 + 0.01, text, style.SMALL, owner)


def _foot(run: Any, others: Sequence[str], provenance: str | None, lang: str) -> list[str]:
    more = [labels.say("not_followed", lang, ops=", ".join(others))] if others else []
    usual = labels.say("by_hand", lang)
    if isinstance(run, Run):
        usual = f"{labels.say('counted', lang)}: {labels.say('counted_by', lang)} · {run.provenance}"
    line = usual if provenance is None else provenance
    return [*more, line] if line else more


def _alt(holders: Holders, block: str, title: str, foot: Sequence[str]) -> str:
    said = [title or f"Whose {block} block each of {len(holders[0])} ranks holds, step by step"]
    for rank in range(len(holders[0])):
        names = ("nothing" if row[rank] is None else f"{block}{row[rank]}" for row in holders)
        said.append(f"rank {rank}: " + ", ".join(names))
    return ". ".join([*said, " ".join(foot)]) + "."
