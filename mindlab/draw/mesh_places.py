"""Ranks on a mesh: who stands where, and who talks to whom on which axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.predict import units
from mindlab.predict.meshes import axis_groups, places

_CHIP, _ROW, _LINE = 0.34, 0.98, 0.2
"""Inches: the sign of a rank, the way from row to row, a line of words."""
_DIRECTIONS = ("across", "down", "panels")

Point = tuple[float, float]


@dataclass(frozen=True)
class _Plan:
    """The axes from the inside out (across, down, panel), and where their ranks stand, in inches."""

    axes: dict[str, int]
    held: Sequence[str]
    around: Sequence[str]
    top: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(columns, rows, panels)."""
        inward = [*reversed(self.axes.values()), 1, 1]
        return inward[0], inward[1], inward[2]

    @property
    def wide(self) -> float:
        """The width of a rank's box: its sign, and what it holds."""
        words = max((len(text) for text in self.held), default=0)
        return _CHIP + (0.12 + 0.075 * words if words else 0.0)

    @property
    def pitch(self) -> float:
        return self.wide + 0.62

    @property
    def panel(self) -> float:
        """The width of a panel, with room for the arcs at its left."""
        return 0.5 + self.sizes[0] * self.pitch

    @property
    def width(self) -> float:
        return max(4.6, 2 * MARGIN + self.sizes[2] * self.panel)

    @property
    def height(self) -> float:
        return self.top + self.sizes[1] * _ROW + 0.1

    def at(self, rank: int) -> Point:
        """The middle of a rank's box."""
        columns, rows, panels = self.sizes
        left = (self.width - panels * self.panel) / 2 + 0.5
        row, panel = rank // columns % rows, rank // (columns * rows)
        x = left + panel * self.panel + rank % columns * self.pitch + self.wide / 2
        return x, self.top + row * _ROW + 0.62


