"""Boxes of a pipeline on paper, and their picture: begins, idle shares, what is drawn."""

from __future__ import annotations

import doctest
from fractions import Fraction

import numpy as np
import pytest
from draw_marks import no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import mindlab as ml
from mindlab import draw
from mindlab.draw import style
from mindlab.planning import schedules
from mindlab.planning.schedules import schedule
from mindlab.trace.slots import Slot, idle_share, span


@pytest.mark.parametrize("stages", [[1], [1, 1], [1, 2, 1, 1], [3, 1], [2, 5, 3, 5]])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_it_is_the_closed_form(stages: list[int], count: int) -> None:
    """Would catch a stage that begins before its input is there, or waits for more than it must."""
    slots = schedule(stages, count)
    assert span(slots) == ml.seconds.pipeline(stages, count).value
    assert idle_share(slots) == pytest.approx(float(ml.seconds.pipeline_idle(stages, count)), abs=1e-12)
    with_hops = schedule(stages, count, hop=0.5)
    assert span(with_hops) == span(slots) + 0.5 * (len(stages) - 1)


@pytest.mark.parametrize(("prompts", "tokens"), [(1, 5), (3, 5), (4, 5), (7, 2)])
def test_decoding_waits_for_the_token_before(prompts: int, tokens: int) -> None:
    """Would catch tokens that do not wait: on p equal stages a token takes max(n, p) boxes."""
    slots = schedule([1] * 4, prompts, tokens=tokens)
    assert span(slots) == (tokens - 1) * max(prompts, 4) + 4 + prompts - 1
    by_place = {(slot.stage, slot.microbatch, slot.step): slot for slot in slots}
    for (stage, index, step), slot in by_place.items():
        before = (stage - 1, index, step) if stage else (3, index, step - 1)
        assert before not in by_place or slot.start >= by_place[before].end
    if prompts == 1:
        assert Fraction(idle_share(slots)).limit_denominator(99) == Fraction(3, 4)


def test_refusals() -> None:
    """Would catch a schedule of nothing, or of negative time."""
    for stages, count in (([], 1), ([-1, 1], 1), ([0, 0], 1), ([1], 0)):
        with pytest.raises(ValueError, match="give"):
            schedule(stages, count)
    with pytest.raises(ValueError, match=r"hop=-1"):
        schedule([1], 1, hop=-1)
    with pytest.raises(ValueError, match="choose microbatch or request"):
        draw.pipeline(schedule([1], 1), what="boxes")
    with pytest.raises(ValueError, match="no slots"):
        draw.pipeline([])


@pytest.mark.usefixtures("no_warning")
@pytest.mark.parametrize("modelled", [True, False])
def test_a_box_stands_where_its_slot_is(modelled: bool) -> None:
    """Would catch boxes from another begin, in another row or colour, and dashes on what was timed."""
    slots = [slot._replace(start=slot.start + 7, end=slot.end + 7) for slot in schedule([1, 2], 3)]
    ax = draw.pipeline(slots, modelled=modelled, unit="t", language="en")
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_zorder() == 2]
    placed = [(round(box.get_x(), 6), box.get_width(), round(box.get_y() + 0.36)) for box in boxes]
    assert placed == [(slot.start - 7, slot.end - slot.start, slot.stage) for slot in slots]
    assert {box.get_linestyle() == "-" for box in boxes} == {not modelled}
    fills = {to_hex(box.get_facecolor()) for box in boxes}
    assert (fills == {style.colour(0), style.colour(1)}) is not modelled
    said = " ".join(texts(ax))
    assert "idle 35.7 %" in said and ("modelled, not timed" in said) is modelled
    assert {"0", "1", "2"} <= set(texts(ax)) and "rank 1: 0 at 1, 1 at 3, 2 at 5" in ax.alt


def test_rows_are_the_recorded_ranks() -> None:
    """Would catch a stage taken for its rank: a pipeline on ranks 2 and 3."""
    ax = draw.pipeline([Slot(3, 0, 0, 0.0, 1.0), Slot(2, 1, 0, 1.0, 2.0, 1)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 3", "rank 2"]
    assert "0:1" in texts(ax)


def test_the_alt_text_has_a_row_for_each_stage_and_rank() -> None:
    """Would catch boxes of two pipelines side by side told as those of one, and rows by rank alone."""
    slots = [Slot(2 * n + s, s, n, float(s), s + 1.0) for n in range(2) for s in range(2)]
    slots.append(Slot(1, 0, 7, 3.0, 4.0))  # rank 1 has a second stage
    alt = draw.pipeline(slots, unit="t", language="en").alt
    rows = ["rank 0: 0 at 0", "rank 1: 7 at 3", "rank 2: 1 at 0", "rank 1: 0 at 1", "rank 3: 1 at 1"]
    assert alt.startswith(". ".join(["Boxes of 5 stages", "whole time 4 t", *rows, "idle 75.0 %"])), alt


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(schedules)
    assert found.failed == 0 and found.attempted


def test_arrays_of_seconds_are_as_good_as_lists() -> None:
    """An array of numpy refused with a sentence about truth values, or exact numbers lost."""
    times = np.array([1.0, 3.0, 1.0])
    assert schedule(times, 4) == schedule([1, 3, 1], 4)
    assert ml.seconds.pipeline(times, 4).value == 14
    assert ml.seconds.pipeline(np.array([1, 3, 1]), 4).value == 14


@pytest.mark.parametrize(
    ("stages", "hop"),
    [([1, float("nan")], 0), ([1, 2], float("nan")), ([1, 2], float("inf")), (np.array([]), 0), ([0, 0], 0)],
)
def test_times_that_are_none_are_refused(stages: list[float], hop: float) -> None:
    """NaN is not below 0: boxes without a begin. An empty array was refused with a sentence about `max`."""
    with pytest.raises(ValueError, match="give seconds from 0 on, one stage above 0"):
        schedule(stages, 2, hop=hop)
