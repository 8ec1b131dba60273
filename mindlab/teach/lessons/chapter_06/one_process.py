"""Case 06-d: "expert parallel" in one process."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_06 import given, travel

Tensor = torch.Tensor


def over_devices(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, which are dealt to the devices."""
    devices = [x.device] * dist.get_world_size()
    out = torch.zeros_like(x)
    expert = 0
    for device, held in zip(devices, experts.tensor_split(len(devices)), strict=True):
        for matrix in held:
            token, slot = (choices == expert).nonzero(as_tuple=True)
            arrived = x[token].to(device)
            result = torch.tanh(arrived @ matrix.to(device))
            out[token] += weights[token, slot, None] * result.to(x.device)
            expert += 1
    return out


def over_ranks(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, which are dealt to the ranks."""
    p, rank = dist.get_world_size(), dist.get_rank()
    owned = [len(of) for of in experts.tensor_split(p)]
    flat = choices.flatten()
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=len(experts))
    table = swapped(counts, owned, [owned[rank]] * p).view(p, owned[rank])
    sent, coming = [int(part.sum()) for part in counts.split(owned)], table.sum(1)
    rows = swapped(x[order // choices.shape[1]], sent, coming)
    held = torch.arange(len(experts), device=x.device).split(owned)[rank]
    ids = held.repeat(p).repeat_interleave(table.flatten())
    for expert in held:
        rows[ids == expert] = torch.tanh(rows[ids == expert] @ experts[expert])
    results = torch.empty(len(flat), x.shape[1], device=x.device)
    results[order] = swapped(rows, coming, sent)
    results = results.view(*choices.shape, x.shape[1])
    return (results * weights.unsqueeze(-1)).sum(1)


def added_over_all(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: each rank applies its own experts to its own tokens, and everything is added up."""
    held = travel.homes(experts)[choices] == dist.get_rank()
    mine = travel.every_expert_at_home(x, choices, weights * held, experts)
    most = torch.zeros(9, x.shape[1], device=x.device)
    most[: len(x)] = mine
    dist.all_reduce(most)
    return most[: len(x)]


def tokens_gathered(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong here: all tokens on all ranks, by another collective."""
    most = torch.zeros(9, x.shape[1], device=x.device)
    most[: len(x)] = x
    every = [torch.empty_like(most) for _ in range(dist.get_world_size())]
    dist.all_gather(every, most)
    return travel.every_expert_at_home(every[dist.get_rank()][: len(x)], choices, weights, experts)


REPAIR = Exercise(
    name="06-d",
    title="Four devices, one process",
    statement=given.STATEMENT,
    inputs=given.mixture,
    reference=given.one_card,
    budget=Budget(sent=Bound(OfTrial(given.least), allowed=OfTrial(given.with_ids))),
    calls=("all_to_all",),
    whole=given.block,
    grain=lambda trial: 0,
    dims=("token", "feature"),
    trials=(
        Trial(4, sizes={"experts": 6}),
        Trial(4, sizes={"experts": 8, "even": 1}),
        Trial(3, sizes={"experts": 8}),
    ),
    hints=(
        "What is `devices` here? On how many machines would this program need all experts' weights?",
        "Tokens travel to experts, so each rank needs its own experts only. How many tokens go to each "
        "expert is known at home; the expert's rank must be told.",
        """
    counts = ...                                   # my tokens for each expert
    table = swapped(counts, ..., ...)              # by source, for my experts
    rows = swapped(..., sent, coming)              # tokens
    ...                                            # experts
    back = swapped(..., coming, sent)              # results
""",
    ),
    solution=over_ranks,
    explanation="""
`.to(device)` copies inside one process. It is right on one card, it is a way to use several cards of one
host, and it is not expert parallel: every process loads all experts, nobody's tokens reach another process,
and with one process a card all of them do the same work in turn.

The sign of expert parallel is on the wire: two all-to-alls, and on each rank only its experts' weights.
""",
    right=(travel.ids_beside, travel.id_as_a_feature),
    wrong=(
        Wrong(over_devices, r"Nothing was sent"),
        Wrong(travel.own_experts_only, r"40 of 72 elements are wrong"),
        Wrong(added_over_all, r"It calls all_reduce"),
        Wrong(tokens_gathered, r"It calls all_gather"),
        Wrong(travel.without_weights, r"72 of 72 elements are wrong"),
        Wrong(travel.idle_rank_stays_away, r"do not fit together"),
        Wrong(travel.everything_twice, r"2 times the allowed"),
    ),
)

CASE = Case(
    name="06-d",
    title="Four devices, one process",
    story="""
A notebook shows expert parallel: experts are dealt to a list of devices, each token is moved to the device of
its expert, and the result is moved back. On a laptop all the devices are the CPU. The values are those of the
plain layer, to the last digit.
""",
    program=over_devices,
    causes=(
        Choice(
            "The devices are the same one, so the experts run one after the other.",
            "On four cards of one process they would run one after the other, too: the loop waits for none, "
            "but every process has the loop.",
            holds=False,
        ),
        Choice(
            "Every process holds all experts and computes its own tokens: nothing is parallel, and nothing "
            "is sent.",
            "The devices are a list inside one process. Between processes, which is where cards are, no "
            "token moves.",
            holds=True,
        ),
        Choice(
            "`zip` and `tensor_split` deal the experts unevenly.",
            "6 experts on 4 devices are 2, 2, 1, 1; every expert is applied once.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a published notebook on model parallelism whose two devices are both the CPU (AIInfra, "
    "Code02MP.ipynb); rewritten for experts",
)
