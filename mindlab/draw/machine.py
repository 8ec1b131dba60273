"""A topology: cards as circles, links as lines, and the rate of each kind of link."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.planning.topologies import Level, Topology
from mindlab.predict import units

_SAY = {
    "mesh": ("a link for each pair, {rate} in each direction", "每两张卡一条链路,每个方向 {rate}"),
    "switch": ("each card {rate} in each direction", "每张卡每个方向 {rate}"),
    "trunk": ("all cards of a {domain} together {rate} in each direction", "同一组的卡共享 {rate},每个方向"),
    "alpha": ("α = {alpha}", "α = {alpha}"),
    "assumed": ("assumed", "假设"),
    "unknown": ("unknown", "未知"),
    "drawn": ("{shown} of {total} cards shown", "共 {total} 张卡,仅显示 {shown} 张"),
    "foot": ("numbers as the topology gives them, nothing measured", "按拓扑给定的数值绘制,并非测量"),
}
_MOST, _DOMAINS = 8, 4
"""Cards drawn in one domain, and domains; of more the first."""
_BAR, _GAP = 0.62, 0.25
"""Inches for the bar of an outer level, and between two boxes."""
_STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)))


def topology(
    machine: Topology,
    ax: Axes | None = None,
    *,
    cards: Sequence[int] | None = None,
    title: str = "",
    language: str | None = None,
) -> Axes:
    """The Axes with the cards of a topology, in boxes of the innermost domain, and what joins them.

    `cards` names the card of each rank: only those are coloured, and carry the rank's number. Without it
    each card stands for the rank of its own number. At most 8 cards a domain and 4 domains are drawn.
    """
    lang = labels.choose(language)
    layout = _layout(machine)
    foot = [part for note in _notes(machine, layout, lang) for part in wrap(note, layout.width - 0.5)]
    top = (0.45 if title else 0.12) + _BAR * (len(machine.levels) - 1)
    board = Board(ax, layout.width, top + layout.tall + 0.15 + foot_height(foot), lang)
    if title:
        board.title(title)
    places: dict[int, tuple[float, float]] = {}
    for domain in range(layout.domains):
        box = ((layout.left(domain), top), (layout.box, layout.tall))
        places |= _draw_domain(board, machine.levels[0], box, domain, layout.shown)
    for number, level in enumerate(machine.levels[1:], start=1):
        _draw_outer(
            board, (level, number), places, top - _BAR * number + 0.1, machine.levels[number - 1].size
        )
    ranks = {card: card for card in places} if cards is None else {c: rank for rank, c in enumerate(cards)}
    for card, place in places.items():
        _draw_card(board, place, ranks.get(card))
    board.foot(foot)
    describe(board.ax, _alt(machine, title, cards))
    return board.ax


@dataclass(frozen=True)
class _Layout:
    """How many domains are drawn, how many cards of each, and the measures of their boxes in inches."""

    domains: int
    shown: int
    box: float
    tall: float
    width: float

    def left(self, domain: int) -> float:
        """The left edge of a domain's box."""
        used = self.domains * self.box + (self.domains - 1) * _GAP
        return (self.width - used) / 2 + domain * (self.box + _GAP)


