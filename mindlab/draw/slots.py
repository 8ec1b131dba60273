"""Who worked on what, when: a row a rank, a box a micro-batch; where there is no box, the rank idled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.picture import canvas, describe
from mindlab.draw.rows import set_rows, unit_for
from mindlab.predict import units
from mindlab.trace.slots import Slot, idle_share, span

_SAY = {
    "time": ("time in {unit}", "时间({unit})"),
    "idle": ("idle", "空闲"),
    "number": ("number: the {what}", "数字:{what}"),
    "number_token": ("number:token of the {what}", "数字:{what}:Token"),
    "share": ("idle {share}", "空闲占比 {share}"),
    "microbatch": ("micro-batch", "微批"),
    "request": ("request", "请求"),
}
_TALL = 0.72
"""The height of a box; a rank's row is 1 high."""
_WHITE = 0.55
"""How much of a rank's colour is in a box that a model made: a timed one has all of it."""


def pipeline(
    slots: Sequence[Slot],
    ax: Axes | None = None,
    *,
    title: str = "",
    modelled: bool = False,
    unit: str | None = None,
    what: str = "microbatch",
    provenance: str | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with one row a rank and one box a Slot, from the first begin on; idle time is crossed out.

    In a box stands the number of its micro-batch, or with `what="request"` of its request; where slots have
    steps, the token behind it. `modelled=True` is for what `schedule` of `mindlab.planning.schedules` gives:
    pale boxes with dashed edges. `unit` names what the times are counted in, if not seconds. Raises
    ValueError without slots, and for another `what`.
    """
    if what not in ("microbatch", "request"):
        raise ValueError(f"what={what!r}: choose microbatch or request")
    whole = span(slots)
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    rows = _rows(slots)
    if ax is None:
        ax = canvas(style.FULL_WIDTH, 1.35 + max(2, len(rows)) * (0.42 if len(rows) <= 8 else 0.32), cjk)
    factor, name = (1.0, unit) if unit else unit_for(whole)
    with style.look(cjk):
        _draw_idle(ax, len(rows), whole * factor)
        begin = min(slot.start for slot in slots)
        for slot in slots:
            left = (slot.start - begin) * factor, rows.index((slot.stage, slot.rank))
            _draw_box(ax, slot, left, (slot.end - slot.start) * factor, (whole * factor, modelled))
        _set_axes(ax, rows, whole * factor, (labels.say("rank", lang), _say("time", lang, unit=name)))
        foot = _foot(slots, modelled, provenance, lang)
        _draw_around(ax, title, (_legend(slots, modelled, what, lang), foot), lang)
    describe(ax, _alt(slots, rows, (title, name, factor), _foot(slots, modelled, provenance, "en")))
    return ax


def _rows(slots: Sequence[Slot]) -> list[tuple[int, int]]:
    """(stage, rank) of each row, from above."""
    return sorted({(slot.stage, slot.rank) for slot in slots})


def _draw_idle(ax: Axes, rows: int, whole: float) -> None:
    """Each row as if it idled throughout; boxes come on top."""
    for row in range(rows):
        place = (0, row - _TALL / 2)
        look: dict[str, Any] = {"facecolor": style.EMPTY, "edgecolor": style.GRID, "hatch": "xxx", "lw": 0.5}
        ax.add_patch(Rectangle(place, whole, _TALL, zorder=1, **look))


def _draw_box(ax: Axes, slot: Slot, corner: tuple[float, int], wide: float, of: tuple[float, bool]) -> None:
    """A box, and its number where there is room."""
    whole, modelled = of
    fill = style.tinted(style.colour(slot.rank), _WHITE) if modelled else style.colour(slot.rank)
    patch = Rectangle(
        (corner[0], corner[1] - _TALL / 2), wide, _TALL,
        facecolor=fill, edgecolor=style.INK, hatch=style.hatch(slot.rank) or None,
        linestyle=(0, (4, 2)) if modelled else "-", lw=0.8 if wide > 0.004 * whole else 0.3, zorder=2,
    )  # fmt: skip
    ax.add_patch(patch)
    text = _number(slot)
    if wide > 0.0125 * len(text) * whole:
        ground = {"boxstyle": "round,pad=0.12", "facecolor": fill, "edgecolor": "none"}
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL, "zorder": 3}
        ink = style.INK if modelled else style.ink_on(fill)
        ax.text(corner[0] + wide / 2, corner[1], text, color=ink, bbox=ground, **look)


def _number(slot: Slot) -> str:
    return f"{slot.microbatch}:{slot.step}" if slot.step else str(slot.microbatch)


def _set_axes(ax: Axes, rows: Sequence[tuple[int, int]], whole: float, words: tuple[str, str]) -> None:
    word, name = words
    ax.set_xlim(-0.01 * whole, 1.02 * whole)
    set_rows(ax, [rank for _, rank in rows], word, name)


def _legend(slots: Sequence[Slot], modelled: bool, what: str, lang: str) -> list[Patch]:
    dashes: dict[str, Any] = {"linestyle": (0, (3, 1.5)) if modelled else "-", "lw": 0.8}
    key = "number_token" if any(slot.step for slot in slots) else "number"
    words = _say(key, lang, what=_say(what, lang))
    box = Patch(facecolor=style.PAPER, edgecolor=style.INK, label=words, **dashes)
    idle = Patch(facecolor=style.EMPTY, edgecolor=style.LINE, hatch="xxx", label=_say("idle", lang), lw=0.5)
    return [box, idle]


def _draw_around(ax: Axes, title: str, about: tuple[list[Patch], str], lang: str) -> None:
    """The title, the legend, and the line of provenance."""
    handles, foot = about
    if title:
        ax.set_title(title, loc="left", fontweight=style.bold(lang == "zh"))
    where: dict[str, Any] = {"loc": "upper right", "bbox_to_anchor": (1.0, -0.02), "ncols": len(handles)}
    where |= {"borderaxespad": 1.6, "columnspacing": 1.2, "handletextpad": 0.5}
    ax.legend(handles=handles, **where, frameon=False, fontsize=style.SMALL)
    drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    lines = "\n".join(wrap(foot, style.FULL_WIDTH - 1.4))
    ax.annotate(lines, (0, 0), (-30, -42), **drop, fontsize=style.SMALL, color=style.FADED)


def _foot(slots: Sequence[Slot], modelled: bool, provenance: str | None, lang: str) -> str:
    share = _say("share", lang, share=f"{100 * idle_share(slots):.1f} %")
    how = labels.say("modelled" if modelled else "timed", lang)
    return " · ".join([share, how, *([provenance] if provenance else [])])


def _say(key: str, lang: str, **values: object) -> str:
    return _SAY[key][lang == "zh"].format(**values)


def _alt(
    slots: Sequence[Slot], rows: Sequence[tuple[int, int]], named: tuple[str, str, float], foot: str
) -> str:
    title, unit, factor = named
    begin, whole = min(slot.start for slot in slots), span(slots)
    long = units.duration(whole) if factor != 1 or unit == "s" else f"{whole:g} {unit}"
    parts = [title or f"Boxes of {len(rows)} stages", f"whole time {long}"]
    for stage, rank in rows:
        own = sorted(
            (slot for slot in slots if (slot.stage, slot.rank) == (stage, rank)), key=lambda slot: slot.start
        )
        shown = ", ".join(f"{_number(slot)} at {(slot.start - begin) * factor:.3g}" for slot in own[:12])
        more = f", and {len(own) - 12} more" if len(own) > 12 else ""
        parts.append(f"rank {rank}: {shown}{more}")
    return ". ".join([*parts, foot]) + "."
