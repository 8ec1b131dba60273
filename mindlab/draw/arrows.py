"""Who sends to whom, round by round: one small ring of ranks a round, an arrow a transfer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from mindlab.draw import captions, labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.draw.rounds import Joint, Move, Round, as_rounds, bundled, in_rounds
from mindlab.predict import units
from mindlab.trace.run import Run

_CAPTION = 0.5
"""Inches above each ring for its two lines of text."""


@dataclass(frozen=True)
class _Ring:
    """Where the ranks of one panel stand."""

    x: float
    y: float
    radius: float
    ranks: int
    chip: float

    def at(self, rank: int) -> tuple[float, float]:
        """Clockwise from the top; two ranks stand side by side."""
        turn = 2 * math.pi * rank / self.ranks - (math.pi / 2 if self.ranks == 2 else 0.0)
        return self.x + self.radius * math.sin(turn), self.y - self.radius * math.cos(turn)


def moves(
    run: Run | Sequence[Round | Sequence[Move | tuple[Any, ...]]],
    ax: Axes | None = None,
    *,
    title: str = "",
    limit: int = 12,
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with a panel a round, at most `limit`; arrows have the colour of the sender, or of `owner`.

    `run` is a Run, or rounds made by hand: lists of (source, target[, bytes[, name]]). An arrow is thicker
    the more bytes it stands for. A collective whose arguments do not say who sends what is drawn as a
    dashed shape around its ranks. Source of the rounds: `rounds.in_rounds`.
    """
    lang = labels.choose(language)
    found = in_rounds(run.events) if isinstance(run, Run) else as_rounds(run)
    rounds = [bundled(one) for one in found]
    ranks = run.ranks if isinstance(run, Run) else _ranks_in(rounds)
    foot = _foot(run, len(rounds) - limit, provenance, lang)
    shown = rounds[:limit]
    across, width = _across(len(shown), side := 1.95 if ranks <= 4 else 2.6, alone=ax is None)
    foot = [line for text in foot for line in wrap(text, width - 2 * MARGIN)]
    top = 0.5 if title else 0.15
    down = max(1, math.ceil(len(shown) / across))
    tall = (side if ranks > 2 else 0.75) + _CAPTION
    board = Board(ax, width, top + down * tall + foot_height(foot), lang)
    if title:
        board.title(title)
    most = max((m.nbytes for one in shown for m in one.moves), default=0)
    left = (width - across * side) / 2
    called = captions.names(rounds, lang)
    for i, one in enumerate(shown):
        corner = (left + (i % across) * side, top + (i // across) * tall)
        _draw_round(board, one, _Panel(called[i], corner, side, tall, ranks, most))
    if not shown:
        board.text(width / 2, top + tall / 2, labels.say("nothing", lang), color=style.FADED)
    board.foot(foot)
    describe(board.ax, _alt(rounds, ranks, title, foot))
    return board.ax


def _across(panels: int, side: float, *, alone: bool) -> tuple[int, float]:
    """How many panels stand in a row, and how wide the board is."""
    across = max(1, min(panels, int((style.FULL_WIDTH - 0.2) / side)))
    return across, max(across * side + 0.2, 4.2 if alone else 0.0)


@dataclass(frozen=True)
class _Panel:
    """The place of one round on the board."""

    name: str
    corner: tuple[float, float]
    side: float
    tall: float
    ranks: int
    most: int

    @property
    def ring(self) -> _Ring:
        x = self.corner[0] + self.side / 2
        y = self.corner[1] + _CAPTION + (self.tall - _CAPTION) / 2
        chip = 0.34 if self.ranks <= 8 else 0.24
        gap = 0.14 if self.ranks <= 8 else 0.06
        return _Ring(x, y, self.side / 2 - chip / 2 - gap, self.ranks, chip)


def _draw_round(board: Board, one: Round, panel: _Panel) -> None:
    ring = panel.ring
    middle = panel.corner[0] + panel.side / 2
    board.text(middle, panel.corner[1] + 0.14, _short(panel.name, panel.side), style.TEXT, fontweight="bold")
    board.text(
        middle,
        panel.corner[1] + 0.33,
        _short(captions.sizes(one), panel.side),
        style.SMALL,
        color=style.FADED,
    )
    for joint in one.joint:
        _draw_joint(board, joint, ring, alone=len(one.joint) == 1)
    crowded = len(one.moves) > 24
    alike = len({move.nbytes for move in one.moves}) <= 1
    pairs = {(move.source, move.target) for move in one.moves}
    for move in one.moves:
        both = (move.target, move.source) in pairs
        bend = 0.0 if not both else 0.4 if panel.ranks == 2 else 0.16
        text = move.name or ("" if alike or len(one.moves) > panel.ranks else units.size(move.nbytes))
        _draw_move(board, move, ring, (bend, panel.most, crowded), text)
    for rank in range(panel.ranks):
        board.chip(rank, *ring.at(rank), ring.chip)


def _draw_move(board: Board, move: Move, ring: _Ring, look: tuple[float, int, bool], text: str) -> None:
    bend, most, crowded = look
    start, end = ring.at(move.source), ring.at(move.target)
    length = math.dist(start, end)
    cut = min(0.45, (ring.chip * 0.72) / length)
    dx, dy = end[0] - start[0], end[1] - start[1]
    start = (start[0] + dx * cut, start[1] + dy * cut)
    end = (end[0] - dx * cut, end[1] - dy * cut)
    width = 0.8 if crowded else 1.5 + 2.5 * (move.nbytes / most if most else 0.4)
    head = 3.0 if crowded else 4.0 if ring.ranks > 8 else 7.0
    colour = style.colour(move.source if move.owner is None else move.owner)
    board.arrow(start, end, colour, width, bend=bend, head=head, outline=not crowded)
    if text:
        x, y = (start[0] + end[0]) / 2 - 0.5 * bend * dy, (start[1] + end[1]) / 2 + 0.5 * bend * dx
        box = {"boxstyle": "round,pad=0.15", "facecolor": style.PAPER, "edgecolor": style.GRID, "lw": 0.5}
        board.text(x, y, text, style.TINY, bbox=box, zorder=6)


def _draw_joint(board: Board, joint: Joint, ring: _Ring, alone: bool) -> None:
    points = [ring.at(rank) for rank in sorted(joint.ranks)]
    shape = Polygon(
        points,
        closed=True,
        facecolor=style.EMPTY,
        edgecolor=style.FADED,
        lw=6 * board.scale if len(points) == 2 else 2 * board.scale,
        linestyle="--",
        zorder=1,
    )
    board.ax.add_patch(shape)
    if alone and len(points) > 2:
        board.text(ring.x, ring.y, joint.op, style.SMALL)


def _short(text: str, side: float) -> str:
    room = int(side / 0.078)
    return text if len(text) <= room else text[: room - 1] + "…"


def _ranks_in(rounds: Sequence[Round]) -> int:
    return 1 + max((max(m.source, m.target) for one in rounds for m in one.moves), default=0)


def _foot(run: object, hidden: int, provenance: str | None, lang: str) -> list[str]:
    """The lines at the bottom; `provenance` replaces the usual one, "" leaves it out."""
    more = [labels.say("more_rounds", lang, count=hidden)] if hidden > 0 else []
    usual = labels.say("by_hand", lang)
    if isinstance(run, Run):
        usual = f"{labels.say('counted', lang)}: {labels.say('counted_by', lang)} · {run.provenance}"
    line = usual if provenance is None else provenance
    return [*more, line] if line else more


def _alt(rounds: Sequence[Round], ranks: int, title: str, foot: Sequence[str]) -> str:
    parts = [title or f"Who sends to whom on {ranks} ranks, {len(rounds)} rounds"]
    parts += [
        f"{name}: {captions.sentence(one, ranks)}"
        for name, one in zip(captions.names(rounds), rounds[:40], strict=False)
    ]
    return ". ".join([*parts, " ".join(foot)]) + "."
