"""The choices of a plan as points: seconds of one request against memory, or against what all get done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.picture import canvas, describe
from mindlab.planning.planner import Choice, Plan
from mindlab.predict import units

_SAY = {
    "latency": ("seconds of one request (modelled)", "单个请求的时间(模型推算)"),
    "memory": ("a card holds", "每卡占用显存"),
    "throughput": ("{unit} a second, all cards", "全部卡每秒 {unit}"),
    "front": ("nothing is better in both", "两方面都没有更好的选择"),
    "others": ("another choice is better in both", "另有两方面都更好的选择"),
    "full": ("a card's memory", "单卡显存"),
}
_NAMED = 6
"""Points of the front that are named at most, the others have their mark alone."""
_CLEAR = 0.22
"""How far apart they have to be, as a share of the axis: a name is so wide."""
_SIDES = ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
"""Where a name may stand, seen from its mark: right and above, first."""


@dataclass(frozen=True)
class _Axis:
    """What stands upwards: its value, whether more is better, and how a tick reads."""

    key: str
    value: Callable[[Choice], float]
    more: bool
    shown: Callable[[float], str]


def choices(
    plan: Plan,
    ax: Axes | None = None,
    *,
    against: str = "",
    title: str = "",
    language: str | None = None,
) -> Axes:
    """The Axes with a mark for each choice that the model covers; those that nothing beats are joined.

    Across: modelled seconds of one request. Upwards, `against`: "throughput", or "memory" that a card holds
    (the default where one request alone is asked for), with a line where the card is full. Marks are hollow:
    nothing was measured. Raises ValueError for a plan without a row, and for another `against`.
    """
    if not plan.rows:
        raise ValueError("the plan has no choice that the model covers: see plan.outside and plan.excluded")
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    up = _upwards(against or ("memory" if plan.work.requests == 1 else "throughput"))
    front = frontier(plan.rows, up.value, more=up.more)
    if ax is None:
        ax = canvas(7.2, 4.4, cjk)
    with style.look(cjk):
        _draw_points(ax, plan, front, up, lang)
        _set_axes(ax, plan, up, lang)
        _draw_names(ax, plan.rows, front, up)
        if title:
            ax.set_title(title, loc="left", fontweight=style.bold(cjk), pad=8)
        ax.legend(frameon=False, fontsize=style.SMALL, loc="best")
        foot = f"{labels.say('modelled', lang)} · {plan.provenance}"
        drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        said = "\n".join(wrap(foot, 6.2))
        ax.annotate(said, (0, 0), (-36, -38), **drop, fontsize=style.SMALL, color=style.FADED)
    describe(ax, _alt(plan, front, up, (title, foot)))
    return ax


def frontier(rows: Sequence[Choice], value: Callable[[Choice], float], *, more: bool) -> list[Choice]:
    """The choices that no other one beats in both latency and `value`, the quickest first."""
    sign = -1 if more else 1
    found: list[Choice] = []
    for row in sorted(rows, key=lambda one: (one.latency or 0.0, sign * value(one))):
        if not found or sign * value(row) < sign * value(found[-1]):
            found.append(row)
    return found


def _upwards(against: str) -> _Axis:
    if against == "memory":
        return _Axis("memory", lambda one: one.held, False, lambda v: units.decimal(v, "B"))
    if against == "throughput":
        return _Axis("throughput", lambda one: one.throughput or 0.0, True, lambda v: f"{v:g}")
    raise ValueError(f"against={against!r}: choose throughput or memory")


def _draw_points(ax: Axes, plan: Plan, front: Sequence[Choice], up: _Axis, lang: str) -> None:
    names = {choice.name for choice in front}
    others = [row for row in plan.rows if row.name not in names]
    look: dict[str, Any] = {"mfc": style.PAPER, "ls": "none"}
    if others:
        ax.plot(*_at(others, up), "o", mec=style.LINE, ms=5, label=_say("others", lang), zorder=2, **look)
    across, height = _at(front, up)
    ax.plot(across, height, color=style.INK, lw=1.1, ls=(0, (4, 3)), zorder=1)
    ax.plot(across, height, "s", mec=style.INK, ms=7, label=_say("front", lang), zorder=3, **look)
    memory = plan.topology.card.memory.value
    if up.key == "memory" and memory is not None:
        ax.axhline(memory, color=style.FADED, lw=1)
        place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        words: dict[str, Any] = {"ha": "right", "fontsize": style.SMALL, "color": style.FADED}
        ax.annotate(_say("full", lang), (1, memory), (-2, 3), **place, **words)


def _at(rows: Sequence[Choice], up: _Axis) -> tuple[list[float], list[float]]:
    return [row.latency or 0.0 for row in rows], [up.value(row) for row in rows]


def _set_axes(ax: Axes, plan: Plan, up: _Axis, lang: str) -> None:
    ax.margins(x=0.14, y=0.16)
    if up.key == "memory":
        ax.set_ylim(bottom=0)
    ax.grid(color=style.GRID, lw=0.6)
    ax.xaxis.set_major_formatter(lambda value, _: units.duration(value) if value > 0 else "0 s")
    ax.yaxis.set_major_formatter(lambda value, _: up.shown(value))
    ax.set_xlabel(_say("latency", lang))
    ax.set_ylabel(_say(up.key, lang, unit=plan.work.unit))


def _draw_names(ax: Axes, rows: Sequence[Choice], front: Sequence[Choice], up: _Axis) -> None:
    """Names beside their marks, each where it covers the fewest marks and names."""
    left, right = ax.get_xlim()
    marks = [ax.transData.transform(point) for point in zip(*_at(rows, up), strict=True)]
    taken: list[Bbox] = []
    for row in _apart(front, right - left):
        tried = [_named(ax, row, up, side) for side in _SIDES]
        boxes = [text.get_window_extent().padded(8) for text in tried]
        covered = [
            sum(box.contains(*mark) for mark in marks)
            + 2 * sum(map(box.overlaps, taken))
            + 3 * _outside(ax, box)
            for box in boxes
        ]
        best = covered.index(min(covered))
        taken.append(boxes[best])
        for number, text in enumerate(tried):
            if number != best:
                text.remove()


def _named(ax: Axes, row: Choice, up: _Axis, side: tuple[int, int]) -> Annotation:
    across, above = side
    return ax.annotate(
        row.name.replace(" → ", "\n→ "),
        (row.latency or 0.0, up.value(row)),
        (7 * across, 7 * above),
        textcoords="offset points",
        fontsize=style.SMALL,
        ha=("right", "center", "left")[across + 1],
        va=("top", "center", "bottom")[above + 1],
        bbox={"boxstyle": "round,pad=0.08", "facecolor": style.PAPER, "edgecolor": "none"},
        zorder=4,
    )


def _outside(ax: Axes, box: Bbox) -> bool:
    return not all(ax.bbox.contains(x, y) for x in (box.x0, box.x1) for y in (box.y0, box.y1))


def _apart(front: Sequence[Choice], whole: float) -> list[Choice]:
    """The choices that are named: the first, the last, and those between that stand clear of them."""
    named = list(front[:1])
    for row in front[1:-1]:
        clear = min(abs((row.latency or 0.0) - (one.latency or 0.0)) for one in (*named, front[-1]))
        if clear > whole * _CLEAR and len(named) < _NAMED - 1:
            named.append(row)
    return named + list(front[1:][-1:])


def _alt(plan: Plan, front: Sequence[Choice], up: _Axis, words: tuple[str, str]) -> str:
    title, foot = words
    parts = [title or f"{len(plan.rows)} layouts of {plan.model.name} on {plan.topology.title}"]
    for row in front:
        parts.append(
            f"{row.name}: {units.duration(row.latency or 0.0)}, {up.shown(float(f'{up.value(row):.4g}'))}"
        )
    return ". ".join([*parts, f"{len(plan.rows) - len(front)} others are worse in both", foot]) + "."


def _say(key: str, lang: str, **values: Any) -> str:
    return _SAY[key][lang == "zh"].format(**values)
