"""Exercise 03.2: an all-gather and a reduce-scatter round a pair of products, for the all-reduce's bytes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

import mindlab as ml
from mindlab.parallel import sequence
from mindlab.predict import volume
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Tolerance, Trial, Wrong

Tensor = torch.Tensor
Given = tuple[Tensor, Tensor, Tensor, Tensor, list[int]]
BATCH = 2


def shard_of_mlp(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """This rank's positions, after the MLP."""
    mine = x.transpose(0, 1).contiguous()
    whole = ml.collectives.ring_all_gather(mine, sizes=sizes)
    terms = F.linear(F.gelu(F.linear(whole, up)), down)
    shard = ml.collectives.ring_reduce_scatter(terms, sizes=sizes)
    return shard.transpose(0, 1) + bias


def token_by_token(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Right: an MLP does not ask which position a token has, so batch and sequence may be one dimension."""
    rows = [x.shape[0] * size for size in sizes]
    whole = ml.collectives.ring_all_gather(x.flatten(0, 1), sizes=rows)
    terms = torch.nn.functional.gelu(whole @ up.T) @ down.T
    shard = ml.collectives.ring_reduce_scatter(terms, sizes=rows)
    return shard.view_as(x) + bias


def from_the_package(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Right: the two ways between the shards that the package has."""
    whole = sequence.gather_sequence(x, sizes)
    return sequence.scatter_sequence(F.linear(F.gelu(F.linear(whole, up)), down), sizes) + bias


def _gathered(x: Tensor, sizes: list[int]) -> Tensor:
    return sequence.gather_sequence(x, sizes)


def summed_then_cut(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: right values; the whole sum goes to everybody, who throws most of it away."""
    total = F.linear(F.gelu(F.linear(_gathered(x, sizes), up)), down)
    dist.all_reduce(total)
    return torch.split(total, sizes, dim=1)[dist.get_rank()] + bias


def the_library(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong on gloo: right values; its reduce_scatter is an all_reduce inside."""
    terms = F.linear(F.gelu(F.linear(_gathered(x, sizes), up)), down)
    parts = [part.contiguous() for part in terms.split(sizes, dim=1)]
    out = torch.empty_like(parts[dist.get_rank()])
    dist.reduce_scatter(out, parts)
    return out + bias


def bias_in_every_term(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: the bias is in each of the p terms."""
    terms = F.linear(F.gelu(F.linear(_gathered(x, sizes), up)), down, bias)
    return sequence.scatter_sequence(terms, sizes)


def not_gathered(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: the sum is over ranks that hold different tokens."""
    out = F.linear(F.gelu(F.linear(x, up)), down)
    dist.all_reduce(out)
    return out + bias


def not_summed(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: gathered, and then each rank keeps its positions of its own term."""
    terms = F.linear(F.gelu(F.linear(_gathered(x, sizes), up)), down)
    return torch.split(terms, sizes, dim=1)[dist.get_rank()] + bias


def cut_along_the_batch(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: a reduce-scatter cuts the first dimension, which is the batch."""
    terms = F.linear(F.gelu(F.linear(_gathered(x, sizes), up)), down)
    return ml.collectives.ring_reduce_scatter(terms) + bias


def the_neighbours_shard(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: the shard of the right neighbour."""
    whole = _gathered(x, sizes)
    terms = F.linear(F.gelu(F.linear(whole, up)), down)
    turned = torch.cat([*terms.split(sizes, dim=1)[1:], terms.split(sizes, dim=1)[0]], dim=1)
    return sequence.scatter_sequence(turned, sizes[1:] + sizes[:1]) + bias


def joined_along_the_batch(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
    """Wrong: right as long as all shards are equally long; x is joined along the batch."""
    whole = ml.collectives.ring_all_gather(x)
    terms = F.linear(F.gelu(F.linear(whole, up)), down)
    return ml.collectives.ring_reduce_scatter(terms) + bias


def _given(seed: int, rank: int, trial: Trial) -> Given:
    """This rank's positions of x, its features of both weights, and the whole bias."""
    ranks, hidden, inner, dtype = trial.ranks, trial["hidden"], trial["inner"], trial.dtype
    x = inputs.normal(seed, "x", BATCH, trial["sequence"], hidden, dtype=dtype)
    up = inputs.normal(seed, "up", inner, hidden, dtype=dtype, scale=hidden**-0.5)
    down = inputs.normal(seed, "down", hidden, inner, dtype=dtype, scale=inner**-0.5)
    bias = inputs.normal(seed, "bias", hidden, dtype=dtype)
    sizes = [part.shape[1] for part in x.tensor_split(ranks, dim=1)]
    mine = inputs.part(x, rank, ranks, dim=1)
    return mine, inputs.part(up, rank, ranks), inputs.part(down, rank, ranks, dim=1), bias, sizes


def _reference(given: list[Given]) -> list[Tensor]:
    x = torch.cat([parts[0] for parts in given], dim=1)
    up = torch.cat([parts[1] for parts in given])
    down = torch.cat([parts[2] for parts in given], dim=1)
    out = F.linear(F.gelu(F.linear(x, up)), down) + given[0][3]
    return [part.clone() for part in out.split(given[0][4], dim=1)]


def _row(trial: Trial) -> int:
    """Bytes of one position of all requests."""
    return BATCH * trial["hidden"] * (2 if trial.dtype == "bfloat16" else 4)


EXERCISE = Exercise(
    name="03.2",
    title="Around a pair of products, without an all-reduce",
    statement="""
Write `shard_of_mlp(x, up, down, bias, sizes)`. Each rank gets its positions of `x`, (batch, own positions,
hidden), its features of the two weights of an MLP, (own inner, hidden) and (hidden, own inner), and the
whole bias of the second one. `sizes` says how many positions each rank has. Return this rank's positions of
`down(gelu(up(x))) + bias`, (batch, own positions, hidden).

What is sent must be no more than the all-reduce of a tensor-parallel MLP would send. `ml.collectives` lends
`ring_all_gather(x, sizes=...)` and `ring_reduce_scatter(x, sizes=...)`; both work along the first dimension.
""",
    inputs=_given,
    reference=_reference,
    calls=("send", "recv", "isend", "irecv", "all_gather", "reduce_scatter", "all_reduce"),
    budget=Budget(
        sent=Bound(
            OfTrial(
                lambda trial: volume.sequence_parallel(
                    BATCH,
                    trial["sequence"],
                    trial["hidden"],
                    trial.ranks,
                    itemsize=_row(trial) // (BATCH * trial["hidden"]),
                    pairs=1,
                )
            ),
            naive=OfTrial(
                lambda trial: (
                    1.5
                    * volume.sequence_parallel(
                        BATCH,
                        trial["sequence"],
                        trial["hidden"],
                        trial.ranks,
                        itemsize=_row(trial) // (BATCH * trial["hidden"]),
                        pairs=1,
                    )
                )
            ),
        ),
    ),
    whole=lambda trial: trial["sequence"] * _row(trial),
    grain=lambda trial: 0,
    tolerance={"bfloat16": Tolerance(0.1, 2**-5, "each rank's term of the sum is rounded to 8 bits")},
    dims=("batch", "sequence", "hidden"),
    trials=(
        Trial(4, sizes={"sequence": 12, "hidden": 24, "inner": 48}),
        Trial(4, sizes={"sequence": 14, "hidden": 24, "inner": 50}),
        Trial(3, sizes={"sequence": 14, "hidden": 24, "inner": 50}),
        Trial(4, sizes={"sequence": 14, "hidden": 24, "inner": 50}, dtype="bfloat16"),
    ),
    hints=(
        "Before `up`, a rank lacks the other ranks' positions. After `down`, it has a term of the sum for"
        " all positions, and needs the sum for its own only. Which two collectives do just that?",
        "Both collectives work along the first dimension, and x is (batch, sequence, hidden). Which "
        "dimension must stand first while something is sent?",
        """
    mine = x.transpose(0, 1).contiguous()       # positions first
    whole = ...                                 # everybody's positions
    terms = ...                                 # this rank's term of the sum; no bias in it
    shard = ...                                 # the sum, of this rank's positions
    return shard.transpose(0, 1) + ...
""",
    ),
    solution=shard_of_mlp,
    explanation="""
All-gather and reduce-scatter are the two halves of an all-reduce, in the other order and with the products
between them: $\\frac{p-1}{p}D$ each. The bias comes in once, after the sum, and only for this rank's
positions.

Positions stand first while they are sent; in the batch's order a shard would be one piece of each request.
""",
    right=(token_by_token, from_the_package),
    wrong=(
        Wrong(summed_then_cut, r"All ranks together sent .*, 1.5 times the allowed"),
        Wrong(the_library, r"All ranks together sent .*, 1.5 times the allowed"),
        Wrong(bias_in_every_term, r"right but for 3 x `bias` too much"),
        Wrong(not_gathered, r"Rank 0: element .* elements are wrong"),
        Wrong(not_summed, r"Rank 0: element .* elements are wrong"),
        Wrong(cut_along_the_batch, r"returned a tensor of shape"),
        Wrong(the_neighbours_shard, r"returned what belongs on rank 1"),
        Wrong(joined_along_the_batch, r"do not fit together|raised|ended before"),
    ),
)
