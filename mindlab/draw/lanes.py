"""When each rank was in which call: a row a rank, a bar a call, an arrow a message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.modelled import replayed
from mindlab.draw.picture import canvas, describe
from mindlab.draw.rounds import matched
from mindlab.draw.rows import set_grid, set_rows
from mindlab.planning.timeline import Timeline
from mindlab.predict import units
from mindlab.trace.events import Event
from mindlab.trace.run import Run

_MS = 1e3
_HATCHES = {"send": "", "receive": "....", "collective": "xxx"}
_MOST_ARROWS = 60


@dataclass(frozen=True)
class Bar:
    """Where an event stands: its lane among the `lanes` of its rank, from `start` to `end` in seconds."""

    event: Event
    start: float
    end: float
    lane: int
    lanes: int

    @property
    def top(self) -> float:
        """The y of its upper edge; a rank's row is 0.8 high around its number."""
        return self.event.rank - 0.4 + 0.8 * self.lane / self.lanes

    @property
    def height(self) -> float:
        return 0.8 / self.lanes

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def timeline(
    run: Run | Timeline,
    ax: Axes | None = None,
    *,
    title: str = "",
    limit: int = 400,
    ranks: Sequence[int] | None = None,
    language: str | None = None,
) -> Axes:
    """The Axes with one row a rank and one bar a call, in ms since the experiment began.

    A send and a collective have their rank's colour, a receive that of the rank that it came from. Calls that
    went on at the same time are stacked. Only the `limit` longest are drawn, and the figure says so. Messages
    get arrows where there are at most 60. Times that a model made are drawn as empty, dashed bars; what
    `ml.replay` gives is drawn as in `modelled`: computing, waiting, and bytes under way. Of that, `ranks`
    chooses the rows, such as [0, 4], and the figure says so. Raises ValueError for ranks that are not there,
    and for `ranks` with a Run, whose arrows join all rows.
    """
    if isinstance(run, Timeline):
        return replayed(run, ax, title=title, limit=limit, ranks=ranks, language=language)
    if ranks is not None:
        raise ValueError(f"ranks={list(ranks)!r}: chosen of what ml.replay gives; leave it out for a Run")
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    if ax is None:
        ax = canvas(style.FULL_WIDTH, 1.5 + max(2, run.ranks) * (0.55 if run.ranks <= 8 else 0.4), cjk)
    bars = stack(longest(run.events, limit))
    modelled = run.seconds.provenance == "modelled"
    with style.look(cjk):
        _draw_rows(ax, run.ranks)
        _draw_bars(ax, list(bars.values()), modelled)
        pairs = [(s, r) for s, r in matched(run.events) if r and id(s) in bars and id(r) in bars]
        if len(pairs) <= _MOST_ARROWS:
            for send, receive in pairs:
                _draw_message(ax, bars[id(send)], bars[id(receive)])
        _set_axes(ax, bars, run.ranks, lang)
        levels = _draw_labels(ax, list(bars.values()))
        _draw_around(ax, run, bars, (title, levels, lang))
    describe(ax, _alt(run, title, len(bars)))
    return ax


def longest(events: Sequence[Event], limit: int) -> list[Event]:
    """The `limit` longest events, in their order; an event without an end counts as longest."""
    if len(events) <= limit:
        return list(events)
    span = {id(e): float("inf") if e.end is None else e.end - e.start for e in events}
    kept = {id(e) for e in sorted(events, key=lambda e: -span[id(e)])[:limit]}
    return [event for event in events if id(event) in kept]


def stack(events: Sequence[Event]) -> dict[int, Bar]:
    """By id of the event, its bar: calls of one rank that overlap in time get lanes of their own."""
    last = max((e.start if e.end is None else e.end for e in events), default=0.0)
    first = min((e.start for e in events), default=0.0)
    stub = 0.03 * (last - first or 1e-3)
    by_rank: dict[int, list[tuple[Event, float, int]]] = defaultdict(list)
    free: dict[int, list[float]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.start, e.index)):
        end = event.start + stub if event.end is None else event.end
        ends = free[event.rank]
        lane = next((i for i, until in enumerate(ends) if until <= event.start), len(ends))
        ends[lane : lane + 1] = [end]
        by_rank[event.rank].append((event, end, lane))
    return {
        id(event): Bar(event, event.start, end, lane, len(free[rank]))
        for rank, placed in by_rank.items()
        for event, end, lane in placed
    }


def family(event: Event) -> str:
    """ "send", "receive" or "collective"."""
    return {"send": "send", "isend": "send", "recv": "receive", "irecv": "receive"}.get(
        event.op, "collective"
    )


def _draw_rows(ax: Axes, ranks: int) -> None:
    for rank in range(ranks):
        ax.axhspan(rank - 0.46, rank + 0.46, color=style.EMPTY, zorder=0, lw=0)


