"""Wrong rings that were published, and ours: the checks must reject each, with the right sentence.

No single check sees all of them: one has right values and wrong bytes, one right bytes and wrong values, one
is right at sizes that ranks divide, one on rank 0 only. At p = 2 none may be called passed or failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import CheckFailed

EVEN, ODD = 48, 50


def exchange(send: torch.Tensor, receive: torch.Tensor) -> None:
    """One step round the ring."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ops = [
        dist.P2POp(dist.irecv, receive, (rank - 1) % ranks),
        dist.P2POp(dist.isend, send, (rank + 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def mine(elements: int) -> torch.Tensor:
    """This rank's tensor."""
    return torch.arange(float(elements)) + 100 * dist.get_rank() + 1


def ring(elements: int, *, chunk_back: int = 0, rest: bool = True, whole: bool = False) -> torch.Tensor:
    """A ring all-reduce that can be made wrong."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = mine(elements)
    if whole:
        return whole_tensors(x)
    chunks = list(x.tensor_split(ranks)) if rest else list(x[: elements // ranks * ranks].chunk(ranks))
    for step in range(ranks - 1):
        arriving = torch.empty_like(chunks[(rank - step - 1) % ranks])
        exchange(chunks[(rank - step) % ranks], arriving)
        chunks[(rank - step - 1) % ranks] += arriving
    for step in range(ranks - 1):
        target = chunks[(rank - step - chunk_back) % ranks]
        arriving = torch.empty_like(target)
        exchange(chunks[(rank + 1 - step - chunk_back) % ranks], arriving)
        target.copy_(arriving)
    return x


def whole_tensors(x: torch.Tensor) -> torch.Tensor:
    """B2, the published ring: the whole tensor goes round, p-1 times."""
    total, moving = x.clone(), x.clone()
    for _ in range(dist.get_world_size() - 1):
        arriving = torch.empty_like(x)
        exchange(moving, arriving)
        total, moving = total + arriving, arriving
    return total


def without_its_own(elements: int) -> torch.Tensor:
    """B1's kind: the sum starts from nothing and forgets what the rank itself has."""
    x = mine(elements)
    return whole_tensors(x) - x


def right_on_rank_zero(elements: int) -> torch.Tensor:
    """`reduce` where `all_reduce` was meant."""
    x = mine(elements)
    dist.reduce(x, 0)
    return x


def library(elements: int) -> torch.Tensor:
    """The library's all_reduce: right, but not what was asked to be written by hand."""
    x = mine(elements)
    dist.all_reduce(x)
    return x


def one_card(elements: int, ranks: int) -> torch.Tensor:
    """What one card computes."""
    return torch.stack([torch.arange(float(elements)) + 100 * rank + 1 for rank in range(ranks)]).sum(0)


def judge(fn: Callable[..., Any], elements: int, ranks: int, **wrong: Any) -> list[str]:
    """What the checks of an all-reduce say: one verdict or sentence each for values, bytes and rounds."""
    run = ml.launch(fn, elements, ranks=ranks, **wrong)
    said = []
    for claim in (
        lambda: ml.check_close(run.values, one_card(elements, ranks), run=run),
        lambda: ml.check("bytes", ml.volume.ring_all_reduce(4 * elements, ranks), run.sent, 0.2, run=run),
    ):
        try:
            said.append(claim().verdict)
        except CheckFailed as failed:
            said.append(str(failed))
    return said


MUTANTS: dict[str, tuple[Callable[..., Any], dict[str, Any], int, str, str]] = {
    "B1 own part left out": (without_its_own, {}, EVEN, "4 of 4 ranks are wrong", "p/2 = 2"),
    "B2 whole tensors": (ring, {"whole": True}, EVEN, "passed", "(p-1)·D"),
    "B3 all-gather off by one": (ring, {"chunk_back": 1}, EVEN, "4 of 4 ranks are wrong", "passed"),
    "rest dropped": (ring, {"rest": False}, ODD, "element [48] is", "passed"),
    "B14 reduce for all_reduce": (right_on_rank_zero, {}, EVEN, "(rank 0 right)", "nothing was measured"),
    "the library's own": (library, {}, EVEN, "passed", "without all_reduce x4"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_rings_are_rejected(name: str) -> None:
    """Would catch a check that a published mistake passes; at p = 4, where p/2 is 2."""
    fn, wrong, elements, values, nbytes = MUTANTS[name]
    said = judge(fn, elements, 4, **wrong)
    assert values in said[0] and nbytes in said[1], said
    assert [*said].count("passed") < 2


@pytest.mark.parametrize("name", MUTANTS)
def test_two_ranks_judge_nobody(name: str) -> None:
    """Would catch a mistake that passes because p = 2 cannot tell it from the right ring."""
    fn, wrong, elements, _, _ = MUTANTS[name]
    assert judge(fn, elements, 2, **wrong) == ["not checked", "not checked"]


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("elements", [EVEN, ODD])
def test_right_rings_are_accepted(elements: int, ranks: int) -> None:
    """Would catch a check that refuses a right ring because it is written in another way than ours."""
    assert judge(ring, elements, ranks) == ["passed", "passed"]

    def ours(elements: int) -> torch.Tensor:
        return ml.collectives.ring_all_reduce(mine(elements))

    assert judge(ours, elements, ranks) == ["passed", "passed"]


def test_a_rest_shows_in_the_exact_bytes() -> None:
    """Would catch a ring that sends too little where p does not divide the tensor."""
    run = ml.launch(ring, ODD, rest=False, ranks=4)
    with pytest.raises(CheckFailed, match=r"(less than|times) the predicted"):
        ml.check("bytes", ml.volume.ring_all_reduce(4 * ODD, 4, itemsize=4), run.sent, run=run)
