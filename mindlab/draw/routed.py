"""Tokens and the experts that take them: a line for each choice, and how many meet at each expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.predict.placement import Holders, deal, experts_of

_TOKEN, _BETWEEN, _BOX, _STACK = 0.74, 1.5, 0.36, 1.2
"""Inches: the height of a token, of the room for lines, of an expert, of the highest stack."""


@dataclass(frozen=True)
class Routed:
    """The boxes (rank, expert), and for each token of each rank the boxes that it goes to."""

    boxes: list[tuple[int, int]]
    goes: list[list[list[int]]]

    def load(self, box: int) -> list[int]:
        """The ranks from which tokens come to a box, one entry a token."""
        return [rank for rank, tokens in enumerate(self.goes) for to in tokens for one in to if one == box]


def route(
    tokens: Sequence[Sequence[Any]],
    routes: Sequence[Sequence[Sequence[int]]],
    holders: Holders,
    ax: Axes | None = None,
    *,
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with tokens on top, experts below, a line from each token to each of its experts.

    `tokens` are texts or numbers by rank, `routes` by rank the experts of each token (as
    `last_dispatch.routes`), `holders` for each expert the ranks that hold it; a copied expert has a box on
    each of them. Tokens, lines and the stacked squares have the colour of the token's rank, boxes that of the
    expert's. The number under a stack is its height. Raises ValueError where tokens and routes do not fit.
    """
    lang = labels.choose(language)
    made = _routed(tokens, routes, holders)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    foot = wrap(line, style.FULL_WIDTH - 2 * MARGIN)
    top = 0.5 if title else 0.2
    height = top + 0.3 + _TOKEN + _BETWEEN + _BOX + _STACK + 0.4 + (foot_height(foot) if foot else 0.05)
    board = Board(ax, style.FULL_WIDTH, height, lang)
    if title:
        board.title(title)
    _draw(board, made, tokens, top + 0.3)
    board.foot(foot)
    describe(board.ax, _alt(made, title, line))
    return board.ax


def _routed(tokens: Sequence[Sequence[Any]], routes: Any, holders: Holders) -> Routed:
    counts = [len(mine) for mine in tokens], [len(mine) for mine in routes]
    if counts[0] != counts[1] or not any(counts[0]):
        raise ValueError(
            f"tokens by rank {counts[0]}, routes {counts[1]}: give the experts of each token, and one token"
        )
    ranks = len(counts[0])
    beyond = max((rank for ranks_of in holders for rank in ranks_of), default=0)
    if beyond >= ranks:
        raise ValueError(
            f"an expert lies on rank {beyond}, tokens are given for {ranks}: give each rank's, or []"
        )
    boxes = [(rank, expert) for rank in range(ranks) for expert in experts_of(holders, rank)]
    goes = []
    for rank, mine in enumerate(routes):
        dealt = deal(mine, holders, rank)
        goes.append(
            [
                [boxes.index(pair) for pair in zip(to, chosen, strict=True)]
                for to, chosen in zip(dealt, mine, strict=True)
            ]
        )
    return Routed(boxes, goes)


def _draw(board: Board, made: Routed, tokens: Sequence[Sequence[Any]], top: float) -> None:
    """Tokens, lines, experts and their stacks, from top to bottom."""
    ranks = len(made.goes)
    ends = _places([(rank, len(mine)) for rank, mine in enumerate(made.goes)], ranks)
    owned = [sum(holder == rank for holder, _ in made.boxes) for rank in range(ranks)]
    boxes = [place for places in _places(list(enumerate(owned)), ranks) for place in places]
    under, over = top + _TOKEN, top + _TOKEN + _BETWEEN
    for rank, places in enumerate(ends):
        if places:
            board.chip(rank, (places[0][0] + sum(places[-1])) / 2, top - 0.17, 0.22)
        for (x, wide), text, to in zip(places, tokens[rank], made.goes[rank], strict=True):
            board.fill(x, top, wide, _TOKEN, rank)
            board.on_fill(x + wide / 2, top + _TOKEN / 2, str(text), style.TINY, rank).set_rotation(90)
            for box in to:
                end = boxes[box][0] + boxes[box][1] / 2
                _line(board, (x + wide / 2, under), (end, over), rank)
    for box, (x, wide) in enumerate(boxes):
        _draw_expert(board, made, box, (x, over, wide))


def _places(counts: list[tuple[int, int]], ranks: int) -> list[list[tuple[float, float]]]:
    """By rank the (left, width) of each of its boxes: every rank has as much room as any other."""
    room = (style.FULL_WIDTH - 2 * MARGIN) / ranks
    found = []
    for rank, count in counts:
        wide = min(0.34, (room - 0.12) / max(1, count))
        left = MARGIN + rank * room + (room - wide * count) / 2
        found.append([(left + i * wide, wide * 0.92) for i in range(count)])
    return found


def _line(board: Board, start: tuple[float, float], end: tuple[float, float], rank: int) -> None:
    look: dict[str, Any] = {"solid_capstyle": "butt", "zorder": 1}
    xs, ys = (start[0], end[0]), (start[1], end[1])
    board.ax.add_line(Line2D(xs, ys, color=style.INK, lw=2.0 * board.scale, **look))
    board.ax.add_line(Line2D(xs, ys, color=style.colour(rank), lw=1.3 * board.scale, **look))


def _draw_expert(board: Board, made: Routed, box: int, place: tuple[float, float, float]) -> None:
    """An expert in the colour of its rank, below it a square for each token that came, and their number."""
    (x, y, wide), (rank, expert) = place, made.boxes[box]
    board.fill(x, y, wide, _BOX, rank)
    board.on_fill(x + wide / 2, y + _BOX / 2, f"E{expert}", style.TINY, rank)
    came = made.load(box)
    most = max(len(made.load(other)) for other in range(len(made.boxes)))
    tall = min(0.12, _STACK / max(1, most))
    for place_of, source in enumerate(came):
        board.fill(x + wide * 0.2, y + _BOX + 0.04 + place_of * tall, wide * 0.6, tall * 0.85, source, lw=0.3)
    below = y + _BOX + 0.15 + len(came) * tall
    board.text(x + wide / 2, below, str(len(came)), style.SMALL, fontweight="bold")


def _alt(made: Routed, title: str, line: str) -> str:
    said = [title or "Tokens and the experts that take them"]
    for box, (rank, expert) in enumerate(made.boxes):
        came = made.load(box)
        sources = ", ".join(
            f"{came.count(source)} from rank {source}" for source in range(len(made.goes)) if source in came
        )
        said.append(f"expert {expert} on rank {rank}: {len(came)} tokens{': ' + sources if came else ''}")
    return ". ".join([*said, line] if line else said) + "."
