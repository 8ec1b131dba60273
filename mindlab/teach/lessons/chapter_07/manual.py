"""Case 07-a: the sample of a manual, right on two ranks once it runs at all."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.predict.quantity import Quantity
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_07 import guiding
from mindlab.teach.lessons.chapter_07.guiding import Model

Tensor = torch.Tensor


def step_of_the_manual(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float
) -> Tensor:
    """The guided prediction."""
    rank = dist.get_rank()
    if rank == 0:
        output = model(x, t, uncond)
    elif rank == 1:
        output = model(x, t, cond)
    output_list = [torch.empty_like(output) for _ in range(world_size)]  # type: ignore[name-defined]  # noqa: F821
    dist.all_gather(output_list, output)
    return output_list[0] + scale * (output_list[1] - output_list[0])


def on_every_rank(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """The guided prediction."""
    rank, p = dist.get_rank(), dist.get_world_size()
    output = model(x, t, cond if rank % 2 else uncond)
    output_list = [torch.empty_like(output) for _ in range(p)]
    dist.all_gather(output_list, output)
    return output_list[0] + scale * (output_list[1] - output_list[0])


def two_make_it(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """Right: ranks 0 and 1 predict, and tell all others."""
    eps = [torch.empty_like(x) for _ in range(2)]
    if (rank := dist.get_rank()) < 2:
        eps[rank] = model(x, t, (uncond, cond)[rank])
    for source in range(2):
        dist.broadcast(eps[source], source)
    return eps[0] + scale * (eps[1] - eps[0])


def pairs_of_ranks(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """Right: a message each way between two; a last rank without a partner makes both itself."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if rank == p - 1 and p % 2:
        eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
        return eps_u + scale * (eps_c - eps_u)
    mine = model(x, t, cond if rank % 2 else uncond)
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, rank ^ 1)
    dist.recv(theirs, rank ^ 1)
    sending.wait()
    eps_u, eps_c = (theirs, mine) if rank % 2 else (mine, theirs)
    return eps_u + scale * (eps_c - eps_u)


def world_size_defined(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float
) -> Tensor:
    """Wrong: ranks from 2 on have made nothing."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        output = model(x, t, uncond)
    elif rank == 1:
        output = model(x, t, cond)
    output_list = [torch.empty_like(output) for _ in range(world_size)]
    dist.all_gather(output_list, output)
    return output_list[0] + scale * (output_list[1] - output_list[0])


def _made_wrong(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float, *, how: str
) -> Tensor:
    """One mistake at a time."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if how == "own noise":
        x = x + rank
    mine = model(x, t, cond if rank % 2 else uncond)
    if how == "own":
        return mine
    eps = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(eps, mine)
    if how == "swapped":
        eps[:2] = eps[1], eps[0]
    if how == "neighbours":
        eps = [eps[rank], eps[(rank + 1) % p]]
    return eps[0] + scale * (eps[1] - eps[0])


def serially(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """Wrong: right values; each rank makes both predictions."""
    eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
    dist.barrier()
    return eps_u + scale * (eps_c - eps_u)


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Model, Tensor, Tensor, Tensor, Tensor, float]:
    del rank
    some, none = guiding.condition(seed, "some"), guiding.condition(seed, "none")
    return Model(seed), *guiding.step(seed, trial), some, none, 7.5


def _one_card(given: list[tuple[Model, Tensor, Tensor, Tensor, Tensor, float]]) -> list[Tensor]:
    model, x, t, cond, uncond, scale = given[0]
    eps_u, eps_c = model(x, t, uncond).double(), model(x, t, cond).double()
    return [(eps_u + scale * (eps_c - eps_u)).float()] * len(given)


def _likely(attempt: Attempt, rank: int) -> dict[str, Tensor]:
    model, x, t, cond, uncond, scale = attempt.given[rank]
    eps = [model(x, t, uncond), model(x, t, cond)]
    return {
        f"its own prediction, {'with' if rank % 2 else 'without'} the condition": eps[rank % 2],
        "a guidance away from the condition: the branches are swapped": eps[1] + scale * (eps[0] - eps[1]),
    }


