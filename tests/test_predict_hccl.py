"""Huawei's published cost formulas, one by one, as the guide prints them."""

import math

import pytest

import mindlab as ml
from mindlab.predict import seconds

N, A, B, G = 1_000_000, 3e-6, 1 / 28e9, 1 / 200e9


def lower(p: int) -> int:
    return 2 ** int(math.log2(p))


PUBLISHED = {
    "mesh_scatter": lambda p: A + N / p * B,
    "mesh_gather": lambda p: A + N / p * B,
    "mesh_broadcast": lambda p: 2 * A + 2 * N / p * B,
    "mesh_reduce_scatter": lambda p: A + N / p * B + (p - 1) / p * N * G,
    "mesh_all_gather": lambda p: A + N / p * B,
    "mesh_all_reduce": lambda p: 2 * A + 2 * N / p * B + (p - 1) / p * N * G,
    "mesh_reduce": lambda p: 2 * A + 2 * N / p * B + (p - 1) / p * N * G,
    "ring_reduce_scatter": lambda p: (p - 1) * A + (p - 1) / p * N * B + (p - 1) / p * N * G,
    "ring_all_gather": lambda p: (p - 1) * A + (p - 1) / p * N * B,
    "ring_all_reduce": lambda p: 2 * (p - 1) * A + 2 * (p - 1) / p * N * B + (p - 1) / p * N * G,
    "ring_broadcast": lambda p: (p - 1) * A + (p - 1) * N * B,
    "nhr_reduce_scatter": lambda p: math.ceil(math.log2(p)) * A + (p - 1) / p * N * (B + G),
    "nhr_all_reduce": lambda p: (
        2 * math.ceil(math.log2(p)) * A + 2 * (p - 1) / p * N * B + (p - 1) / p * N * G
    ),
}
POWERS = {
    "halving_doubling_reduce_scatter": lambda p: math.log2(p) * A + (p - 1) / p * N * (B + G),
    "halving_doubling_all_reduce": lambda p: (
        2 * math.log2(p) * A + 2 * (p - 1) / p * N * B + (p - 1) / p * N * G
    ),
}


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("name", PUBLISHED)
def test_any_number_of_ranks(name: str, ranks: int) -> None:
    """A round, a share or an addition that the guide does not have."""
    found = getattr(seconds, name)(N, ranks, alpha=A, beta=B, gamma=G)
    assert found.value == pytest.approx(PUBLISHED[name](ranks), rel=1e-12)
    assert found.unit == "s" and found.formula and found.source


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("name", POWERS)
def test_powers_of_two(name: str, ranks: int) -> None:
    """Halving counted with a round too many."""
    found = getattr(seconds, name)(N, ranks, alpha=A, beta=B, gamma=G)
    assert found.value == pytest.approx(POWERS[name](ranks), rel=1e-12)


@pytest.mark.parametrize("ranks", [3, 5, 6, 12])
def test_halving_doubling_where_ranks_are_left_over(ranks: int) -> None:
    """The ranks that do not fit folded in for nothing."""
    q = lower(ranks)
    published = (2 * math.log2(q) + 2) * A + (2 * (q - 1) / q + 2) * N * B + ((q - 1) / q + 1) * N * G
    found = ml.seconds.halving_doubling_all_reduce(N, ranks, alpha=A, beta=B, gamma=G)
    assert found.value == pytest.approx(published, rel=1e-12)
    with pytest.raises(ValueError, match="no power of two"):
        ml.seconds.halving_doubling_reduce_scatter(N, ranks, alpha=A, beta=B)


def test_pairwise_waits_for_the_largest() -> None:
    """Rounds as long as their mean message, or the block that a rank keeps counted."""
    matrix = [[9, 1, 5], [2, 9, 1], [4, 3, 9]]
    published = 2 * A + B * (max(1, 1, 4) + max(5, 2, 3))
    assert ml.seconds.pairwise_all_to_all(matrix, alpha=A, beta=B).value == pytest.approx(published)
    even = [[N // 4] * 4 for _ in range(4)]
    assert ml.seconds.pairwise_all_to_all(even, alpha=A, beta=B).value == pytest.approx(
        ml.seconds.direct_all_to_all(N, 4, alpha=A, beta=B).value
    )
    with pytest.raises(ValueError, match="give as many columns"):
        ml.seconds.pairwise_all_to_all([[1, 2]], alpha=A, beta=B)


@pytest.mark.parametrize(("inside", "across"), [((A, B), (2 * A, 4 * B)), ((2 * A, 4 * B), (A, B))])
def test_the_pipeline_of_two_levels(inside: tuple[float, float], across: tuple[float, float]) -> None:
    """The slower level counted once too often, or the quicker one in its place."""
    one = N / 16
    within, between = (a + one * b for a, b in (inside, across))
    published = max(between, within) * (2 - 1) + within
    given = {"inside": inside, "across": across}
    assert ml.seconds.pipeline_all_gather(N, 2, 8, **given).value == pytest.approx(published)
    assert ml.seconds.pipeline_reduce_scatter(N, 2, 8, **given).value == pytest.approx(published)
    assert ml.seconds.pipeline_all_reduce(N, 2, 8, **given).value == pytest.approx(2 * published)


def test_rates_that_cannot_be_are_refused() -> None:
    """A negative latency that makes a collective quicker."""
    with pytest.raises(ValueError, match="from 0 on"):
        ml.seconds.mesh_scatter(N, 4, alpha=-1.0, beta=B)
    assert ml.seconds.mesh_broadcast(N, 1, alpha=A, beta=B).value == 0


@pytest.mark.parametrize("name", [*PUBLISHED, *POWERS])
def test_ranks_that_cannot_be_are_refused_first(name: str) -> None:
    """A division by no ranks, or advice to choose half a rank."""
    for ranks in (0, -4, 2.5):
        with pytest.raises(ValueError, match=f"ranks={ranks}: give a whole number from 1 on"):
            getattr(seconds, name)(N, ranks, alpha=A, beta=B)