def mesh(
    axes: Mapping[str, int],
    ax: Axes | None = None,
    *,
    sent: Mapping[str, Any] | None = None,
    held: Sequence[str] | None = None,
    around: Sequence[str] = ("ring",),
    title: str = "",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with ranks on a mesh of one to three axes, and lines between those that talk.

    `axes` gives each axis's size by its name, the outermost first: the inner one runs across, the next one
    down, a third side by side. On the axes named in `around` a rank sends to the next one (arrows in the
    sender's colour), on the others each talks to each (grey). `sent` are an axis's bytes, a number or one a
    rank; `held` is what each rank holds, a few letters. Raises ValueError for more than three axes, another
    number of texts than ranks, and an axis in `sent` or `around` that is not there.
    """
    lang = labels.choose(language)
    _check(axes, sent or {}, held, around)
    line = labels.say("by_hand", lang) if provenance is None else provenance
    above = (0.45 if title else 0.1) + _LINE * len(axes)
    plan = _Plan(dict(axes), held or (), around, above)
    foot = wrap(line, plan.width - 2 * MARGIN)
    board = Board(ax, plan.width, plan.height + (foot_height(foot) if foot else 0.05), lang)
    if title:
        board.title(title)
    said = _words(plan, sent or {}, lang)
    for i, text in enumerate(said):
        y = above - _LINE * (len(said) - i) + 0.12
        board.text(MARGIN, y, text, style.SMALL, ha="left")
    _draw(board, plan)
    board.foot(foot)
    describe(board.ax, _alt(plan, said, title, line))
    return board.ax


def _check(
    axes: Mapping[str, int], sent: Mapping[str, Any], held: Sequence[str] | None, around: Sequence[str]
) -> None:
    count = len(places(axes))
    if not 1 <= len(axes) <= 3:
        raise ValueError(f"a mesh of {len(axes)} axes: give one to three")
    if held is not None and len(held) != count:
        raise ValueError(f"held has {len(held)} texts, the mesh has {count} ranks: give one a rank")
    for what, names in (("sent", list(sent)), ("around", [name for name in around if name != "ring"])):
        unknown = [name for name in names if name not in axes]
        if unknown:
            raise ValueError(f"{what} names {unknown[0]!r}, the mesh has the axes {', '.join(axes)}")


def _words(plan: _Plan, sent: Mapping[str, Any], lang: str) -> list[str]:
    """A line for each axis: its direction, its name, who talks, and how much."""
    found = []
    for direction, (name, size) in zip(_DIRECTIONS, reversed(plan.axes.items()), strict=False):
        how = "nobody" if size == 1 else "to_next" if name in plan.around else "each_with_each"
        words = f"{labels.say(direction, lang)}: {name} = {size}, {labels.say(how, lang)}"
        found.append(words + (f", {_amount(sent[name], lang)}" if name in sent else ""))
    return found


def _amount(nbytes: Any, lang: str) -> str:
    values = getattr(nbytes, "value", nbytes)
    listed = [float(n) for n in values] if hasattr(values, "__iter__") else [float(values)]
    least, most = units.size(min(listed)), units.size(max(listed))
    return labels.say("a_rank", lang, size=least if least == most else f"{least} – {most}")


def _draw(board: Board, plan: _Plan) -> None:
    for depth, (name, groups) in enumerate(reversed(axis_groups(plan.axes).items())):
        for group in groups:
            if name in plan.around:
                _draw_ring(board, plan, group, depth)
            else:
                _draw_each(board, plan, group, depth)
    for rank in range(len(places(plan.axes))):
        x, y = plan.at(rank)
        left = x - plan.wide / 2
        if plan.held:
            board.cell(left, y - _CHIP / 2, plan.wide, _CHIP, zorder=0.9)
            words = left + _CHIP + (plan.wide - _CHIP) / 2
            board.text(words, y, plan.held[rank], style.SMALL)
        board.chip(rank, left + _CHIP / 2, y, _CHIP)


def _draw_ring(board: Board, plan: _Plan, group: tuple[int, ...], depth: int) -> None:
    """An arrow from each rank to the next; the last one back to the first, in an arc."""
    for place, rank in enumerate(group if len(group) > 1 else ()):
        other = group[(place + 1) % len(group)]
        back = place == len(group) - 1
        bend = _bend(depth, len(group) - 1) if back else -_bend(depth, 1) if len(group) == 2 else 0.0
        arc = depth > 0 if len(group) == 2 else back  # two in a row: between their facing sides
        ends = _ends(plan, rank, other, depth, arc=arc)
        board.arrow(*ends, style.colour(rank), 2.6, bend=-bend if back else bend, head=6.5)


def _draw_each(board: Board, plan: _Plan, group: tuple[int, ...], depth: int) -> None:
    """A grey line with two heads between each two ranks, the longer ones in arcs."""
    for i, first in enumerate(group):
        for apart, second in enumerate(group[i + 1 :], 1):
            arc = apart > 1 or depth == 2
            bend = _bend(depth, apart) if arc else 0.0
            look: dict[str, Any] = {"shrinkA": 1, "shrinkB": 1, "zorder": 1.2}
            dashes: dict[str, Any] = {"linestyle": (0, (3, 2))} if depth == 2 else {}
            start, end = _ends(plan, first, second, depth, arc=arc)
            patch = FancyArrowPatch(
                start, end, arrowstyle=f"<|-|>,head_length={4 * board.scale},head_width={2 * board.scale}",
                connectionstyle=f"arc3,rad={bend}", color=style.LINE if depth == 2 else style.FADED,
                lw=1.1 * board.scale, **look, **dashes,
            )  # fmt: skip
            board.ax.add_patch(patch)


def _bend(depth: int, apart: int) -> float:
    """How far an arc leans out: upwards for a row, to the left for a column."""
    if depth == 0:
        return float(-0.3 / apart**0.5)
    return float(0.38 / apart**0.7) if depth == 1 else -0.16


def _ends(plan: _Plan, first: int, second: int, depth: int, *, arc: bool) -> tuple[Point, Point]:
    """Where a line begins and ends: at the boxes' facing sides, or where an arc leaves them."""
    (x, y), (u, v) = plan.at(first), plan.at(second)
    half, tall = plan.wide / 2 + 0.03, _CHIP / 2 + 0.03
    if depth == 1:
        way = 1 if v > y else -1
        left = plan.wide / 2 - _CHIP / 2
        aside = left + (0.1 if arc else 0.0)
        return (x - aside, y + way * tall), (u - aside, v - way * tall)
    way = 1 if u > x else -1
    if depth == 2 or arc:
        return (x + way * half / 3, y - tall), (u - way * half / 3, v - tall)
    return (x + way * half, y), (u - way * half, v)


def _alt(plan: _Plan, said: Sequence[str], title: str, line: str) -> str:
    parts = [title or f"{len(places(plan.axes))} ranks on a mesh", *said]
    for name, groups in axis_groups(plan.axes).items():
        listed = ", ".join("-".join(map(str, group)) for group in groups)
        parts.append(f"groups of {name}: {listed}")
    if plan.held:
        parts.append(", ".join(f"rank {rank} holds {text}" for rank, text in enumerate(plan.held)))
    return ". ".join([*parts, line] if line else parts) + "."
