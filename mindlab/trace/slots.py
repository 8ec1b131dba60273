"""Boxes of a schedule as they were: which stage worked on what, from when to when; and how much it idled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Slot(NamedTuple):
    """One stage's work on one micro-batch. Times are seconds on the clock of `Run.events`."""

    rank: int
    """The global rank."""
    stage: int
    microbatch: int
    start: float
    end: float
    step: int = 0
    """In decoding: which of the new tokens; else 0."""


def span(slots: Sequence[Slot]) -> float:
    """Seconds from the first start to the last end.

    Raises ValueError without slots, and for one that ends before it starts or has a time that is no number.

    >>> span([Slot(0, 0, 0, 1.0, 2.0), Slot(1, 1, 0, 2.5, 4.0)])
    3.0
    """
    if not slots:
        raise ValueError(
            "no slots: give those of all ranks, [slot for _, slots in run.values for slot in slots]"
        )
    for slot in slots:
        if not float("-inf") < slot.start <= slot.end < float("inf"):
            raise ValueError(f"{slot}: a slot starts at a finite time and ends no earlier")
    return max(slot.end for slot in slots) - min(slot.start for slot in slots)


def idle_share(slots: Sequence[Slot]) -> float:
    """The share of all stages' time, from the first start to the last end, in which they did not compute.

    Pipelines side by side may be pooled: a stage counts once on each rank. A stage that is missing here is
    not counted as idle. Compare `ml.seconds.pipeline_idle`. Raises ValueError without slots, or if they take
    no time.

    >>> idle_share([Slot(0, 0, 0, 0.0, 1.0), Slot(1, 1, 0, 1.0, 2.0)])
    0.5
    >>> idle_share([Slot(2 * n + s, s, n, float(s), s + 1.0) for n in range(2) for s in range(2)])
    0.5
    """
    whole = span(slots)
    if whole <= 0:
        raise ValueError("the slots take no time: give ones that were recorded")
    busy = sum(slot.end - slot.start for slot in slots)
    return 1 - busy / (whole * len({(slot.stage, slot.rank) for slot in slots}))
