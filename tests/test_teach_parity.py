"""check_close: the numbers of one card, on every rank."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from mindlab.errors import CheckFailed
from mindlab.teach.checks import check_close

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])


def refused(sharded: Any, reference: Any, **options: Any) -> str:
    """The sentence with which the comparison fails."""
    with pytest.raises(CheckFailed) as caught:
        check_close(sharded, reference, **options)
    return str(caught.value)


def copies(tensor: torch.Tensor, ranks: int = 3) -> list[torch.Tensor]:
    """One copy a rank."""
    return [tensor.clone() for _ in range(ranks)]


def changed(value: float) -> torch.Tensor:
    """X with its element [1, 0] replaced."""
    other = X.clone()
    other[1, 0] = value
    return other


def test_the_same_numbers_pass() -> None:
    """Would catch a comparison that refuses another order of additions."""
    verdict = check_close(copies(X + 1e-7), X)
    assert verdict.passed and verdict.ranks == 3 and "float32 sums in another order" in verdict.reason
    assert check_close(X + 1e-7, X).passed, "one tensor may be compared too"
    assert check_close([X[:1].clone(), X[1:].clone(), X[:0].clone()], [X[:1], X[1:], X[:0]]).passed


def test_every_rank_is_looked_at() -> None:
    """Would catch a check of rank 0 only: the last one is wrong here."""
    sentence = refused([*copies(X), changed(3.5)], X)
    assert "rank 3: element [1, 0] is 3.5, one card has 3" in sentence
    assert "1 of 4 ranks are wrong (ranks 0, 1, 2 right)" in sentence


@pytest.mark.parametrize(
    ("sharded", "reference", "sentence"),
    [
        (copies(X.reshape(4)), X, "shape (4,), one card has (2, 2)"),
        (copies(X.double()), X, "dtype float64, one card has float32"),
        (copies(changed(math.nan)), X, "is nan, one card has 3"),
        (copies(X), changed(math.nan), "is 3, one card has nan"),
        (copies(changed(math.inf)), X, "is inf"),
        (copies(changed(math.inf)), changed(-math.inf), "is inf, one card has -inf"),
        (copies(torch.zeros(3)), torch.zeros(3), "all zeros"),
        (copies(torch.zeros(0)), torch.zeros(0), "no element"),
        (copies(torch.tensor([2**60 + 1])), torch.tensor([2**60]), "1 of 1 elements wrong"),
        (copies(torch.tensor([True, False])), torch.tensor([True, True]), "1 of 2 elements wrong"),
    ],
)
def test_wrong_numbers_fail_with_their_sentence(sharded: Any, reference: Any, sentence: str) -> None:
    """Would catch a wrong shape, dtype, NaN or whole number that slips through a float comparison."""
    assert sentence in refused(sharded, reference)


def test_a_result_is_not_compared_with_itself() -> None:
    """Would catch ranks that agree with each other and are all wrong."""
    values = copies(X * 7)
    assert "rank 0's own result" in refused(values, values[0])
    assert "rank 2's own result" in refused(values, values[2].view(2, 2))


def test_agreeing_oddities() -> None:
    """Would catch a refusal of what one card has too: infinities, NaN, zeros that are the claim."""
    for value in (math.inf, math.nan):
        assert check_close(copies(changed(value)), changed(value)).passed
    assert check_close(copies(torch.zeros(3)), torch.zeros(3), allow_zero=True).passed


@pytest.mark.parametrize(
    ("dtype", "passes", "fails"),
    [
        (torch.float64, 1e-13, 1e-11),
        (torch.float32, 1e-6, 1e-4),
        (torch.bfloat16, 2**-6, 2**-4),
        (torch.float16, 2**-9, 2**-7),
    ],
)
def test_the_tolerance_follows_the_dtype(dtype: torch.dtype, passes: float, fails: float) -> None:
    """Would catch a tolerance of half precision that hides a bug in float32. The largest |reference| is 1."""
    one = torch.ones(3, dtype=dtype)
    assert check_close(copies(one - passes), one).passed
    assert refused(copies(one - fails), one)


def test_given_tolerances() -> None:
    """Would catch a tolerance that is ignored, or added to the default."""
    assert check_close(copies(X * 1.01), X, rtol=0.02).passed
    assert refused(copies(X * 1.01), X, rtol=0.005)
    assert check_close(copies(X + 0.5), X, atol=0.5).passed
    assert refused(copies(X + 1e-7), X, atol=0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_few_ranks_are_never_a_pass(ranks: int) -> None:
    """Would catch a pass at p = 2, where left and right are one neighbour."""
    assert check_close(copies(X, ranks), X).verdict == "not checked"
    wrong = check_close(copies(X + 1, ranks), X)
    assert wrong.verdict == "not checked" and "here rank 0: element [0, 0] is 2" in wrong.reason


@pytest.mark.parametrize("open_answer", [..., None, [...] * 3])
def test_an_open_answer_is_not_judged(open_answer: Any) -> None:
    """Would catch an unsolved exercise that stops the notebook, or passes."""
    assert check_close(open_answer, X).verdict == "not answered yet"
    assert check_close(copies(X), open_answer).verdict == "not answered yet"


def test_a_forgotten_return_is_said() -> None:
    """Would catch a wrong answer that is told as no answer: a function without `return` gives None."""
    with pytest.raises(CheckFailed, match="rank 0 returned None: is a `return` missing"):
        check_close([None] * 3, X)


def test_what_cannot_be_compared() -> None:
    """Would catch a pair of results judged as one tensor, or parts for other ranks."""
    with pytest.raises(TypeError, match="rank 0's result is a tuple of 2: choose one tensor"):
        check_close([(X, X)] * 3, X)
    with pytest.raises(TypeError, match="is a str"):
        check_close(["x"] * 3, X)
    with pytest.raises(ValueError, match="no results"):
        check_close([], X)
    with pytest.raises(ValueError, match="2 parts for 3 ranks"):
        check_close(copies(X), [X, X])


@pytest.mark.parametrize(
    "bad", [{"atol": float("nan")}, {"rtol": float("nan")}, {"atol": float("inf")}, {"atol": -1}]
)
def test_a_tolerance_that_allows_everything_is_refused(bad: dict[str, float]) -> None:
    """Would catch a comparison that cannot fail."""
    with pytest.raises(ValueError, match="take a number from 0"):
        check_close(copies(X * 9), X, **bad)


def test_one_huge_element_excuses_nothing_elsewhere() -> None:
    """Would catch a tolerance taken from a mask of -1e9, under which 5 passes for 1."""
    masked = torch.tensor([1.0, 2.0, 3.0, -1e9])
    assert refused(copies(torch.tensor([5.0, 2.0, 3.0, -1e9])), masked)
    assert refused([torch.tensor([x]) for x in (1e6, 5.0, 7.0)], [torch.tensor([x]) for x in (1e6, 1.0, 2.0)])
    assert refused(copies(torch.tensor([float("nan")])), torch.tensor([float("nan")]))
