"""What the exercises of chapter 06 hand to the ranks: tokens, the experts that were chosen, their weights."""

from __future__ import annotations

import torch

from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.sources import COUNTED_BY_HAND
from mindlab.teach import inputs
from mindlab.teach.lesson import Trial

HIDDEN, TOP_K = 8, 2
ROW = HIDDEN * 4
Tensor = torch.Tensor


STATEMENT = """
This rank's tokens through their experts, each expert on its own rank. `x` is (T, 8), perhaps empty; `choices`
(T, 2) and `weights` (T, 2) are what the router said. `experts` is (E, 8, 8); expert e gives
`torch.tanh(x @ experts[e])`. Experts are dealt to ranks as `torch.tensor_split` deals, and a rank may apply
those alone that are its own. `swapped` of `mindlab.parallel.expert` may be used.
"""
"""Of both cases whose repair is the whole layer."""


def lengths(trial: Trial) -> list[int]:
    """How many tokens each rank has: as many as experts in an even trial, else 9, 6, 3, … and none."""
    if trial.sizes.get("even"):
        return [trial["experts"]] * trial.ranks
    return [9, 0, 7, 4][: trial.ranks]


def choices(trial: Trial) -> list[Tensor]:
    """By rank the experts of its tokens, (T, 2): the same for every seed, for bytes depend on them.

    Even: every expert twice. Else the first experts are chosen most.
    """
    experts, draw = trial["experts"], torch.Generator().manual_seed(6)
    if trial.sizes.get("even"):
        one = torch.stack([torch.arange(experts), (torch.arange(experts) + 1) % experts], 1)
        return [one] * trial.ranks
    chances = torch.arange(experts, 0, -1, dtype=torch.float64) ** 2
    empty = torch.empty(0, TOP_K, dtype=torch.int64)
    return [
        torch.multinomial(chances.expand(count, -1), TOP_K, generator=draw) if count else empty
        for count in lengths(trial)
    ]


def weights(seed: int, rank: int, trial: Trial) -> Tensor:
    """(T, 2), each row adds up to 1; in an even trial all are a half."""
    count = lengths(trial)[rank]
    if trial.sizes.get("even"):
        return torch.full((count, TOP_K), 0.5)
    return inputs.normal(seed, "weights", count, TOP_K, rank=rank).softmax(-1)


def tokens(seed: int, rank: int, trial: Trial) -> Tensor:
    """This rank's tokens, (T, 8)."""
    return inputs.normal(seed, "tokens", lengths(trial)[rank], HIDDEN, rank=rank)


def experts(seed: int, trial: Trial) -> Tensor:
    """One matrix an expert, (E, 8, 8), the same on every rank."""
    return inputs.normal(seed, "experts", trial["experts"], HIDDEN, HIDDEN, scale=HIDDEN**-0.5)


def mixture(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, choices, weights, experts: what a layer has once the router has chosen."""
    chosen = choices(trial)[rank]
    return tokens(seed, rank, trial), chosen, weights(seed, rank, trial), experts(seed, trial)


def results(x: Tensor, chosen: Tensor, matrices: Tensor) -> Tensor:
    """Each token's result from each of its experts, (T, 2, 8), on one card."""
    return torch.tanh(torch.einsum("th,tkhi->tki", x, matrices[chosen]))


def one_card(given: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> list[Tensor]:
    """By rank the weighted sums of its tokens' results."""
    return [
        (results(x, chosen, matrices) * weight[..., None]).sum(1) for x, chosen, weight, matrices in given
    ]


def least(trial: Trial) -> Quantity:
    """Bytes that each rank sends: tokens there, results back, counts for each expert."""
    routes = [chosen.tolist() for chosen in choices(trial)]
    return volume.expert_parallel(routes, trial["experts"], HIDDEN, itemsize=4)


def with_ids(trial: Trial) -> Quantity:
    """The same, with a count for each rank and an int64 for each token in place of counts by expert."""
    sizes = trial["experts"], HIDDEN
    routes = [chosen.tolist() for chosen in choices(trial)]
    there = volume.expert_dispatch(routes, *sizes, itemsize=4).by_rank(trial.ranks)
    back = volume.expert_combine(routes, *sizes, itemsize=4).by_rank(trial.ranks)
    by_rank = [
        int(to * (ROW + 8) // ROW + fro) + 8 * (trial.ranks - 1) for to, fro in zip(there, back, strict=True)
    ]
    formula = r"\sum_{d \ne r} (n_{rd}(h e + 8) + n_{dr} h e) + 8(p-1)"
    return counted("expert_parallel", by_rank, formula, COUNTED_BY_HAND)


def block(trial: Trial) -> int:
    """Bytes of all tokens."""
    return sum(lengths(trial)) * ROW
