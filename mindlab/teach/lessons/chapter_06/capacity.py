"""Case 06-c: tokens over a capacity, dropped and not mentioned."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_06 import given, travel

Tensor = torch.Tensor


def equal_buffers(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, with one buffer an expert."""
    p, rank = dist.get_world_size(), dist.get_rank()
    most = torch.tensor([choices.numel()], device=x.device)
    every = [torch.empty_like(most) for _ in range(p)]
    dist.all_gather(every, most)
    capacity = -(-int(max(every)) // len(experts))
    leaving = x.new_zeros(len(experts), capacity, x.shape[1])
    places = [(choices == expert).nonzero()[:capacity] for expert in range(len(experts))]
    for expert, place in enumerate(places):
        leaving[expert, : len(place)] = x[place[:, 0]]
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)
    held = experts.chunk(p)[rank]
    results = torch.tanh(arriving.view(p, -1, capacity, x.shape[1]) @ held).view_as(leaving)
    dist.all_to_all_single(leaving, results)
    out = torch.zeros_like(x)
    for expert, place in enumerate(places):
        weight = weights[place[:, 0], place[:, 1], None]
        out[place[:, 0]] += weight * leaving[expert, : len(place)]
    return out


def with_sizes(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, each expert on its own rank."""
    p, rank, hidden = dist.get_world_size(), dist.get_rank(), x.shape[1]
    flat, each = choices.flatten(), len(experts) // dist.get_world_size()
    order = flat.argsort(stable=True)
    sent = torch.bincount(flat // each, minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    rows = swapped(x[order // choices.shape[1]], sent, coming)
    ids = swapped(flat[order], sent, coming)
    for expert in range(rank * each, (rank + 1) * each):
        rows[ids == expert] = torch.tanh(rows[ids == expert] @ experts[expert])
    results = torch.empty(len(flat), hidden, device=x.device)
    results[order] = swapped(rows, coming, sent)
    return (results.view(*choices.shape, hidden) * weights.unsqueeze(-1)).sum(1)


def room_for_all(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Right: buffers with room for the fullest expert of any rank."""
    p, rank = dist.get_world_size(), dist.get_rank()
    most = torch.bincount(choices.flatten(), minlength=len(experts)).max().reshape(1)
    every = [torch.empty_like(most) for _ in range(p)]
    dist.all_gather(every, most)
    capacity = int(max(every))
    leaving = x.new_zeros(len(experts), capacity, x.shape[1])
    places = [(choices == expert).nonzero() for expert in range(len(experts))]
    for expert, place in enumerate(places):
        leaving[expert, : len(place)] = x[place[:, 0]]
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)
    held = experts.chunk(p)[rank]
    results = torch.tanh(arriving.view(p, -1, capacity, x.shape[1]) @ held).view_as(leaving)
    dist.all_to_all_single(leaving, results)
    out = torch.zeros_like(x)
    for expert, place in enumerate(places):
        weight = weights[place[:, 0], place[:, 1], None]
        out[place[:, 0]] += weight * leaving[expert, : len(place)]
    return out


