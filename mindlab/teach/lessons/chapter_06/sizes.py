"""Case 06-b: the sizes of the way there, used on the way back."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_06 import given, travel

Tensor = torch.Tensor


def same_sizes_back(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, each expert on its own rank."""
    p, rank, k = dist.get_world_size(), dist.get_rank(), choices.shape[1]
    owned = torch.arange(len(experts), device=x.device).tensor_split(p)
    home = torch.cat([torch.full_like(of, r) for r, of in enumerate(owned)])
    flat = choices.flatten()
    order = flat.argsort(stable=True)
    sent = torch.bincount(home[flat], minlength=p)
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    there, back = coming.tolist(), sent.tolist()
    rows = x.new_empty(sum(there), x.shape[1])
    dist.all_to_all_single(rows, x[order // k], there, back)
    ids = flat.new_empty(sum(there))
    dist.all_to_all_single(ids, flat[order], there, back)
    for expert in owned[rank]:
        rows[ids == expert] = torch.tanh(rows[ids == expert] @ experts[expert])
    returned = x.new_empty(len(flat), x.shape[1])
    dist.all_to_all_single(returned, rows, there, back)
    results = torch.empty_like(returned)
    results[order] = returned
    return (results.view(len(x), k, -1) * weights.unsqueeze(-1)).sum(1)


def through_experts(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """This rank's tokens through their experts, each expert on its own rank."""
    p, rank, k = dist.get_world_size(), dist.get_rank(), choices.shape[1]
    owned = torch.arange(len(experts), device=x.device).tensor_split(p)
    home = torch.cat([torch.full_like(of, r) for r, of in enumerate(owned)])
    flat = choices.flatten()
    order = flat.argsort(stable=True)
    sent = torch.bincount(home[flat], minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    rows = swapped(x[order // k], sent, coming)
    ids = swapped(flat[order], sent, coming)
    for expert in owned[rank]:
        rows[ids == expert] = torch.tanh(rows[ids == expert] @ experts[expert])
    results = torch.empty(len(flat), x.shape[1], device=x.device)
    results[order] = swapped(rows, coming, sent)
    results = results.view(*choices.shape, x.shape[1])
    return (results * weights.unsqueeze(-1)).sum(1)


REPAIR = Exercise(
    name="06-b",
    title="There, and back the same way",
    statement=given.STATEMENT,
    inputs=given.mixture,
    reference=given.one_card,
    budget=Budget(sent=Bound(OfTrial(given.least), allowed=OfTrial(given.with_ids))),
    calls=("all_to_all",),
    whole=given.block,
    grain=lambda trial: 0,
    dims=("token", "feature"),
    trials=(
        Trial(4, sizes={"experts": 8, "even": 1}),
        Trial(4, sizes={"experts": 6}),
        Trial(3, sizes={"experts": 8}),
    ),
    hints=(
        "Write down for rank 0 what it sends and what it gets on the way there. And on the way back?",
        "What rank 0 got from rank 1 it sends to rank 1. What it sent to rank 1 comes back from there.",
        """
    out = swapped(x_in_order, sent, coming)        # there
    ...
    returned = swapped(out, ..., ...)              # back
""",
    ),
    solution=through_experts,
    explanation="""
On the way there a rank sends `sent` and gets `coming`; on the way back it sends `coming` and gets `sent`. As
long as every rank sends as much to every other one, both lists are the same, and the mistake has no effect.
The output's sizes stand before the input's in `all_to_all_single`, which helps to mix them up.
""",
    right=(travel.ids_beside, travel.id_as_a_feature),
    wrong=(
        Wrong(same_sizes_back, r"Split sizes doesn't match"),
        Wrong(travel.in_the_order_of_travel, r"64 of 64 elements are wrong\. No rank"),
        Wrong(travel.weights_of_others, r"experts 8, even 1 it was right"),
        Wrong(travel.idle_rank_stays_away, r"do not fit together"),
        Wrong(travel.everything_twice, r"2 times the allowed"),
        Wrong(travel.lengths_gathered, r"It calls all_gather"),
        Wrong(travel.every_expert_at_home, r"Nothing was sent"),
    ),
)

CASE = Case(
    name="06-b",
    title="There, and back the same way",
    story="""
Every expert of the test gets as many tokens, from every rank: dispatch, experts and combine are right. In
service a request comes in whose tokens prefer some experts, and the processes end.
""",
    program=same_sizes_back,
    causes=(
        Choice(
            "A rank without tokens calls the collective with an empty tensor, which gloo refuses.",
            "Empty tensors are allowed. Look at what each rank has made room for, call by call.",
            holds=False,
        ),
        Choice(
            "The numbers that come were never exchanged.",
            "They were: the first all-to-all does it, and the way there is right.",
            holds=False,
        ),
        Choice(
            "On the way back the sizes of what comes and of what goes are in each other's place.",
            "What a rank got it sends back, and it gets what it sent. In the test both lists were the same.",
            holds=True,
        ),
        Choice(
            "Six experts cannot be dealt to four ranks.",
            "`tensor_split` deals 2, 2, 1, 1. The exchange does not ask how many experts a rank has.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="the review of pytorch pull request 32361 (2020), which brought the uneven form, asks how sizes "
    "that do not fit would be noticed; pytorch issue 117486 (2024) is a program that hangs on them; "
    "rewritten",
)
