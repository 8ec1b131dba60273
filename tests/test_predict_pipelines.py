"""A pipeline on paper: against a simulation, schedule by schedule; the idle share from slots; refusals."""

from __future__ import annotations

import doctest
from fractions import Fraction
from typing import Any

import pytest

import mindlab as ml
from mindlab.book.mathml import mathml
from mindlab.predict import pipelines, schedules
from mindlab.trace import slots as of_slots
from mindlab.trace.slots import Slot, idle_share, span

STAGES = [(1,), (1, 1), (2, 2, 2, 2), (1, 3, 1), (3, 1, 1, 2), (1, 2, 5), (0.5, 0.25)]


def simulated(stages: tuple[float, ...], microbatches: int) -> list[Slot]:
    """Each stage takes a micro-batch as soon as it is free and the stage before has passed it on."""
    free, slots = [0.0] * len(stages), []
    for index in range(microbatches):
        ready = 0.0
        for stage, seconds in enumerate(stages):
            start = max(ready, free[stage])
            ready = free[stage] = start + seconds
            slots.append(Slot(stage, stage, index, start, ready))
    return slots


@pytest.mark.parametrize("stages", STAGES, ids=str)
@pytest.mark.parametrize("microbatches", [1, 2, 3, 8, 32])
def test_seconds_and_idle_share_of_a_simulation(stages: tuple[float, ...], microbatches: int) -> None:
    """Would catch a formula that holds only for equal stages, or only for m above p."""
    slots = simulated(stages, microbatches)
    assert ml.seconds.pipeline(stages, microbatches).value == pytest.approx(span(slots))
    assert float(ml.seconds.pipeline_idle(stages, microbatches)) == pytest.approx(idle_share(slots))
    work = microbatches * sum(stages)
    idle = len(stages) * span(slots) - work
    assert float(ml.seconds.pipeline_overhead(stages, microbatches)) == pytest.approx(idle / work)


@pytest.mark.parametrize(("p", "m"), [(4, 1), (4, 4), (4, 8), (4, 32), (2, 3), (3, 5)])
def test_equal_stages(p: int, m: int) -> None:
    """Would catch the two bubble fractions mixed up: of all time, and of the time of work."""
    share, over = (form([1] * p, m) for form in (ml.seconds.pipeline_idle, ml.seconds.pipeline_overhead))
    assert float(share) == float(Fraction(p - 1, m + p - 1)) and float(over) == float(Fraction(p - 1, m))
    assert ml.seconds.pipeline([1] * p, m) == m + p - 1


def test_one_request_gets_no_faster() -> None:
    """Would catch a latency that falls with the number of stages: it grows by the hops."""
    assert [ml.seconds.pipeline([12 / p] * p, 1).value for p in (1, 2, 3, 4)] == [12] * 4
    assert ml.seconds.pipeline([3.0] * 4, 1, hop=0.5) == 13.5


def test_idle_share_of_slots() -> None:
    """Would catch time counted from 0 instead of the first start, and a stage's slots counted as stages."""
    slots = [
        Slot(3, 0, 0, 5.0, 6.0),
        Slot(3, 0, 1, 6.0, 7.0),
        Slot(1, 1, 0, 6.0, 7.0),
        Slot(1, 1, 1, 7.0, 8.0),
    ]
    assert span(slots) == 3 and idle_share(slots) == pytest.approx(1 / 3)
    assert idle_share(slots[:2]) == 0
    with pytest.raises(ValueError, match="no slots: give those of all ranks"):
        idle_share([])
    with pytest.raises(ValueError, match="take no time"):
        idle_share([Slot(0, 0, 0, 1.0, 1.0)])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("cached", [False, True])
def test_bytes_message_by_message(ranks: int, cached: bool) -> None:
    """Would catch a last stage that sends on, the final token sent back, a header forgotten."""
    batch, prompt, tokens, hidden, item = 2, 5, 3, 8, 2
    sent = [0] * ranks
    for step in range(tokens):
        length = 1 if cached and step else prompt + step
        for rank in range(ranks - 1):
            sent[rank] += batch * length * hidden * item + 64
        if ranks > 1 and step < tokens - 1:
            sent[-1] += batch * 8
    found = ml.volume.pipeline_decode(batch, prompt, tokens, hidden, ranks, itemsize=item, cached=cached)
    assert list(found.by_rank(ranks)) == sent
    once = ml.volume.pipeline(batch * prompt, hidden, ranks, itemsize=item, microbatches=batch)
    assert list(once.by_rank(ranks)) == [batch * (prompt * hidden * item + 64)] * (ranks - 1) + [0]


def test_every_quantity_can_be_shown() -> None:
    """Would catch a formula that no page can set, a number without its source or name."""
    for found in (
        ml.volume.pipeline(8, 16, 3, itemsize=4, microbatches=2),
        ml.volume.pipeline_decode(1, 5, 3, 16, 3, itemsize=4),
        *(form(stages, 2) for stages in ([1, 1, 1], [1, 2, 1])
          for form in (ml.seconds.pipeline, ml.seconds.pipeline_idle, ml.seconds.pipeline_overhead)),
    ):  # fmt: skip
        assert mathml(found.formula) and found.source and found.name and found.ranks == 3 and found.value > 0


REFUSED: list[tuple[Any, str]] = [
    (lambda: ml.seconds.pipeline([], 2), r"stages=\[\]: give each stage's seconds"),
    (lambda: ml.seconds.pipeline([1, 0], 2), r"stages=\[1, 0\]"),
    (lambda: ml.seconds.pipeline_idle([1, float("inf")], 2), "above 0"),
    (lambda: ml.seconds.pipeline_overhead([1], 0), "microbatches=0"),
    (lambda: ml.seconds.pipeline([1, 1], 2, hop=-1), "hop=-1"),
    (lambda: ml.volume.pipeline(8, 0, 3, itemsize=4, microbatches=2), "hidden=0"),
    (lambda: ml.volume.pipeline_decode(1, 0, 3, 16, 2, itemsize=4), "prompt=0"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_refusals(call: Any, words: str) -> None:
    """Would catch a number for what cannot be."""
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("module", [pipelines, schedules, of_slots], ids=lambda module: module.__name__)
def test_examples(module: Any) -> None:
    """Would catch an example in a docstring that was right once."""
    assert doctest.testmod(module).failed == 0
