"""A program on another machine, as a model has it: computing, waiting, and bytes under way, a row a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.picture import canvas, describe
from mindlab.draw.rows import set_grid, set_rows, unit_for
from mindlab.planning.timeline import Span, Timeline
from mindlab.predict import units

_SAY = {
    "compute": ("computing", "计算"),
    "wait": ("waiting", "等待"),
    "send": ("sending", "发送中"),
    "recv": ("receiving", "接收中"),
    "collective": ("collective", "集合通信"),
    "time": ("time in {unit} (modelled)", "时间({unit},模型推算)"),
    "longest": ("the {shown} longest of {total} pieces", "仅显示 {total} 段中最长的 {shown} 段"),
    "chosen": ("only ranks {shown}, of {total}", "仅显示 rank {shown},共 {total} 个"),
    "foot": ("{line} · nothing timed", "模型推算,并非计时 · {line}"),
}
# Where a kind of span stands in the row of its rank: top and height, from -0.42 to 0.42.
_PLACES = {
    "compute": (-0.42, 0.46),
    "wait": (-0.42, 0.46),
    "send": (0.08, 0.16),
    "recv": (0.26, 0.16),
    "collective": (0.08, 0.34),
}
_HATCHES = {"compute": "", "wait": "xx", "send": "", "recv": "....", "collective": ""}
_WHITE = 0.55
"""How much of a rank's colour is in the bar of its modelled work: a timed bar has all of it."""


