"""A row a rank over a time axis: what timelines, replays and schedules share."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from mindlab.draw import style


def set_rows(ax: Axes, ranks: Sequence[int], word: str, time: str) -> None:
    """Names the rows from the top, "`word` 0" in rank 0's colour, and the axis below them `time`."""
    ax.set_ylim(len(ranks) - 0.5, -0.5)
    ax.set_yticks(range(len(ranks)), [f"{word} {rank}" for rank in ranks])
    for rank, label in zip(ranks, ax.get_yticklabels(), strict=True):
        fill = style.colour(rank)
        label.set_color(style.ink_on(fill))
        label.set_bbox({"boxstyle": "round,pad=0.25", "facecolor": fill, "edgecolor": style.INK, "lw": 0.6})
    ax.tick_params(axis="y", length=0, pad=8)
    ax.set_xlabel(time, loc="left")
    ax.spines["left"].set_visible(False)


def set_grid(ax: Axes) -> None:
    """Thin lines at the times, behind everything."""
    ax.grid(axis="x", color=style.GRID, lw=0.6, zorder=1)
    ax.set_axisbelow(True)


def unit_for(seconds: float) -> tuple[float, str]:
    """The factor and the name of the largest unit in which a time is 2 or more.

    >>> unit_for(3.0), unit_for(0.5), unit_for(1e-4)
    ((1.0, 's'), (1000.0, 'ms'), (1000000.0, 'µs'))
    """
    return next((pair for pair in ((1.0, "s"), (1e3, "ms")) if seconds * pair[0] >= 2), (1e6, "µs"))
