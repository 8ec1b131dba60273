"""Time against message size, with the line alpha + beta n."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import wrap
from mindlab.draw.picture import canvas, describe
from mindlab.predict import units


class Point(NamedTuple):
    """What was timed at one message size: bytes, and seconds (median, fastest, slowest)."""

    nbytes: float
    middle: float
    fastest: float
    slowest: float


class Line(NamedTuple):
    """t(n) = alpha + beta n: seconds, and seconds per byte. Source: Hockney 1994, section 2."""

    alpha: float
    beta: float

    @property
    def knee(self) -> float:
        """The size in bytes at which both terms are equal: alpha / beta."""
        return self.alpha / self.beta if self.beta > 0 else math.inf


def curve(
    points: Any,
    fit: Any = None,
    ax: Axes | None = None,
    *,
    title: str = "",
    provenance: str | None = None,
    modelled: bool = False,
    language: str | None = None,
) -> Axes:
    """The log-log Axes of seconds against bytes: medians, their spread, the fit and where it bends.

    `points` is a Calibration (`.points`, `.alpha`, `.beta`, `.machine`), or rows of (bytes, seconds,
    seconds…) or (bytes, [seconds…]). `fit` is (alpha in s, beta in s/byte), or has `.alpha` and `.beta`.
    Left of the knee n = alpha/beta the latency alpha dominates, right of it the bandwidth 1/beta.
    `modelled` draws the points hollow and says so. Raises ValueError without a point.
    """
    lang = labels.choose(language)
    cjk = labels.cjk_font() if lang == "zh" else ""
    measured = as_points(getattr(points, "points", points))
    line = as_line(points if fit is None and hasattr(points, "alpha") else fit)
    where = getattr(points, "machine", "") or getattr(points, "provenance", "")
    said = provenance if provenance is not None else str(where or "")
    if ax is None:
        ax = canvas(6.6, 4.3, cjk)
    with style.look(cjk):
        _set_axes(ax, measured, lang)
        _draw_points(ax, measured, modelled, lang)
        if line is not None:
            _draw_line(ax, line, measured, lang)
        if title:
            ax.set_title(title, loc="left", fontweight=style.bold(cjk), pad=22 if line else 8)
        ax.legend(frameon=False, fontsize=style.SMALL, loc="upper left", bbox_to_anchor=(0, 0.9))
        how = labels.say("modelled" if modelled else "timed", lang)
        foot = "\n".join(wrap(" · ".join(dict.fromkeys(part for part in (how, said) if part)), 5.6))
        drop: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        ax.annotate(foot, (0, 0), (-36, -40), **drop, fontsize=style.SMALL, color=style.FADED)
    describe(ax, _alt(measured, line, title, foot))
    return ax


def as_points(rows: Iterable[Any]) -> list[Point]:
    """The points by size: median, fastest and slowest of all the seconds given for one size."""
    by_size: dict[float, list[float]] = {}
    for row in rows:
        nbytes, *times = row
        for seconds in times:
            many = seconds if isinstance(seconds, Iterable) else [seconds]
            by_size.setdefault(float(nbytes), []).extend(float(s) for s in many)
    if not by_size:
        raise ValueError("no points to draw: give rows of (bytes, seconds, seconds…)")
    return [Point(n, median(times), min(times), max(times)) for n, times in sorted(by_size.items())]


def as_line(fit: Any) -> Line | None:
    """The Line of a fit: None, (alpha, beta), or an object with `.alpha` and `.beta`."""
    if fit is None:
        return None
    alpha, beta = (fit.alpha, fit.beta) if hasattr(fit, "alpha") else fit
    return Line(float(alpha), float(beta))


def _set_axes(ax: Axes, points: Sequence[Point], lang: str) -> None:
    first = max(1.0, points[0].nbytes)
    last = max(points[-1].nbytes, first * 2)
    low, high = min(p.fastest for p in points), max(p.slowest for p in points)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlim(first / 1.6, last * 1.6)
    ax.set_ylim(low / 2, high * 3)
    powers = range(math.ceil(math.log2(first)), math.floor(math.log2(last)) + 1)
    step = max(1, math.ceil(len(powers) / 8))
    shown = [2.0**k for k in powers if (k - powers[0]) % step == 0]
    ax.set_xticks(shown, [units.size(n) for n in shown])
    ax.minorticks_off()
    decades = range(math.floor(math.log10(low / 2)), math.ceil(math.log10(high * 3)) + 1)
    marks = [m * 10.0**k for k in decades for m in ((1, 2, 5) if len(decades) < 4 else (1,))]
    inside = [t for t in marks if low / 2 <= t <= high * 3]
    ax.set_yticks(inside, [units.duration(t) for t in inside])
    ax.grid(color=style.GRID, lw=0.6)
    ax.set_xlabel(labels.say("message_size", lang))
    ax.set_ylabel(labels.say("seconds", lang))


def _draw_points(ax: Axes, points: Sequence[Point], modelled: bool, lang: str) -> None:
    sizes = [p.nbytes for p in points]
    middles = [p.middle for p in points]
    if any(p.slowest > p.fastest for p in points):
        spread = [[p.middle - p.fastest for p in points], [p.slowest - p.middle for p in points]]
        look: dict[str, Any] = {"fmt": "none", "ecolor": style.FADED, "elinewidth": 1.0, "capsize": 3}
        ax.errorbar(sizes, middles, yerr=spread, label=labels.say("spread", lang), **look)
    fill = style.PAPER if modelled else style.INK
    ax.plot(sizes, middles, "o", mfc=fill, mec=style.INK, ms=6, label=labels.say("median", lang), zorder=3)


def _draw_line(ax: Axes, line: Line, points: Sequence[Point], lang: str) -> None:
    """The fit, its two asymptotes, and the knee with what dominates on each side."""
    left, right = ax.get_xlim()
    sizes = [left * (right / left) ** (i / 100) for i in range(101)]
    name = labels.say("fit", lang, alpha=units.duration(line.alpha), rate=_rate(line.beta))
    ax.plot(sizes, [line.alpha + line.beta * n for n in sizes], color=style.INK, lw=1.8, label=name, zorder=2)
    ax.plot(sizes, [line.alpha] * 101, color=style.LINE, lw=1, ls="--")
    ax.plot(sizes, [line.beta * n for n in sizes], color=style.LINE, lw=1, ls="-.")
    top: dict[str, Any] = {
        "xycoords": ax.get_xaxis_transform(),
        "textcoords": "offset points",
        "fontsize": style.SMALL,
    }
    if not left < line.knee < right:
        side = "bandwidth" if line.knee <= left else "latency"
        said = labels.say(side, lang).replace("\n", " ")
        ax.annotate(said, (math.sqrt(left * right), 1), (0, 4), **top, ha="center")
        return
    ax.axvline(line.knee, color=style.FADED, lw=1.2, ls=":")
    said = labels.say("knee", lang, size=units.size(line.knee))
    ax.annotate(said, (line.knee, 1), (0, 4), **top, ha="center")
    for side, end in (("latency", left), ("bandwidth", right)):
        middle = math.sqrt(end * line.knee)
        share = abs(math.log(end / line.knee)) / math.log(right / left)
        if share > 0.18:
            ax.annotate(labels.say(side, lang), (middle, 1), (0, -14), **top, ha="center", va="center")


def _rate(beta: float) -> str:
    return units.rate(float(f"{1 / beta:.6g}")) if beta > 0 else "∞"  # 1 / 1e-9 is a hair below 1e9


def _alt(points: Sequence[Point], line: Line | None, title: str, foot: str) -> str:
    parts = [title or "Time against message size, both axes logarithmic"]
    parts.append(", ".join(f"{units.size(p.nbytes)}: {units.duration(p.middle)}" for p in points))
    if line is not None:
        fit = f"fit: {units.duration(line.alpha)} plus bytes at {_rate(line.beta)}"
        parts.append(f"{fit}; the two are equal at {units.size(line.knee)}" if line.beta > 0 else fit)
    return ". ".join([*parts, foot.replace("\n", " ")]) + "."