def _layout(machine: Topology) -> _Layout:
    inner = machine.levels[0]
    domains, shown = min(_DOMAINS, machine.cards // inner.size), min(_MOST, inner.size)
    box, tall = (2.6, 2.6) if inner.shape == "mesh" else (0.55 * shown + 0.4, 1.5)
    width = max(domains * (box + _GAP) - _GAP + 2 * MARGIN, 5.2)
    return _Layout(domains, shown, box, tall, width)


def _notes(machine: Topology, layout: _Layout, lang: str) -> list[str]:
    lines = [_level_line(machine, number, lang) for number in range(len(machine.levels))]
    drawn = layout.domains * layout.shown
    if drawn < machine.cards:
        lines.append(_say("drawn", lang, shown=drawn, total=machine.cards))
    return [*lines, f"{machine.name} · {_say('foot', lang)}"]


Box = tuple[tuple[float, float], tuple[float, float]]


def _draw_domain(
    board: Board, level: Level, box: Box, domain: int, shown: int
) -> dict[int, tuple[float, float]]:
    """Draws the box and the innermost links; returns the places of its cards."""
    (x, y), (width, height) = box
    board.cell(x, y, width, height, facecolor=style.EMPTY, edgecolor=style.LINE)
    first = domain * level.size
    if level.shape == "mesh":
        middle, radius = (x + width / 2, y + height / 2), 0.4 * height
        angles = [math.tau * (k + 0.5) / shown - math.pi / 2 for k in range(shown)]
        places = [(middle[0] + radius * math.cos(a), middle[1] + radius * math.sin(a)) for a in angles]
        for one, other in itertools.combinations(places, 2):
            _draw_line(board, one, other, 0)
    else:
        step = (width - 0.4) / shown
        places = [(x + 0.2 + step * (k + 0.5), y + height - 0.4) for k in range(shown)]
        _draw_switch(board, (x + 0.2, y + 0.15), width - 0.4, level.name)
        for place in places:
            _draw_line(board, place, (place[0], y + 0.47), 0)
    return {first + k: place for k, place in enumerate(places)}


def _draw_outer(
    board: Board, level: tuple[Level, int], places: dict[int, tuple[float, float]], y: float, inner: int
) -> None:
    """The bar of an outer level, above the boxes, and a line to each card, or to each box for a trunk."""
    kind, number = level
    xs = [x for x, _ in places.values()]
    left, right = min(xs) - 0.3, max(xs) + 0.3
    _draw_switch(board, (left, y), right - left, kind.name)
    if kind.shape != "trunk":
        for x, below in places.values():
            _draw_line(board, (x, y + 0.32), (x, below), number)
        return
    for _, group in itertools.groupby(places.items(), key=lambda item: item[0] // inner):
        spots = [place for _, place in group]
        x = sum(place[0] for place in spots) / len(spots)
        _draw_line(board, (x, y + 0.32), (x, min(place[1] for place in spots) - 0.63), number)


def _draw_switch(board: Board, corner: tuple[float, float], width: float, name: str) -> None:
    board.cell(*corner, width, 0.32, facecolor=style.PAPER, edgecolor=style.INK, zorder=2)
    board.text(corner[0] + width / 2, corner[1] + 0.16, name, style.SMALL, zorder=3)


def _draw_line(board: Board, one: tuple[float, float], other: tuple[float, float], number: int) -> None:
    look: dict[str, Any] = {"color": style.LINE, "lw": 1.0 * board.scale}
    look["linestyle"] = _STYLES[number % len(_STYLES)]
    board.ax.plot([one[0], other[0]], [one[1], other[1]], zorder=1.5, **look)


def _draw_card(board: Board, place: tuple[float, float], rank: int | None) -> None:
    fill = style.PAPER if rank is None else style.colour(rank)
    look: dict[str, Any] = {"edgecolor": style.LINE if rank is None else style.INK, "lw": 0.8 * board.scale}
    hatch = None if rank is None else style.hatch(rank) or None
    board.ax.add_patch(Circle(place, 0.19, facecolor=fill, hatch=hatch, zorder=4, **look))
    if rank is None:
        return
    ground = {"boxstyle": "round,pad=0.1", "facecolor": fill, "edgecolor": "none"} if hatch else None
    board.text(*place, str(rank), style.SMALL, color=style.ink_on(fill), zorder=5, bbox=ground)


def _level_line(machine: Topology, number: int, lang: str) -> str:
    level, within = machine.levels[number], machine.levels[max(0, number - 1)].domain
    rate = _fact(level.bandwidth, lang)
    parts = [_say(level.shape, lang, rate=rate, domain=within)]
    parts.append(_say("alpha", lang, alpha=_fact(level.alpha, lang)))
    return f"{level.name}: " + (",".join(parts) if lang == "zh" else ", ".join(parts))


def _fact(fact: Any, lang: str) -> str:
    if fact.value is None:
        return _say("unknown", lang)
    shown = units.pretty(fact.value, fact.unit)
    return f"{shown} ({_say('assumed', lang)})" if fact.assumed else shown


def _say(key: str, lang: str, **values: object) -> str:
    return _SAY[key][lang == "zh"].format(**values)


def _alt(machine: Topology, title: str, cards: Sequence[int] | None) -> str:
    parts = [title or machine.title, f"{machine.cards} cards"]
    for number, level in enumerate(machine.levels):
        parts.append(f"{level.size} cards a {level.domain}: {_level_line(machine, number, 'en')}")
    if cards is not None:
        parts.append("; ".join(f"rank {rank} on card {card}" for rank, card in enumerate(cards)))
    return ". ".join([*parts, _say("foot", "en")]) + "."