def _draw_bars(ax: Axes, bars: Sequence[Bar], modelled: bool) -> None:
    """Short bars are drawn without hatch (it would blacken them), wide ones with the name of the call."""
    span = max((b.end for b in bars), default=0.0) - min((b.start for b in bars), default=0.0)
    for bar in bars:
        share = (bar.end - bar.start) / (span or 1.0)
        event = bar.event
        came_from = family(event) == "receive" and event.peer is not None
        owner = event.peer if came_from and event.peer is not None else event.rank
        fill = style.PAPER if modelled else style.colour(owner)
        patch = Rectangle(
            (bar.start * _MS, bar.top),
            (bar.end - bar.start) * _MS,
            bar.height,
            facecolor=fill,
            edgecolor=style.INK,
            linestyle="--" if modelled or event.end is None else "-",
            hatch=style.hatch(owner) + _HATCHES[family(event)] if share > 0.012 else "",
            lw=0.7 if share > 0.004 else 0.3,
            zorder=2,
        )
        ax.add_patch(patch)
        if share > 0.011 * (len(event.op) + 2) and bar.lanes <= 2 and family(event) == "collective":
            _draw_name(ax, bar, fill)


def _draw_name(ax: Axes, bar: Bar, fill: str) -> None:
    ground = {"boxstyle": "round,pad=0.2", "facecolor": fill, "edgecolor": "none"}
    look: dict[str, Any] = {
        "ha": "center",
        "va": "center",
        "fontsize": style.SMALL,
        "color": style.ink_on(fill),
        "bbox": ground,
    }
    ax.text((bar.start + bar.end) / 2 * _MS, bar.middle, bar.event.op, zorder=3, **look)


def _draw_message(ax: Axes, send: Bar, receive: Bar) -> None:
    ax.annotate(
        "",
        xy=(receive.end * _MS, receive.middle),
        xytext=(send.start * _MS, send.middle),
        arrowprops={"arrowstyle": "-|>", "color": style.INK, "lw": 0.8, "shrinkA": 0, "shrinkB": 0},
        zorder=4,
    )


def _set_axes(ax: Axes, bars: dict[int, Bar], ranks: int, lang: str) -> None:
    first = min((bar.start for bar in bars.values()), default=0.0) * _MS
    last = max((bar.end for bar in bars.values()), default=1e-3) * _MS
    room = 0.02 * (last - first or 1.0)
    ax.set_xlim(first - room, last + room)
    set_rows(ax, range(ranks), labels.say("rank", lang), labels.say("time_ms", lang))
    set_grid(ax)


def _draw_labels(ax: Axes, bars: Sequence[Bar]) -> int:
    """Draw a dotted line and a name where each step begins; returns how many lines of names were needed."""
    begins: dict[str, float] = {}
    for bar in sorted(bars, key=lambda b: b.start):
        if bar.event.label:
            begins.setdefault(bar.event.label, bar.start * _MS)
    left, right = ax.get_xlim()
    per_char = (right - left) / (style.FULL_WIDTH - 1.4) * 0.068 * style.SMALL / 8
    taken: list[float] = []
    for label, at in begins.items():
        level = next((i for i, until in enumerate(taken) if until < at), len(taken))
        ax.axvline(at, color=style.FADED, lw=0.9, linestyle=":", zorder=1)
        if level > 3:
            continue
        taken[level : level + 1] = [at + per_char * (len(label) + 1)]
        place: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate(label, (at, 1), (0, 3 + 11 * level), **place, fontsize=style.SMALL, color=style.FADED)
    return len(taken)


def _draw_around(ax: Axes, run: Run, bars: dict[int, Bar], words: tuple[str, int, str]) -> None:
    """The title, the legend of the three kinds of call, and the line of provenance."""
    title, levels, lang = words
    if title:
        weight = style.bold(lang == "zh")
        ax.set_title(title, loc="left", fontweight=weight, pad=8 + 11 * levels)
    kinds = [kind for kind in _HATCHES if any(family(bar.event) == kind for bar in bars.values())]
    look: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": style.INK, "lw": 0.7}
    handles = [Patch(hatch=_HATCHES[kind], label=labels.say(kind, lang), **look) for kind in kinds]
    if any(bar.event.end is None for bar in bars.values()):
        handles.append(Patch(linestyle="--", label=labels.say("unfinished", lang), **look))
    foot = _foot(run, len(bars), lang)
    drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    text = "\n".join(line for one in foot for line in wrap(one, style.FULL_WIDTH - 2.4))
    ax.annotate(text, (0, 0), (-30, -40), **drop, fontsize=style.SMALL, color=style.FADED)
    if handles:
        where: dict[str, Any] = {"loc": "upper right", "bbox_to_anchor": (1.0, -0.02), "ncols": len(handles)}
        where |= {"frameon": False, "fontsize": style.SMALL, "borderaxespad": 1.6}
        ax.legend(handles=handles, **where)


def _foot(run: Run, shown: int, lang: str) -> list[str]:
    how = labels.say("modelled" if run.seconds.provenance == "modelled" else "timed", lang)
    thinned = [labels.say("longest", lang, shown=shown, total=len(run.events))]
    return [*(thinned if shown < len(run.events) else []), *run.notes, f"{how} · {run.provenance}"]


def _alt(run: Run, title: str, shown: int) -> str:
    last = max((e.end or e.start for e in run.events), default=0.0)
    parts = [title or f"Timeline of {run.ranks} ranks"]
    parts.append(f"{len(run.events)} calls in {units.duration(last)}, {shown} drawn")
    for rank in range(run.ranks):
        own = [e for e in run.events if e.rank == rank]
        busy = sum((e.end or e.start) - e.start for e in own)
        parts.append(f"rank {rank}: {len(own)} calls, {units.duration(busy)} inside them")
    return ". ".join([*parts, *_foot(run, shown, "en")]) + "."
