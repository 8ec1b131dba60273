"""Modelled times of several algorithms against message size, and which of them is quickest where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.loglog import as_points
from mindlab.draw.picture import canvas, describe
from mindlab.predict import units

_DASHES = ((0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (2, 4)), (0, (10, 3)))
_MARKS = ("o", "s", "^", "D", "v")
_GREYS = (style.INK, style.FADED, style.LINE)
_STRIP = 0.09
"""Height of the strip that names the quickest, as a share of the axes."""


def curves(
    rows: Mapping[str, Iterable[Any]],
    ax: Axes | None = None,
    *,
    title: str = "",
    across: str = "",
    provenance: str = "",
    language: str | None = None,
) -> Axes:
    """The log-log Axes of modelled seconds against bytes: one dashed line an algorithm, the quickest named.

    `rows` maps a name to rows of (bytes, seconds), the same sizes for all. No colours: colour means rank.
    `across` says which bytes, if not those of a message.
    `provenance` says which numbers the model was given. Raises ValueError without a point, for other sizes
    under one name than under another, and for more than five names.
    """
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    lines = _lines(rows)
    sizes = next(iter(lines.values()))[0]
    best = [min(lines, key=lambda name: lines[name][1][i]) for i in range(len(sizes))]
    if ax is None:
        ax = canvas(6.6, 4.3, cjk)
    with style.look(cjk):
        _set_axes(ax, sizes, [t for _, times in lines.values() for t in times], lang)
        if across:
            ax.set_xlabel(across)
        for i, (name, (_, times)) in enumerate(lines.items()):
            look: dict[str, Any] = {"ls": _DASHES[i], "marker": _MARKS[i], "color": _GREYS[i % len(_GREYS)]}
            ax.plot(sizes, times, label=name, lw=1.6, ms=5, mfc=style.PAPER, **look)
        _draw_strip(ax, sizes, best, lang)
        if title:
            ax.set_title(title, loc="left", fontweight=style.bold(cjk), pad=8)
        ax.legend(frameon=False, fontsize=style.SMALL, loc="upper left", handlelength=4)
        foot = " · ".join(part for part in (labels.say("modelled", lang), provenance) if part)
        drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        said = "\n".join(wrap(foot, 5.6))
        ax.annotate(said, (0, 0), (-36, -40), **drop, fontsize=style.SMALL, color=style.FADED)
    describe(ax, _alt(lines, sizes, best, (title, foot)))
    return ax


def _lines(rows: Mapping[str, Iterable[Any]]) -> dict[str, tuple[list[float], list[float]]]:
    """By name: sizes and times."""
    if not 1 <= len(rows) <= len(_DASHES):
        raise ValueError(f"{len(rows)} lines to draw: give 1 to {len(_DASHES)}, as name -> rows")
    points = {name: as_points(given) for name, given in rows.items()}
    lines = {name: ([p.nbytes for p in found], [p.middle for p in found]) for name, found in points.items()}
    first, *others = lines
    for name in others:
        if lines[name][0] != lines[first][0]:
            raise ValueError(f"{name!r} has other sizes than {first!r}: give each the same sizes")
    return lines


def _set_axes(ax: Axes, sizes: Sequence[float], times: Sequence[float], lang: str) -> None:
    low, high = min(times), max(times)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlim(sizes[0] / 1.6, max(sizes[-1], sizes[0] * 2) * 1.6)
    above = min(6.0, max(1.6, (high / low) ** 0.4))  # for the legend: lines rise to the right
    ax.set_ylim(low / (high / low * 4) ** 0.2 / 1.2, high * above)
    step = max(1, math.ceil(len(sizes) / 7))
    ax.set_xticks(sizes[::step], [units.size(n) for n in sizes[::step]])
    ax.minorticks_off()
    bottom, top = ax.get_ylim()
    decades = range(math.floor(math.log10(bottom)), math.ceil(math.log10(top)) + 1)
    marks = [m * 10.0**k for k in decades for m in ((1, 3) if len(decades) < 5 else (1,))]
    inside = [t for t in marks if bottom * (top / bottom) ** _STRIP <= t <= top]
    ax.set_yticks(inside, [units.duration(t) for t in inside])
    ax.grid(color=style.GRID, lw=0.6)
    ax.set_xlabel(labels.say("message_size", lang))
    ax.set_ylabel(labels.say("seconds", lang))


def _stretches(sizes: Sequence[float], best: Sequence[str]) -> list[tuple[str, float, float]]:
    """(name, from, to) for each run of sizes at which the same algorithm is quickest."""
    found = []
    for name, group in groupby(range(len(sizes)), key=lambda i: best[i]):
        where = list(group)
        found.append((name, sizes[where[0]], sizes[where[-1]]))
    return found


def _draw_strip(ax: Axes, sizes: Sequence[float], best: Sequence[str], lang: str) -> None:
    """Along the foot: who is quickest from where to where; borders lie midway between two sizes."""
    left, right = ax.get_xlim()
    stretches = _stretches(sizes, best)
    ends = [math.sqrt(one[2] * other[1]) for one, other in pairwise(stretches)]
    for (name, _, _), start, end in zip(stretches, [left, *ends], [*ends, right], strict=True):
        place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "zorder": 3}
        look: dict[str, Any] = {"facecolor": style.EMPTY, "edgecolor": style.INK, "lw": 0.7}
        ax.add_patch(Rectangle((start, 0), end - start, _STRIP, **place, **look))
        share = math.log(end / start) / math.log(right / left)
        full = labels.say("quickest", lang, name=name)
        said = next((text for text in (full, name) if 0.017 * len(text) < share), "")
        middle = (math.sqrt(start * end), _STRIP / 2)
        ax.text(*middle, said, ha="center", va="center", fontsize=style.SMALL, **place)


def _alt(
    lines: Mapping[str, tuple[list[float], list[float]]],
    sizes: Sequence[float],
    best: Sequence[str],
    words: tuple[str, str],
) -> str:
    title, foot = words
    parts = [title or "Modelled time against message size, both axes logarithmic"]
    for name, (_, times) in lines.items():
        ends = (f"{units.duration(times[i])} at {units.size(sizes[i])}" for i in (0, -1))
        parts.append(f"{name}: {', '.join(ends)}")
    parts += [
        f"quickest from {units.size(start)} to {units.size(end)}: {name}"
        for name, start, end in _stretches(sizes, best)
    ]
    return ". ".join([*parts, foot]) + "."
