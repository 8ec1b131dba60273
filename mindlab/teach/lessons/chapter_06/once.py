"""Exercise 06.2: a token goes once to a rank, however many of its experts live there."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped
from mindlab.predict import volume
from mindlab.predict.placement import holders
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.sources import COUNTED_BY_HAND
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_06 import given

Tensor = torch.Tensor


def my_once(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """The tokens that have an expert on this rank, each once."""
    p = dist.get_world_size()
    going = [(home[choices] == rank).any(1).nonzero().flatten() for rank in range(p)]
    sent = torch.tensor([len(tokens) for tokens in going], device=x.device)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x[torch.cat(going)], sent, coming)


def by_pairs(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Right: pairs of rank and token, each once, in order."""
    p = dist.get_world_size()
    token = torch.arange(len(x), device=x.device)[:, None].expand_as(choices)
    pairs = torch.unique(home[choices] * len(x) + token)
    sent = torch.bincount(pairs // max(1, len(x)), minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x[pairs % max(1, len(x))], sent, coming)


def by_a_table(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Right: a table of rank and token."""
    p = dist.get_world_size()
    wanted = torch.zeros(p, len(x), dtype=torch.bool, device=x.device)
    for slot in range(choices.shape[1]):
        wanted[home[choices[:, slot]], torch.arange(len(x), device=x.device)] = True
    sent = wanted.sum(1)
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    out = x.new_empty(int(coming.sum()), x.shape[1])
    dist.all_to_all_single(out, x[wanted.nonzero()[:, 1]], coming.tolist(), sent.tolist())
    return out


def _each(x: Tensor, choices: Tensor, home: Tensor) -> tuple[Tensor, list[int]]:
    """A row for each token and expert, and how many came from each rank."""
    p, flat = dist.get_world_size(), home[choices].flatten()
    order = flat.argsort(stable=True)
    sent = torch.bincount(flat, minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x[order // choices.shape[1]], sent, coming), coming.tolist()


def once_an_expert(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: a row for each token and expert."""
    return _each(x, choices, home)[0]


def thrown_away_on_arrival(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: right values, but rows travel twice and are thrown away where they arrive."""
    rows, coming = _each(x, choices, home)
    parts = []
    for part in rows.split(coming):
        new = torch.ones(len(part), dtype=torch.bool, device=x.device)
        new[1:] = (part[1:] != part[:-1]).any(1)
        parts.append(part[new])
    return torch.cat(parts)


def first_choice_only(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: only the first expert's rank gets the token."""
    return _each(x, choices[:, :1], home)[0]


def everything_to_everybody(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: every token goes to every rank."""
    p = dist.get_world_size()
    sent = torch.full((p,), len(x), device=x.device)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x.repeat(p, 1), sent, coming)


def expert_for_rank(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: the expert's number is taken for a rank's, as if each rank had one expert."""
    return my_once(x, choices % dist.get_world_size(), torch.arange(len(home), device=x.device))


def own_tokens_stay_out(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: tokens whose expert lives on their own rank are missing."""
    p, rank = dist.get_world_size(), dist.get_rank()
    going = [(home[choices] == other).any(1).nonzero().flatten() for other in range(p)]
    going[rank] = going[rank][:0]
    sent = torch.tensor([len(tokens) for tokens in going], device=x.device)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x[torch.cat(going)], sent, coming)


def counts_of_choices(x: Tensor, choices: Tensor, home: Tensor) -> Tensor:
    """Wrong: rows once a rank, but counted once an expert."""
    p = dist.get_world_size()
    going = [(home[choices] == rank).any(1).nonzero().flatten() for rank in range(p)]
    sent = torch.bincount(home[choices].flatten(), minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    return swapped(x[torch.cat(going)], sent, coming)


def _home(trial: Trial) -> Tensor:
    return torch.tensor([of[0] for of in holders(trial["experts"], trial.ranks)])


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
    return given.tokens(seed, rank, trial), given.choices(trial)[rank], _home(trial)


def _one_card(all_given: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    return [
        torch.cat([x[(home[choices] == rank).any(1)] for x, choices, home in all_given])
        for rank in range(len(all_given))
    ]


def _bytes(trial: Trial, once: bool = True) -> Quantity:
    routes = [chosen.tolist() for chosen in given.choices(trial)]
    sizes = trial["experts"], given.HIDDEN
    tokens = volume.expert_dispatch(routes, *sizes, itemsize=4, once_per_rank=once)
    by_rank = [int(n) + 8 * (trial.ranks - 1) for n in tokens.by_rank(trial.ranks)]
    return counted("once", by_rank, r"h\,e \sum_{d \ne r} n_{rd} + 8(p-1)", COUNTED_BY_HAND)


EXERCISE = Exercise(
    name="06.2",
    title="Once per rank",
    statement="""
A token has two experts. If both live on one rank, the token need not go there twice. Write
`my_once(x, choices, home)`.

`x` is (T, 8), this rank's tokens, perhaps none; `choices` (T, 2) are the experts of each; `home` (E) says on
which rank an expert lives. Return the tokens that have an expert on this rank, each once: first those of
rank 0 in their order, then those of rank 1, and so on, its own in their place.

You may use `swapped(x, sent, received)` of `mindlab.parallel.expert`. No token may go to a rank twice.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(_bytes), naive=OfTrial(lambda trial: _bytes(trial, once=False))),
        collectives={"all_to_all": 2},
    ),
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
        "Which tokens go to rank d? Ask it of every token: is one of its experts at home there?",
        "`home[choices]` is (T, 2): the ranks of a token's experts. A token goes to d if one of its two "
        "numbers is d, also if both are.",
        """
    for rank in range(p):
        ...                     # a mask over tokens: one of its experts lives there
    sent = ...                  # how many for each rank
    coming = ...                # an all-to-all of numbers
    return swapped(...)
""",
    ),
    solution=my_once,
    explanation="""
`any(1)` turns two choices into one journey. On arrival the rank must still learn which of its experts the
token wants, and with what weights: that is one float for each token and expert of the rank, where a token of
a large model is thousands of numbers.

The results can go back once, too: the rank adds up its experts' weighted results and sends the sum. Then the
weights are applied there, and must not be applied again at home.
""",
    right=(by_pairs, by_a_table),
    wrong=(
        Wrong(once_an_expert, r"shape \(26, 8\), and \(18, 8\) is wanted"),
        Wrong(thrown_away_on_arrival, r"times the allowed"),
        Wrong(first_choice_only, r"shape \(14, 8\), and \(18, 8\) is wanted"),
        Wrong(everything_to_everybody, r"shape \(20, 8\), and \(18, 8\) is wanted"),
        Wrong(expert_for_rank, r"shape \(15, 8\), and \(18, 8\) is wanted"),
        Wrong(own_tokens_stay_out, r"shape \(10, 8\), and \(18, 8\) is wanted"),
        Wrong(counts_of_choices, r"Split sizes doesn't match"),
    ),
)