def _look(attempt: Attempt) -> str:
    made = [guiding.calls(attempt, rank) for rank in range(attempt.trial.ranks)]
    if min(made) > 1:
        return f"Every rank called the model {min(made)} times: that is the serial way, on all ranks."
    return guiding.resembled(attempt, _likely)


def _whole(trial: Trial) -> int:
    return 4 * 2 * trial["tokens"] * guiding.WIDTH


def _least(trial: Trial) -> Quantity:
    return Quantity(_whole(trial), "B", "D", ranks=trial.ranks)


def _to_all(trial: Trial) -> Quantity:
    return Quantity(2 * (trial.ranks - 1) * _whole(trial), "B", r"2\,(p-1)\,D", ranks=trial.ranks)


REPAIR = Exercise(
    name="07-a",
    title="The sample of a manual",
    statement="The guided prediction on every rank, for any number of ranks from 2 on. The x, the time "
    "and both conditions are the same on all ranks.",
    inputs=_inputs,
    reference=_one_card,
    calls=("all_gather", "broadcast", "send", "recv", "isend", "irecv", "barrier"),
    budget=Budget(sent=Bound(OfTrial(_least), allowed=OfTrial(_to_all))),
    whole=_whole,
    look=_look,
    trials=tuple(Trial(ranks, sizes={"tokens": 5}) for ranks in (2, 4, 3)),
    tolerance={"float32": Tolerance(3e-5, 1e-5, "differences rounded to 24 bits, and then taken 7.5 times")},
    dims=guiding.DIMS,
    hints=(
        "Repair what stops it, then run it on two ranks, and then on four. What do ranks 2 and 3 have when "
        "they come to the gathering?",
        "Write a row for each rank: what it predicts, what it hands in, what it gets back. Every row must be "
        "filled in, and all must hand in one shape.",
        """
    rank, p = ...
    output = model(...)               # every rank has one of the two branches to do
    output_list = ...                 # as many as hand something in
    ...
    return ...                        # which two of them?
""",
    ),
    solution=on_every_rank,
    explanation="""
`world_size` is used and never set. With that put right it works on two ranks. From three on, a rank that is
neither 0 nor 1 has no `output`; it stops with an error of its own, and the others are left waiting in the
gathering.

Even and odd ranks are two groups without a word about their number. The gathering over all ranks sends more
than is needed: a group of two ranks for each pair is enough, or a message each way, as in `cfg_parallel`.
""",
    right=(two_make_it, pairs_of_ranks),
    wrong=(
        Wrong(step_of_the_manual, r"raised NameError: .*world_size"),
        Wrong(world_size_defined, r"raised (UnboundLocal|Name)Error: .*output"),
        Wrong(partial(_made_wrong, how="own"), r"its own prediction, without the condition"),
        Wrong(partial(_made_wrong, how="swapped"), r"the branches are swapped"),
        Wrong(partial(_made_wrong, how="own noise"), r"Rank 0: element"),
        Wrong(partial(_made_wrong, how="neighbours"), r"Rank 1 returned a guidance away from"),
        Wrong(serially, r"that is the serial way"),
    ),
)

CASE = Case(
    name="07-a",
    title="The sample of a manual",
    story="""
A manual of multi-card inference explains CFG parallel and ends with some twenty lines of code. A reader with
eight cards copies them, since the text above says that more cards bring it closer to twice the speed.
""",
    program=step_of_the_manual,
    causes=(
        Choice(
            "The gathering must come first, before the branches are computed.",
            "Then there would be nothing to gather.",
            holds=False,
        ),
        Choice(
            "A name that was never set; behind it, ranks from 2 on that have nothing to hand in.",
            "The first fault stops all ranks. With it repaired, two ranks are right, and every larger number "
            "fails.",
            holds=True,
        ),
        Choice(
            "The branches are swapped: rank 0 must predict with the condition.",
            "Which rank has which branch is free, as long as the combination knows it. Here it does.",
            holds=False,
        ),
        Choice(
            "A scale of 7.5 is too large for a gathering in float32.",
            "It enlarges rounding, by far less than the values.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="MindIE SD, documentation of multi-card parallelism, CFG Parallel (docs/zh/features/"
    "parallelism.md in Ascend/MindIE-SD, May 2026); retold here in other words",
)
