"""calibrate: the fit by itself, and a short real one. No time is asserted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mindlab as ml
from mindlab.planning.calibration import Calibration, fit, ping_pong, ring_shift

ALPHA, BETA = 20e-6, 1 / 5e9


def line(*sizes: int) -> list[tuple[int, float]]:
    """Points on the line."""
    return [(size, ALPHA + BETA * size) for size in sizes]


def test_the_fit_finds_the_line() -> None:
    """Would catch alpha and beta swapped, or a fit that drowns the short messages in the long ones."""
    points = line(4, 1024, 2**20, 2**28)
    assert fit(points) == pytest.approx((ALPHA, BETA))
    noisy = [*points[:-1], (points[-1][0], points[-1][1] * 1.1)]
    alpha, _ = fit(noisy)
    assert alpha == pytest.approx(ALPHA, rel=0.1), "one long message 10 % off moves alpha by little"


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ([(4, 2e-3), (4096, 1e-3)], (1.2e-3, 0.0)),
        ([(1000, 1e-6), (2000, 4e-6)], (0.0, 1.2e-9)),
    ],
)
def test_neither_is_negative(points: list[tuple[int, float]], wanted: tuple[float, float]) -> None:
    """Would catch a message that takes less than no time. Wanted: sum(w) / sum(w^2), w = 1/t or n/t."""
    assert fit(points) == pytest.approx(wanted)


def test_seconds_say_where_they_hold() -> None:
    """Would catch an extrapolation that looks timed."""
    known = Calibration(ALPHA, BETA, ((4, 2e-5), (4096, 3e-5)), 0.1, "ping_pong", 2, "gloo", "this one")
    inside, outside = known.seconds(1024), known.seconds(2**30)
    assert inside.value == ALPHA + BETA * 1024 and inside.unit == "s"
    assert "outside what was timed, 4 B to 4 KiB" in outside.source and "outside" not in inside.source
    assert "5 GB/s" in repr(known) and "20 µs" in repr(known) and "10 % off" in known._repr_html_()
    with pytest.raises(ValueError, match="nbytes=-1"):
        known.seconds(-1)


@pytest.mark.parametrize(("ranks", "op"), [(2, None), (3, None), (3, ring_shift), (4, "all_reduce")])
def test_a_real_one(ranks: int, op: Any) -> None:
    """Would catch an operation that hangs on an odd rank, a unit mixed up, or a number without its origin."""
    chosen = ml.collectives.ring_all_reduce if op == "all_reduce" else op
    found = ml.calibrate(ranks, sizes=[4, 4096, 2**18], op=chosen, repeats=3)
    assert [size for size, _ in found.points] == [4, 4096, 2**18] and found.holds == (4, 2**18)
    assert all(0 < seconds < 60 for _, seconds in found.points)
    assert found.alpha >= 0 and found.beta >= 0 and found.alpha + found.beta > 0
    assert found.provenance == "timed" and found.backend and f"{ranks} ranks" in found.machine
    assert found.op == (chosen or ping_pong).__name__


def test_half_of_there_and_back() -> None:
    """Would catch a round trip sold as one way: ping_pong really sends both ways."""
    run = ml.launch(lambda: ping_pong(torch.ones(5)), ranks=4)
    assert run.traffic.tolist() == [[0, 20, 0, 0], [20, 0, 0, 0], [0, 0, 0, 20], [0, 0, 20, 0]]


def test_guards_come_back() -> None:
    """Would catch a calibration that leaves the guards off for the next cell."""
    ml.calibrate(2, sizes=[4, 8], repeats=1)
    assert not any("guard" in note for note in ml.launch(lambda: 1, ranks=2).notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 1}, "nobody to send to"),
        ({"sizes": [4, 6]}, "size 6"),
        ({"sizes": [4]}, "two sizes or more"),
        ({"sizes": [4, 4]}, "two sizes or more"),
        ({"repeats": 0}, "repeats=0"),
    ],
)
def test_what_cannot_be_timed(options: dict[str, Any], message: str) -> None:
    """Would catch a line through one point, or a size that is silently rounded."""
    with pytest.raises(ValueError, match=message):
        ml.calibrate(**options)
