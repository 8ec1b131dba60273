"""Exercise 02.2: an MLP with one all-reduce."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.lesson import Bound, Budget, Exercise, Tolerance, Trial, Wrong

Tensor = torch.Tensor
Tensors = tuple[torch.Tensor, ...]


def my_mlp(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """The MLP's whole output, on every rank."""
    middle = F.gelu(F.linear(x, up, up_bias))
    out = F.linear(middle, down)
    dist.all_reduce(out)
    return out + down_bias


def bias_on_rank_0(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Right: one rank alone puts the bias into its partial sum."""
    middle = F.gelu(x @ up.T + up_bias)
    out = middle @ down.T
    if dist.get_rank() == 0:
        out += down_bias
    dist.all_reduce(out)
    return out


def in_two_halves(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Right: one all-reduce of partial sums that were filled batch by batch."""
    out = x.new_empty(*x.shape[:-1], len(down_bias))
    for part, into in zip(x, out, strict=True):
        into.copy_(F.linear(F.gelu(F.linear(part, up, up_bias)), down))
    dist.all_reduce(out)
    return out.add_(down_bias)


def bias_on_every_rank(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong: the bias of the second layer is in the sum p times."""
    out = F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)
    dist.all_reduce(out)
    return out


def without_first_bias(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong: the first layer's bias is forgotten."""
    out = F.linear(F.gelu(F.linear(x, up)), down)
    dist.all_reduce(out)
    return out + down_bias


def gelu_behind(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong: GeLU stands behind the second layer."""
    out = F.linear(F.linear(x, up, up_bias), down)
    dist.all_reduce(out)
    return F.gelu(out) + down_bias


def own_terms_only(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong: summed, and then the partial sum is returned."""
    out = F.linear(F.gelu(F.linear(x, up, up_bias)), down)
    dist.all_reduce(out.clone())
    return out + down_bias


def mean(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong: the mean of the partial sums."""
    out = F.linear(F.gelu(F.linear(x, up, up_bias)), down)
    dist.all_reduce(out)
    return out / dist.get_world_size() + down_bias


def bias_by_bias(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong here: right values, and a second all-reduce that nobody needs."""
    rank, p = dist.get_rank(), dist.get_world_size()
    out = F.linear(F.gelu(F.linear(x, up, up_bias)), down)
    dist.all_reduce(out)
    bias = down_bias * (rank == p - 1)
    dist.all_reduce(bias)
    return out + bias


def everybody_adds(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong here: right values; every partial sum goes to every rank."""
    out = F.linear(F.gelu(F.linear(x, up, up_bias)), down)
    terms = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(terms, out)
    return torch.stack(terms).sum(0) + down_bias


def whole_middle(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    """Wrong here: right values; the whole middle is summed up, each rank's features among zeros."""
    rank, p, inner = dist.get_rank(), dist.get_world_size(), torch.tensor([len(up)])
    dist.all_reduce(inner)
    first = sum(int(inner) // p + (other < int(inner) % p) for other in range(rank))
    middle = x.new_zeros(*x.shape[:-1], int(inner))
    middle[..., first : first + len(up)] = F.gelu(F.linear(x, up, up_bias))
    dist.all_reduce(middle)
    out = F.linear(middle[..., first : first + len(up)], down)
    dist.all_reduce(out)
    return out + down_bias


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """All of x, this rank's middle features of both layers, the whole last bias."""
    hidden, inner, dtype = trial["hidden"], trial["inner"], trial.dtype
    x = inputs.normal(seed, "x", 2, trial["sequence"], hidden, dtype=dtype)
    up = inputs.normal(seed, "up", inner, hidden, dtype=dtype, scale=hidden**-0.5)
    down = inputs.normal(seed, "down", hidden, inner, dtype=dtype, scale=inner**-0.5)
    up_bias = inputs.normal(seed, "up bias", inner, dtype=dtype)
    down_bias = inputs.normal(seed, "down bias", hidden, dtype=dtype)
    own = [inputs.part(tensor, rank, trial.ranks) for tensor in (up, up_bias)]
    return x, own[0], own[1], inputs.part(down, rank, trial.ranks, dim=1), down_bias


def one_card(given: list[Tensors]) -> list[Tensor]:
    """Both layers whole."""
    up, up_bias = (torch.cat([parts[place] for parts in given]) for place in (1, 2))
    down = torch.cat([parts[3] for parts in given], dim=1)
    middle = F.gelu(F.linear(given[0][0], up, up_bias))
    return [F.linear(middle, down, given[0][4])] * len(given)


def _terms(given: list[Tensors]) -> list[Tensor]:
    """Each rank's term of the sum, without the last bias."""
    return [F.linear(F.gelu(F.linear(x, up, up_bias)), down) for x, up, up_bias, down, _ in given]


def mistakes(given: list[Tensors], rank: int) -> dict[str, Tensor]:
    """What may come out instead."""
    terms, bias = _terms(given), given[0][4]
    no_first = [F.linear(F.gelu(F.linear(x, up)), down) for x, up, _, down, _ in given]
    no_gelu = [F.linear(F.linear(x, up, up_bias), down) for x, up, up_bias, down, _ in given]
    return {
        "its own term of the sum alone": terms[rank] + bias,
        "the mean of the ranks' terms": torch.stack(terms).mean(0) + bias,
        "a result without `up_bias`": torch.stack(no_first).sum(0) + bias,
        "a result in which GeLU does not stand between the layers": F.gelu(torch.stack(no_gelu).sum(0))
        + bias,
    }


EXERCISE = Exercise(
    name="02.2",
    title="An MLP with one all-reduce",
    statement="""
Write `my_mlp(x, up, up_bias, down, down_bias)`: a linear layer up, GeLU (the exact one, `F.gelu`), a linear
layer down. Every rank has all of `x` (batch, sequence, hidden). Of the inner features it has its own share:
`up` (own inner, hidden), `up_bias` (own inner), `down` (hidden, own inner). `down_bias` (hidden) is whole on
every rank.

Return the whole output (batch, sequence, hidden), on every rank. Ranks may have different numbers of inner
features.
""",
    inputs=given,
    reference=one_card,
    calls=("all_reduce", "all_gather"),
    look=likely.named(mistakes),
    budget=Budget(
        sent=Bound(volume.ring_all_reduce, naive=amounts.to_every_other),
        collectives={"all_reduce": 1},
    ),
    whole=lambda trial: 2 * trial["sequence"] * trial["hidden"] * (2 if trial.dtype == "bfloat16" else 4),
    trials=(
        Trial(4, sizes={"sequence": 5, "hidden": 12, "inner": 16}),
        Trial(4, sizes={"sequence": 5, "hidden": 12, "inner": 18}),
        Trial(3, sizes={"sequence": 5, "hidden": 12, "inner": 16}),
        Trial(4, sizes={"sequence": 5, "hidden": 12, "inner": 18}, dtype="bfloat16"),
    ),
    tolerance={"bfloat16": Tolerance(0.1, 2**-5, "each rank's part of the sum is rounded to 8 bits")},
    dims=("batch", "sequence", "features"),
    hints=(
        "Up is cut by columns, down by rows. What does each rank hold between them, and does it need "
        "anybody for GeLU?",
        "Follow one inner feature: it is computed on one rank, goes through GeLU there, and enters the "
        "output as one term of a sum. The sum runs over all inner features, so over all ranks. Which of "
        "the four weights is no term of that sum?",
        """
One call, and what is the same on all ranks comes after it:

    middle = ...             # own inner features, through GeLU
    out = ...                # this rank's term of the sum
    dist.all_reduce(out)
    return ...
""",
    ),
    solution=my_mlp,
    explanation="""
The inner features never leave their rank: the bytes do not depend on how many there are. One all-reduce of
(batch, sequence, hidden) sends $2\\frac{p-1}{p}$ of it a rank. `up_bias` is cut with its features;
`down_bias` belongs to the sum and must come once: after it, or on one rank.
""",
    right=(bias_on_rank_0, in_two_halves),
    wrong=(
        Wrong(bias_on_every_rank, r"right but for 3 x `down_bias` too much"),
        Wrong(without_first_bias, r"without `up_bias`"),
        Wrong(gelu_behind, r"GeLU does not stand between the layers"),
        Wrong(own_terms_only, r"its own term of the sum alone"),
        Wrong(mean, r"the mean of the ranks' terms"),
        Wrong(bias_by_bias, r"called all_reduce 2 times; the budget is 1"),
        Wrong(everybody_adds, r"Rank 0 sent .*, 2 times the allowed"),
        Wrong(whole_middle, r"called all_reduce 3 times; the budget is 1"),
    ),
)
