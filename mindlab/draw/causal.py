"""Queries against keys: which pairs are visible, which rank computes them, and how many each rank has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe

_SIDE, _EDGE, _BAR, _ABOVE, _LEFT = 2.0, 0.1, 0.2, 0.6, 0.36
"""Inches: a grid, the strips of owners along it, a bar; above a grid and left of it."""
_ACROSS = 3


@dataclass(frozen=True)
class Work:
    """One way to deal out the positions: by position its rank, by rank its visible pairs."""

    name: str
    owners: tuple[int, ...]
    pairs: tuple[int, ...]
    causal: bool
    cuts: tuple[int, ...] = ()
    """Where the sequence is cut into chunks: positions at which one begins, without 0."""

    @property
    def balance(self) -> float:
        """The work of the busiest rank over the mean: 1.0 is even."""
        return max(self.pairs) * len(self.pairs) / sum(self.pairs)

    def runs(self) -> list[tuple[int, int, int]]:
        """(rank, first, behind the last) for neighbouring positions of one rank, in one chunk."""
        found: list[tuple[int, int, int]] = []
        for position, rank in enumerate(self.owners):
            if found and found[-1][0] == rank and position not in self.cuts:
                found[-1] = (rank, found[-1][1], position + 1)
            else:
                found.append((rank, position, position + 1))
        return found


def mask(
    positions: Mapping[str, Sequence[Any]] | Sequence[Any],
    ax: Axes | None = None,
    *,
    causal: bool = True,
    chunks: Mapping[str, int] | int = 1,
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with queries down, keys across, every visible pair in the colour of the query's rank.

    `positions` are by rank the positions that it holds (lists or tensors of whole numbers), or several such
    lists by name, to compare. The strips along the edges show whose queries and keys they are. Below stand
    the visible pairs that each rank computes, and the largest over the mean. Raises ValueError where the
    ranks' positions are not 0, 1, … each once.

    `chunks` says into how many parts the sequence was cut before it was dealt out, for all or by name: thin
    lines show them, cut as `torch.tensor_split` cuts. ValueError for less than 1, or more than positions.
    """
    lang = labels.choose(language)
    given = positions if isinstance(positions, Mapping) else {"": positions}
    works = [_work(name, shards, causal, _of_name(chunks, name)) for name, shards in given.items()]
    line = labels.say("by_hand", lang) if provenance is None else provenance
    across = min(_ACROSS, len(works))
    pitch = _LEFT + _EDGE + _SIDE + 0.25
    width = max(2 * MARGIN + across * pitch, 4.2)
    foot = wrap(line, width - 2 * MARGIN)
    tall = _ABOVE + _SIDE + 0.62 + _BAR * max(len(work.pairs) for work in works)
    top = 0.4 if title else 0.1
    height = top + -(-len(works) // across) * tall + (foot_height(foot) if foot else 0.05)
    board = Board(ax, width, height, lang)
    if title:
        board.title(title)
    for i, work in enumerate(works):
        left = (width - across * pitch) / 2 + (i % across) * pitch
        _draw_panel(board, work, (left, top + (i // across) * tall), lang)
    board.foot(foot)
    describe(board.ax, _alt(works, title, line))
    return board.ax


def _of_name(chunks: Mapping[str, int] | int, name: str) -> int:
    return chunks.get(name, 1) if isinstance(chunks, Mapping) else chunks


def _work(name: str, shards: Sequence[Any], causal: bool, chunks: int = 1) -> Work:
    lists = [[int(n) for n in (one.tolist() if hasattr(one, "tolist") else one)] for one in shards]
    owners = {position: rank for rank, mine in enumerate(lists) for position in mine}
    length = sum(map(len, lists))
    if not length or sorted(owners) != list(range(length)):
        raise ValueError(
            f"the positions{' of ' + name if name else ''} are not 0 to {length - 1}, each once: "
            "give by rank the positions that it holds, [[0, 1], [2, 3]]"
        )
    if not 1 <= chunks <= length:
        raise ValueError(f"chunks={chunks} of {length} positions: give 1 to {length}")
    pairs = tuple(sum(position + 1 if causal else length for position in mine) for mine in lists)
    cuts = tuple(k * (length // chunks) + min(k, length % chunks) for k in range(1, chunks))
    return Work(name, tuple(owners[position] for position in range(length)), pairs, causal, cuts)


def _draw_panel(board: Board, work: Work, corner: tuple[float, float], lang: str) -> None:
    x, y = corner[0] + _LEFT + _EDGE, corner[1] + _ABOVE
    one = _SIDE / len(work.owners)
    board.text(x - _EDGE, corner[1] + 0.14, work.name, style.TEXT, ha="left", fontweight="bold")
    board.text(x + _SIDE / 2, corner[1] + 0.36, labels.say("key_position", lang), style.SMALL)
    board.text(corner[0] + 0.14, y + _SIDE / 2, labels.say("query_position", lang), style.SMALL, rotation=90)
    board.cell(x, y, _SIDE, _SIDE, facecolor=style.EMPTY, edgecolor=style.LINE)
    for rank, first, last in work.runs():
        board.fill(x + first * one, y - _EDGE - 0.02, (last - first) * one, _EDGE, rank, lw=0.3 * board.scale)
        board.fill(x - _EDGE - 0.02, y + first * one, _EDGE, (last - first) * one, rank, lw=0.3 * board.scale)
        _draw_visible(board, work, (rank, first, last), (x, y))
    for at in (cut * one for cut in work.cuts):
        for ends in (((x + at, x + at), (y, y + _SIDE)), ((x, x + _SIDE), (y + at, y + at))):
            board.ax.plot(*ends, color=style.INK, lw=0.5 * board.scale, zorder=3)
    _draw_bars(board, work, (corner[0] + 0.1, y + _SIDE + 0.16), lang)


def _draw_visible(board: Board, work: Work, run: tuple[int, int, int], corner: tuple[float, float]) -> None:
    """The visible pairs of neighbouring queries: a staircase, its steps drawn while they can be seen."""
    (rank, first, last), (x, y) = run, corner
    one, length = _SIDE / len(work.owners), len(work.owners)
    steps = range(first, last) if length <= 128 else (first, last - 1)
    points = [(0.0, first * one)]
    for query in steps:
        seen = (query + 1 if work.causal else length) * one
        points += [(seen, query * one), (seen, (query + 1) * one)]
    points.append((0.0, last * one))
    shape = Polygon(
        [(x + a, y + b) for a, b in points],
        closed=True,
        facecolor=style.colour(rank),
        edgecolor=style.INK,
        hatch=style.hatch(rank),
        lw=0.5 * board.scale,
    )
    board.ax.add_patch(shape)
    if (last - first) * one >= 0.13:
        room, tall = (first + 1 if work.causal else length) * one, (last - first) * one
        middle = (x + max(0.3 * tall, room / 2), y + first * one + (0.68 if work.causal else 0.5) * tall)
        board.on_fill(*middle, str(rank), min(style.TEXT, (last - first) * one * 46), rank)


def _draw_bars(board: Board, work: Work, corner: tuple[float, float], lang: str) -> None:
    """By rank a bar as long as its visible pairs, with their number; below it the balance."""
    x, y = corner
    board.text(x, y, labels.say("visible_pairs", lang), style.SMALL, ha="left")
    room = _LEFT + _EDGE + _SIDE - 0.25 - 0.55
    for rank, pairs in enumerate(work.pairs):
        top = y + 0.13 + rank * _BAR
        board.chip(rank, x + 0.1, top + _BAR / 2, _BAR - 0.03)
        long = room * pairs / max(work.pairs)
        board.fill(x + 0.26, top + 0.03, long, _BAR - 0.06, rank)
        board.text(x + 0.31 + long, top + _BAR / 2, str(pairs), style.TINY, ha="left")
    said = labels.say("balance", lang, ratio=f"{work.balance:.2f}")
    below = y + 0.13 + len(work.pairs) * _BAR + 0.13
    board.text(x, below, said, style.SMALL, ha="left", fontweight="bold")


def _alt(works: Sequence[Work], title: str, line: str) -> str:
    said = [title or "Which rank computes which visible pairs of query and key"]
    for work in works:
        name = f"{work.name}: " if work.name else ""
        counts = ", ".join(f"rank {rank} computes {pairs}" for rank, pairs in enumerate(work.pairs))
        counts += f", of {len(work.cuts) + 1} chunks" if work.cuts else ""
        said.append(f"{name}{counts} pairs; the largest over the mean is {work.balance:.2f}")
    return ". ".join([*said, line] if line else said) + "."