def replayed(
    timeline: Timeline,
    ax: Axes | None = None,
    *,
    title: str = "",
    limit: int = 2000,
    ranks: Sequence[int] | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes of a Timeline: above, what the rank does; below, its bytes that are under way meanwhile.

    Everything is outlined by dashes, for nothing was timed. Work has a pale tint of the rank's colour,
    waiting is crossed out, a message is empty and has the colour of the rank that it comes from as its edge.
    With `ranks` only their rows are drawn, and the figure says so. Raises ValueError for a Timeline without
    rows (moves that were never run), and for ranks that it does not have.
    """
    if not timeline.rows:
        raise ValueError(
            "this Timeline has no rows: the ranks did nothing, or moves were simulated and not a run replayed"
        )
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    places = {rank: place for place, rank in enumerate(chosen(ranks, timeline.ranks))}
    count = len(places)
    if ax is None:
        ax = canvas(style.FULL_WIDTH, 1.5 + max(2, count) * (0.62 if count <= 8 else 0.46), cjk)
    own = [row for row in timeline.rows if row.rank in places]
    rows = sorted(own, key=lambda row: row.start - row.end)[:limit]
    scale, unit = unit_for(float(timeline.seconds))
    with style.look(cjk):
        for place in places.values():
            ax.axhspan(place - 0.47, place + 0.47, color=style.EMPTY, zorder=0, lw=0)
        for row in rows:
            _draw_span(ax, row, places[row.rank], scale, float(timeline.seconds))
        _set_axes(ax, float(timeline.seconds) * scale, unit, list(places), lang)
        foot = _foot(timeline, list(places), (len(rows), len(own)), lang)
        _draw_around(ax, rows, title, foot, lang)
    describe(ax, _alt(timeline, title, list(places), foot))
    return ax


def chosen(ranks: Sequence[int] | None, count: int) -> list[int]:
    """The ranks whose rows are drawn, in their order; raises ValueError for one that is not there."""
    wanted = list(range(count)) if ranks is None else list(ranks)
    wrong = [rank for rank in wanted if isinstance(rank, bool) or rank not in range(count)]
    if wrong or not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"ranks={wanted!r}: name some of the ranks 0 to {count - 1}, each once")
    return wanted


def _foot(timeline: Timeline, ranks: Sequence[int], drawn: tuple[int, int], lang: str) -> list[str]:
    """What is left out, and where the numbers are from; `drawn`: pieces drawn, of so many."""
    foot = [_say("foot", lang, line=timeline.provenance)]
    if drawn[0] < drawn[1]:
        foot.insert(0, _say("longest", lang, shown=drawn[0], total=drawn[1]))
    if len(ranks) < timeline.ranks:
        foot.insert(0, _say("chosen", lang, shown=", ".join(map(str, ranks)), total=timeline.ranks))
    return foot


def _draw_span(ax: Axes, row: Span, place: int, scale: float, whole: float) -> None:
    top, height = _PLACES[row.kind]
    share = (row.end - row.start) / whole
    owner = row.peer if row.kind == "recv" and row.peer is not None else row.rank
    under_way = row.kind in ("send", "recv", "collective")
    patch = Rectangle(
        (row.start * scale, place + top),
        (row.end - row.start) * scale,
        height,
        facecolor=style.tinted(style.colour(row.rank), _WHITE) if row.kind == "compute" else style.PAPER,
        edgecolor=style.colour(owner) if under_way else style.INK if row.kind == "compute" else style.LINE,
        linestyle=(0, (4, 2)),
        hatch=(_HATCHES[row.kind] + (style.hatch(row.rank) if row.kind == "compute" else "")) or None,
        lw=(1.4 if under_way else 0.8) if share > 0.004 else 0.3,
        zorder=2,
    )
    ax.add_patch(patch)
    if row.kind in ("compute", "collective") and share > 0.012 * (len(row.what) + 1):
        middle = (row.start + row.end) / 2 * scale, place + top + height / 2
        ground = style.PAPER if row.kind == "collective" else style.tinted(style.colour(row.rank), _WHITE)
        box = {"boxstyle": "round,pad=0.15", "facecolor": ground, "edgecolor": "none"}
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.TINY, "color": style.INK}
        ax.text(*middle, row.what, zorder=3, bbox=box, **look)


def _set_axes(ax: Axes, last: float, unit: str, ranks: Sequence[int], lang: str) -> None:
    ax.set_xlim(-0.01 * last, 1.02 * last)
    set_rows(ax, ranks, labels.say("rank", lang), _say("time", lang, unit=unit))
    set_grid(ax)


def _draw_around(ax: Axes, rows: Sequence[Span], title: str, foot: Sequence[str], lang: str) -> None:
    """The title, the legend of the kinds that are there, and the lines of provenance."""
    if title:
        ax.set_title(title, loc="left", fontweight=style.bold(lang == "zh"))
    dashes: dict[str, Any] = {"edgecolor": style.INK, "linestyle": (0, (3, 1.5)), "lw": 0.9}
    handles = [
        Patch(
            facecolor=style.GRID if kind == "compute" else style.PAPER,
            hatch=_HATCHES[kind] or None,
            label=_say(kind, lang),
            **dashes,
        )
        for kind in _PLACES
        if any(row.kind == kind for row in rows)
    ]
    where: dict[str, Any] = {"loc": "upper right", "bbox_to_anchor": (1.0, -0.02), "ncols": len(handles)}
    where |= {"borderaxespad": 1.6, "columnspacing": 1.2, "handletextpad": 0.5}
    ax.legend(handles=handles, **where, frameon=False, fontsize=style.SMALL)
    text = "\n".join(line for one in foot for line in wrap(one, style.FULL_WIDTH - 1.4))
    drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    ax.annotate(text, (0, 0), (-30, -42), **drop, fontsize=style.SMALL, color=style.FADED)


def _say(key: str, lang: str, **values: object) -> str:
    return _SAY[key][lang == "zh"].format(**values)


def _alt(timeline: Timeline, title: str, ranks: Sequence[int], foot: Sequence[str]) -> str:
    parts = [title or f"Timeline of {timeline.ranks} ranks on {timeline.topology.name}, by a model"]
    parts.append(f"whole time {units.duration(float(timeline.seconds))}")
    for rank in ranks:
        computing, waiting = (float(values[rank]) for values in (timeline.computing, timeline.exposed))
        parts.append(f"rank {rank}: computing {units.duration(computing)}, waiting {units.duration(waiting)}")
    return ". ".join([*parts, *foot]) + "."
