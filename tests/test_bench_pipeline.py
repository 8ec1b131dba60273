"""The bench of a pipeline's idle time, on small sizes."""

from __future__ import annotations

import os

import pytest

from mindlab.bench import cli, pipelining


def test_every_number_of_microbatches_has_a_row() -> None:
    """Would catch slots of one rank alone (no idle time at all), a share over all m, a lost repeat."""
    rows = pipelining.pipeline(2, 3, width=64, products=8)
    assert [*rows] == [f"m = {m}, 2 ranks" for m in range(1, 9)]
    for m, row in enumerate(rows.values(), 1):
        assert row["formula"] == pytest.approx(1 / (m + 1))
        assert 0 < row["least"] <= row["idle, timed"] <= row["most"] < 1
        assert row["timed / formula"] == pytest.approx(row["idle, timed"] * (m + 1))
    assert rows["m = 1, 2 ranks"]["idle, timed"] >= 0.5, "one micro-batch cannot be in both stages at once"
    assert "timed / formula" in cli._text(rows)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen on Linux alone")
def test_cores_are_given_back() -> None:
    """Would catch a pool whose ranks keep to one core in every later experiment, also after a failure."""
    before = os.sched_getaffinity(0)
    with pytest.raises(KeyError), pipelining._own_core(1):
        assert len(os.sched_getaffinity(0)) == 1
        raise KeyError
    assert os.sched_getaffinity(0) == before
