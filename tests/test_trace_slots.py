"""What the slots of a schedule say about its length and its idle time."""

import pytest

from mindlab.trace.slots import Slot, idle_share, span


def test_the_first_start_is_the_earliest() -> None:
    """The start of the first slot in the list taken for the first start: order does not matter."""
    slots = [Slot(1, 1, 0, 2.0, 4.0), Slot(0, 0, 0, 1.0, 2.0)]
    assert span(slots) == span(slots[::-1]) == 3.0


def test_pipelines_side_by_side_do_not_count_twice() -> None:
    """Two pipelines of two stages each are four rows, not two."""
    one = [Slot(0, 0, 0, 0.0, 1.0), Slot(1, 1, 0, 1.0, 2.0)]
    other = [Slot(rank + 2, stage, n, start, end) for rank, stage, n, start, end, _ in one]
    assert idle_share(one + other) == idle_share(one) == 0.5


@pytest.mark.parametrize(("start", "end"), [(2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_a_slot_that_cannot_be_is_refused(start: float, end: float) -> None:
    """A share of a time that runs backwards, or of none: an idle share of more than all, or NaN."""
    for ask in (span, idle_share):
        with pytest.raises(ValueError, match="starts at a finite time and ends no earlier"):
            ask([Slot(0, 0, 0, 0.0, 3.0), Slot(1, 1, 0, start, end)])
    with pytest.raises(ValueError, match="no slots"):
        span([])
