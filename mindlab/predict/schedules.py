r"""How long a pipeline of stages takes, and how much of that time its stages idle: forward only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity, exact
from mindlab.predict.shapes import check_whole


def pipeline(stages: Sequence[float], microbatches: int, *, hop: float = 0.0) -> Quantity:
    r"""Seconds of a forward pass of m micro-batches: sum of t_i + (m-1) max t_i, and a hop between stages.

    `stages` are the seconds that each stage takes for one micro-batch. The first one goes through all of
    them; the slowest stage then sets the pace. With m = 1 this is one request's latency: cutting the model
    finer does not shorten it. Exact where transfers overlap and every micro-batch takes alike.

    >>> pipeline([1, 1, 1, 1], 8).value, pipeline([1, 3, 1], 4).value
    (11, 14)
    """
    times = _checked(stages, microbatches)
    if not 0 <= hop < float("inf"):
        raise ValueError(f"hop={hop!r}: give seconds, from 0 on")
    value = sum(times) + (microbatches - 1) * max(times) + (len(times) - 1) * Fraction(hop)
    formula = r"\sum_i t_i + (m-1)\max_i t_i + (p-1)\,t_{\mathrm{hop}}"
    return Quantity(exact(value), "s", formula, sources.HUANG, name="pipeline", ranks=len(times))


def pipeline_idle(stages: Sequence[float], microbatches: int) -> Quantity:
    r"""The share of all stages' time that is idle: (p-1)/(m+p-1) if the stages are equal.

    Else 1 - m Σt / (p (Σt + (m-1) max t)). Not Narayanan et al.'s bubble fraction, which is over the time of
    work alone: `pipeline_overhead`.

    >>> pipeline_idle([1, 1, 1, 1], 4)
    pipeline_idle: 0.428571
    """
    times = _checked(stages, microbatches)
    value = _idle(times, microbatches)
    equal = len(set(times)) == 1
    formula = r"\frac{p-1}{m+p-1}" if equal else r"1-\frac{m\sum_i t_i}{p\,(\sum_i t_i+(m-1)\max_i t_i)}"
    return Quantity(exact(value), "", formula, sources.HUANG, name="pipeline_idle", ranks=len(times))


def pipeline_overhead(stages: Sequence[float], microbatches: int) -> Quantity:
    r"""Idle time over working time, (p-1)/m if the stages are equal: the "bubble fraction" of some papers.

    >>> pipeline_overhead([1, 1, 1, 1], 8).value
    0.375
    """
    times = _checked(stages, microbatches)
    idle = _idle(times, microbatches)
    equal = len(set(times)) == 1
    formula = r"\frac{p-1}{m}" if equal else r"\frac{p\,(\sum_i t_i+(m-1)\max_i t_i)}{m\sum_i t_i}-1"
    value = exact(idle / (1 - idle))
    return Quantity(value, "", formula, sources.NARAYANAN, name="pipeline_overhead", ranks=len(times))


def _idle(times: list[Fraction], microbatches: int) -> Fraction:
    whole = sum(times) + (microbatches - 1) * max(times)
    return 1 - microbatches * sum(times) / (len(times) * whole)


def _checked(stages: Sequence[float], microbatches: int) -> list[Fraction]:
    """The stages' seconds, exact; raises ValueError for none, or for what is no time."""
    check_whole(1, microbatches=microbatches)
    stages = [float(seconds) if isinstance(seconds, np.generic) else seconds for seconds in stages]
    if not stages or not all(0 < seconds < float("inf") for seconds in stages):
        raise ValueError(
            f"stages={list(stages)!r}: give each stage's seconds, above 0, for one stage at least"
        )
    return [Fraction(seconds) for seconds in stages]