def dropped_by_slot(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: second choices are dropped, first ones kept."""
    results = travel.there_and_back(x, choices, experts)
    return results[:, 0] * weights[:, :1]


def weights_made_one_again(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: drops as before, and the weights of what is left are scaled up, which hides it better."""
    kept = torch.ones_like(weights)
    capacity = -(-choices.numel() // len(experts))
    for expert in range(len(experts)):
        for token, slot in (choices == expert).nonzero()[capacity:].tolist():
            kept[token, slot] = 0
    scaled = weights * kept
    scaled = scaled / scaled.sum(1, keepdim=True).clamp_min(1e-9)
    return (travel.there_and_back(x, choices, experts) * scaled[..., None]).sum(1)


def token_itself_for_a_dropped_one(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: where a result is zero, the token itself stands in for it."""
    out = equal_buffers(x, choices, weights, experts)
    return torch.where(out == 0, x, out)


def own_capacity(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: room for this rank's largest count, of which the others know nothing."""
    capacity = int(torch.bincount(choices.flatten(), minlength=len(experts)).max())
    leaving = x.new_zeros(len(experts), capacity, x.shape[1])
    places = [(choices == expert).nonzero() for expert in range(len(experts))]
    for expert, place in enumerate(places):
        leaving[expert, : len(place)] = x[place[:, 0]]
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)
    held = experts.chunk(dist.get_world_size())[dist.get_rank()]
    shape = dist.get_world_size(), -1, capacity, x.shape[1]
    dist.all_to_all_single(leaving, torch.tanh(arriving.view(shape) @ held).view_as(leaving))
    out = torch.zeros_like(x)
    for expert, place in enumerate(places):
        out[place[:, 0]] += weights[place[:, 0], place[:, 1], None] * leaving[expert, : len(place)]
    return out


def _allowed(trial: Trial) -> int:
    """Bytes of buffers with room for the fullest, there and back, or of sizes and ids, whichever is more."""
    counts = [torch.bincount(one.flatten(), minlength=trial["experts"]) for one in given.choices(trial)]
    most = max(int(count.max()) for count in counts)
    elsewhere = trial["experts"] * (trial.ranks - 1) // trial.ranks
    padded = 2 * elsewhere * most * given.ROW + 8 * (trial.ranks - 1)
    return max(padded, *map(int, given.with_ids(trial).by_rank(trial.ranks)))


REPAIR = Exercise(
    name="06-c",
    title="Buffers of equal size",
    statement="""
This rank's tokens through their experts, each expert on its own rank. `x` is (T, 8), perhaps empty; `choices`
(T, 2) and `weights` (T, 2) are what the router said. `experts` is (E, 8, 8), and p divides E; expert e gives
`torch.tanh(x @ experts[e])`. Every choice counts.
""",
    inputs=given.mixture,
    reference=given.one_card,
    budget=Budget(sent=Bound(OfTrial(given.least), allowed=OfTrial(_allowed))),
    calls=("all_to_all", "all_gather"),
    whole=given.block,
    grain=lambda trial: 0,
    dims=("token", "feature"),
    trials=(
        Trial(4, sizes={"experts": 8, "even": 1}),
        Trial(4, sizes={"experts": 8}),
        Trial(3, sizes={"experts": 6}),
    ),
    hints=(
        "How many tokens choose the busiest expert, and how many does its buffer take? Print both.",
        "Either the buffers are large enough for the fullest one on any rank, or there are no buffers of "
        "equal size.",
        """
    sent = ...                          # how many rows go to each rank
    coming = swapped(sent, ..., ...)    # how many come
    rows = swapped(..., sent, coming)   # no buffer of equal size any more
""",
    ),
    solution=with_sizes,
    explanation="""
`ceil(k T / E)` is room for every choice if all experts are chosen alike. They never are. What finds no room
is left out of the sum, and the token goes on with what is left, or with nothing: no shape and no exception
tells of it.

With room for the fullest expert nothing is lost, and every buffer is sent at that size: mostly zeros. Sizes
that are exchanged first cost 8 bytes each and send tokens only. Where a capacity is wanted, for speed, count
what it drops: `last_dispatch.dropped`.
""",
    right=(room_for_all, travel.id_as_a_feature),
    wrong=(
        Wrong(equal_buffers, r"is 0 where .*experts 8, even 1 it was right"),
        Wrong(dropped_by_slot, r"64 of 64 elements are wrong\. No rank"),
        Wrong(weights_made_one_again, r"experts 8, even 1 it was right"),
        Wrong(token_itself_for_a_dropped_one, r"24 of 72 elements are wrong"),
        Wrong(own_capacity, r"do not fit together"),
        Wrong(travel.every_expert_at_home, r"Nothing was sent"),
        Wrong(travel.everything_twice, r"times the allowed"),
    ),
)

CASE = Case(
    name="06-c",
    title="Buffers of equal size",
    story="""
All buffers are equal, so the exchange needs no sizes, and every call has the same shape: quick, and right in
the test, where each expert gets as many tokens. In service some answers are worse than on one card. Which
ones changes with who else is in the batch. Nothing is reported.
""",
    program=equal_buffers,
    causes=(
        Choice(
            "What does not fit an expert's buffer is left out, and nobody counts it.",
            "The buffers have room for the mean. `[:capacity]` cuts off the rest; these results are missing "
            "in the sum.",
            holds=True,
        ),
        Choice(
            "The zeros that fill a buffer go through the expert and are added.",
            "They go through it, and what comes of them is never read: only as many rows are taken as there "
            "are places.",
            holds=False,
        ),
        Choice(
            "Ranks have different capacities, so that pieces are cut in the wrong places.",
            "The capacity comes from the largest number of choices on any rank: it is one number for all.",
            holds=False,
        ),
        Choice(
            "The second exchange writes into the buffer that is being sent.",
            "It sends `results` and writes into `leaving`, which is no longer needed.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="capacity and drops: Lepikhin et al. 2020 (GShard), section 2.2; in inference they are still met: "
    "DeepSpeed issue 6809 (2024, a program that hangs with drop_tokens), Tutel issue 173 (2022, one that "
    "hangs where ranks have different capacities); the program is ours",
)
