"""The difference between two hosts' clocks."""

from __future__ import annotations

import random

import pytest

from mindlab.trace.clock import Sample, offset


def test_the_shortest_way_wins_and_bounds_the_error():
    """Would catch an average over samples, which one slow reply spoils."""
    found = offset([(0.0, 105.0, 4.0), Sample(10.0, 110.5, 10.2), (20.0, 190.0, 90.0)])
    assert found.seconds == pytest.approx(100.4) and found.error == pytest.approx(0.1)


def test_the_truth_lies_within_the_bound():
    """Would catch a bound that is too small: the way there and back need not take equally long."""
    draw = random.Random(0)
    for _ in range(200):
        truth, samples, now = draw.uniform(-100, 100), [], 0.0
        for _ in range(5):
            there, back = draw.uniform(0.001, 0.1), draw.uniform(0.001, 0.1)
            samples.append((now, now + there + truth, now + there + back))
            now += 1
        found = offset(samples)
        assert abs(found.seconds - truth) <= found.error + 1e-12


def test_impossible_samples_are_refused():
    """Would catch an offset made of nothing, or of two clocks in one sample."""
    with pytest.raises(ValueError, match="no samples"):
        offset([])
    with pytest.raises(ValueError, match="before its request"):
        offset([(2.0, 5.0, 1.0)])
