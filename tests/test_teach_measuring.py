"""What the judge measures: rounds, and what a wrong sum is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.parallel.attention import attention_with_lse
from mindlab.teach import pattern
from mindlab.teach.composition import Made, made_of
from mindlab.teach.exercises import Task
from mindlab.teach.grade import grade
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


def run_of(fn: Callable[[], Any], ranks: int = 4) -> ml.Run:
    return ml.launch(fn, ranks=ranks)


def shift(to: int = 1) -> None:
    x, arriving = torch.ones(8), torch.empty(8)
    rank, p = dist.get_rank(), dist.get_world_size()
    coming = dist.irecv(arriving, (rank - to) % p)
    dist.send(x, (rank + to) % p)
    coming.wait()  # type: ignore[union-attr]


def star() -> None:
    if dist.get_rank() == 0:
        for work in [dist.isend(torch.ones(8), other) for other in range(1, dist.get_world_size())]:
            work.wait()  # type: ignore[union-attr]
    else:
        dist.recv(torch.empty(8), 0)


def chain() -> None:
    rank, x = dist.get_rank(), torch.ones(8)
    if rank:
        dist.recv(x, rank - 1)
    if rank + 1 < dist.get_world_size():
        dist.send(x, rank + 1)


def all_posted_ahead() -> None:
    """One round of shifting, three receives ahead: posting early is no round."""
    rank, p = dist.get_rank(), dist.get_world_size()
    coming = [dist.irecv(torch.empty(8), (rank - 1) % p) for _ in range(3)]
    for work in coming:
        dist.send(torch.ones(8), (rank + 1) % p)
        work.wait()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fn", "rounds"),
    [
        (shift, 1),
        (star, 3),
        (chain, 3),
        (all_posted_ahead, 3),
        (lambda: ml.collectives.ring_all_reduce(torch.ones(64)), 6),
        (lambda: ml.collectives.tree_broadcast(torch.ones(64)), 2),
        (lambda: ml.collectives.direct_all_to_all(torch.ones(64)), 3),
        (lambda: ml.collectives.bruck_all_to_all(torch.ones(64)), 2),
        (lambda: ml.collectives.halving_doubling_all_reduce(torch.ones(64)), 4),
        (lambda: dist.all_reduce(torch.ones(8)), 0),
    ],
)
def test_rounds_follow_from_what_waits_for_what(fn: Callable[[], Any], rounds: int) -> None:
    """Would catch rounds that depend on luck with times; each is counted three times."""
    assert [pattern.rounds_of(run_of(fn).events) for _ in range(3)] == [rounds] * 3


def test_strangers_are_named_by_pair() -> None:
    """Would catch a message to the wrong neighbour that a sum by rank hides."""
    run = run_of(lambda: shift(2))
    ring = [(rank, (rank + 1) % 4) for rank in range(4)]
    assert pattern.strangers(run, ring)[0] == (0, 2, 32)
    assert pattern.strangers(run, [(rank, (rank + 2) % 4) for rank in range(4)]) == []


def test_a_sum_is_taken_apart() -> None:
    """Would catch a finding that blames a rank whose part is there."""
    parts = [torch.randint(1, 100, (60,), generator=torch.Generator().manual_seed(k)) for k in range(3)]
    chunks = [list(part.float().tensor_split(3)) for part in parts]
    piece = chunks[0][1] + 2 * chunks[2][1]
    assert made_of(piece, chunks, 1) == made_of(piece, chunks, 0) == Made(1, (1, 0, 2))
    assert made_of(torch.zeros(20), chunks, 2) == Made(2, (0, 0, 0))
    assert made_of(piece + 0.5, chunks, 1) is None
    assert made_of(chunks[0][0] + chunks[1][1], chunks, 0) is None


def each_its_own(x: torch.Tensor, seen: int) -> torch.Tensor:
    return attention_with_lse(x, x[:, :seen], x[:, :seen])[0]


def wasteful(x: torch.Tensor, seen: int) -> torch.Tensor:
    attention_with_lse(x, x, x)
    return each_its_own(x, seen)


ATTENTION = Exercise(
    name="99.9",
    title="Some of the keys",
    statement="",
    inputs=lambda seed, rank, trial: (torch.randn(1, 6, 1, 4, generator=torch.manual_seed(rank)), 1 + rank),
    reference=lambda given: [each_its_own(*one) for one in given],
    pure=True,
    trials=(Trial(3, sizes={"sequence": 6}),),
    hints=("", "", ""),
    solution=each_its_own,
    explanation="",
    right=(),
    wrong=(),
)
PAIRS = 4 * 4  # floating-point operations of a pair: two products of 4 numbers


def test_work_is_judged_by_the_rank_that_has_most() -> None:
    """Would catch a bound of work that is shown and not judged, or a mean over ranks; rows of no messages."""
    bounded = replace(ATTENTION, budget=Budget(work=Bound(OfTrial(lambda trial: 6 * trial.ranks * PAIRS))))
    found = grade(bounded, each_its_own)
    assert found.passed and [row.what for row in found.spent] == ["work", "memory"]
    assert (found.spent[0].yours, found.spent[0].best) == (6 * 3 * PAIRS, True)
    found = grade(bounded, wasteful)
    assert found.sentence == "Rank 2 computed 864 FLOP; the budget is 288." and not found.passed
    assert [row.what for row in grade(ATTENTION, wasteful).spent] == ["memory"]


def test_a_task_says_how_much_work_is_allowed() -> None:
    """Would catch a bound of work that a learner cannot see before trying."""
    assert "work, of one rank at most, in FLOP: 47,040" in repr(Task(ml.exercise("04.3").exercise))
