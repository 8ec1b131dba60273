"""Exercise 02.1: a column-parallel linear layer whose result everybody needs."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.lesson import Bound, Budget, Exercise, Tolerance, Trial, Wrong

Tensors = tuple[torch.Tensor, ...]


def my_column_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """All output features of the layer, on every rank."""
    mine = F.linear(x, weight, bias)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=-1)


def by_hand(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the product written out, everything gathered in one tensor, ranks moved beside features."""
    mine = (x @ weight.T + bias).contiguous()
    parts = mine.new_empty(dist.get_world_size(), *mine.shape)
    dist.all_gather(list(parts), mine)
    return parts.movedim(0, -2).flatten(-2)


def round_the_ring(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the parts go from neighbour to neighbour."""
    rank, p = dist.get_rank(), dist.get_world_size()
    parts = {rank: F.linear(x, weight, bias)}
    for step in range(p - 1):
        arriving = torch.empty_like(parts[rank])
        sending = dist.isend(parts[(rank - step) % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        parts[(rank - step - 1) % p] = arriving
    return torch.cat([parts[number] for number in range(p)], dim=-1)


def adds(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: different features are added up."""
    mine = F.linear(x, weight, bias)
    dist.all_reduce(mine)
    return mine


def own_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: everything is gathered, and this rank's features are returned."""
    my_column_linear(x, weight, bias)
    return F.linear(x, weight, bias)


def among_zeros(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong here: right values, by a sum of tensors that are mostly zeros."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = F.linear(x, weight, bias)
    parts = [torch.zeros_like(mine) for _ in range(p)]
    parts[rank] = mine
    whole = torch.cat(parts, dim=-1)
    dist.all_reduce(whole)
    return whole


def _joined(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, how: str = "side by side"
) -> torch.Tensor:
    """Gathered, and put together in one of several wrong ways."""
    mine = F.linear(x, weight, bias)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    if how == "below each other":
        return torch.cat(parts, dim=1)
    if how == "mixed":
        return torch.stack(parts, dim=-1).flatten(-2)
    return torch.cat(parts[::-1] if how == "backwards" else parts, dim=-1)


def below_each_other(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: joined along the sequence."""
    return _joined(x, weight, bias, how="below each other")


def backwards(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the last rank's features come first."""
    return _joined(x, weight, bias, how="backwards")


def mixed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: feature by feature, one of each rank in turn."""
    return _joined(x, weight, bias, how="mixed")


def without_bias(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the bias is forgotten."""
    return _joined(x, weight, None)


def gathers_the_weights(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong here: right values, but each rank collects the whole layer and does all the work."""
    p = dist.get_world_size()
    weights, biases = ([torch.empty_like(t) for _ in range(p)] for t in (weight, bias))
    dist.all_gather(weights, weight)
    dist.all_gather(biases, bias)
    return F.linear(x, torch.cat(weights), torch.cat(biases))


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """All of x; this rank's output features of weight and bias."""
    inner, outer, dtype = trial["inputs"], trial["outputs"], trial.dtype
    x = inputs.normal(seed, "x", 2, trial["sequence"], inner, dtype=dtype)
    weight = inputs.normal(seed, "weight", outer, inner, dtype=dtype, scale=inner**-0.5)
    bias = inputs.normal(seed, "bias", outer, dtype=dtype)
    return x, inputs.part(weight, rank, trial.ranks), inputs.part(bias, rank, trial.ranks)


def one_card(given: list[Tensors]) -> list[torch.Tensor]:
    """The whole layer."""
    weight, bias = (torch.cat([parts[place] for parts in given]) for place in (1, 2))
    return [F.linear(given[0][0], weight, bias)] * len(given)


def mistakes(given: list[Tensors], rank: int) -> dict[str, torch.Tensor]:
    """What may come out instead."""
    x, weights, biases = given[0][0], [parts[1] for parts in given], [parts[2] for parts in given]
    own = [F.linear(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    return {
        "its own features alone": own[rank],
        "the sum of all ranks' features, which are different features": torch.stack(own).sum(0),
        "the product, without the bias": F.linear(x, torch.cat(weights)),
    }


def output_bytes(trial: Trial) -> int:
    """Bytes of the whole output."""
    return 2 * trial["sequence"] * trial["outputs"] * (2 if trial.dtype == "bfloat16" else 4)


EXERCISE = Exercise(
    name="02.1",
    title="Columns, and everybody needs them all",
    statement="""
Write `my_column_linear(x, weight, bias)`. A linear layer is cut by columns: every rank has all of `x`
(batch, sequence, in), and the `weight` (own out, in) and `bias` (own out) of its own output features, as
many as every other rank has.

Return the layer's whole output (batch, sequence, out), on every rank: rank 0's features first, then rank
1's, and so on.
""",
    inputs=given,
    reference=one_card,
    calls=("all_gather", "all_reduce", "send", "recv", "isend", "irecv"),
    budget=Budget(
        sent=Bound(volume.ring_all_gather, naive=volume.ring_all_reduce),
        memory=Bound(amounts.tensors(2), allowed=amounts.tensors(3)),
    ),
    whole=output_bytes,
    look=likely.named(mistakes),
    trials=(
        Trial(4, sizes={"sequence": 15, "inputs": 80, "outputs": 24}),
        Trial(3, sizes={"sequence": 15, "inputs": 80, "outputs": 24}),
        Trial(4, sizes={"sequence": 15, "inputs": 80, "outputs": 24}, dtype="bfloat16"),
    ),
    tolerance={"bfloat16": Tolerance(0.02, 2**-7, "a product rounded to 8 bits, the same on one card")},
    dims=("batch", "sequence", "features"),
    hints=(
        "Nothing has to be added: each feature is complete on one rank. What is left is to bring them "
        "together.",
        "Draw the output as a sheet, features from left to right. Which strip of it does each rank have? "
        "Along which dimension do the strips lie side by side?",
        """
Three steps, the middle one on the network:

    mine = ...      # this rank's features of the layer: weight is (out, in), as torch keeps it
    ...             # every rank's mine, on every rank
    return ...      # joined along the features
""",
    ),
    solution=my_column_linear,
    explanation="""
An all-gather sends $\\frac{p-1}{p}D$ bytes a rank, where D is the whole output. The same by an all-reduce,
with zeros in the places of others, sends twice as many. Each rank adds the bias of its own features, so
every bias is there once.
""",
    right=(by_hand, round_the_ring),
    wrong=(
        Wrong(adds, r"the sum of all ranks' features, which are different features"),
        Wrong(own_only, r"its own features alone"),
        Wrong(below_each_other, r"shape \(2, 60, 6\), and \(2, 15, 24\) is wanted"),
        Wrong(backwards, r"the right values .*along dimension 2 \(features\)"),
        Wrong(mixed, r"the right values .*along dimension 2 \(features\)"),
        Wrong(without_bias, r"the product, without the bias"),
        Wrong(among_zeros, r"All ranks together sent .*, 2 times the allowed"),
        Wrong(gathers_the_weights, r"Rank 0 sent .* times the allowed"),
    ),
)
