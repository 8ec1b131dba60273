"""Exercise 03.1: LayerNorm of a slice of the features, with one small collective."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mindlab.parallel import norms
from mindlab.predict import sources
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Tolerance, Trial, Wrong

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
EPS = 1e-5


def my_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """This rank's slice of the LayerNorm of the whole features."""
    count = x.new_full(x.shape[:-1], x.shape[-1])
    mean = x.mean(-1)
    square = (x - mean.unsqueeze(-1)).square().sum(-1)
    own = torch.stack([count, mean, square])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    counts, means, squares = torch.stack(every).unbind(1)
    total = counts.sum(0)
    middle = (counts * means).sum(0) / total
    variance = (squares.sum(0) + (counts * (means - middle).square()).sum(0)) / total
    out = (x - middle.unsqueeze(-1)) * torch.rsqrt(variance + 1e-5).unsqueeze(-1)
    return out * weight + bias


def in_double(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: plain sums, which may be added by the library; float64 has digits to spare."""
    wide = x.double()
    count = wide.new_tensor([x.shape[-1]])
    sums = torch.cat([count, wide.sum(-1).flatten(), wide.square().sum(-1).flatten()])
    dist.all_reduce(sums)
    mean, mean_square = (sums[1:] / sums[0]).view(2, *x.shape[:-1]).unbind()
    variance = mean_square - mean.square()
    out = (wide - mean.unsqueeze(-1)) * torch.rsqrt(variance + EPS).unsqueeze(-1)
    return out.float() * weight + bias


def two_by_two(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the slices are merged one after the other, each pair by Chan's formula."""
    variance, mean = torch.var_mean(x, dim=-1, unbiased=False)
    own = torch.cat([x.new_tensor([x.shape[-1]]), mean.flatten(), variance.flatten()])
    every = own.new_empty(dist.get_world_size() * len(own))
    dist.all_gather(list(every.split(len(own))), own)
    tokens = mean.numel()
    have, mean, square = 0.0, x.new_zeros(tokens), x.new_zeros(tokens)
    for row in every.split(len(own)):
        count, mine, theirs = float(row[0]), row[1 : 1 + tokens], row[1 + tokens :]
        apart = mine - mean
        square = square + count * theirs + apart.square() * have * count / (have + count)
        have += count
        mean = mean + apart * count / have
    mean, variance = mean.view(x.shape[:-1]), (square / have).view(x.shape[:-1])
    return (x - mean.unsqueeze(-1)) / (variance + EPS).sqrt().unsqueeze(-1) * weight + bias


def from_the_package(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the package's, whose mean travels as two numbers."""
    return norms.sharded_layer_norm(x, weight, bias, EPS)


def alone(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: each slice is normalised as if it were the whole."""
    return F.layer_norm(x, weight.shape, weight, bias)


def about_the_own_mean(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the squares are taken about this slice's mean, and only added up."""
    count = x.new_full(x.shape[:-1], x.shape[-1])
    square = (x - x.mean(-1, keepdim=True)).square().sum(-1)
    sums = torch.stack([x.sum(-1), square, count])
    dist.all_reduce(sums)
    mean, variance = sums[0] / sums[2], sums[1] / sums[2]
    return (x - mean.unsqueeze(-1)) / (variance + EPS).sqrt().unsqueeze(-1) * weight + bias


def without_eps(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: eps is left out, which only a small token shows."""
    return norms.sharded_layer_norm(x, weight, bias, 0.0)


def in_one_pass(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: E[x²] - E[x]² in float32, which has no digit left at an offset of 10000."""
    sums = torch.stack([x.sum(-1), x.square().sum(-1), x.new_full(x.shape[:-1], x.shape[-1])])
    dist.all_reduce(sums)
    mean, mean_square = sums[0] / sums[2], sums[1] / sums[2]
    variance = mean_square - mean.square()
    return (x - mean.unsqueeze(-1)) / (variance + EPS).sqrt().unsqueeze(-1) * weight + bias


def all_slices_alike(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: means of slices of different lengths count alike."""
    mean = x.mean(-1)
    own = torch.stack([mean, (x - mean.unsqueeze(-1)).square().mean(-1)])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    means, variances = torch.stack(every).unbind(1)
    middle = means.mean(0)
    variance = variances.mean(0) + (means - middle).square().mean(0)
    return (x - middle.unsqueeze(-1)) / (variance + EPS).sqrt().unsqueeze(-1) * weight + bias


def two_collectives(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong here: right values in two rounds, the second of which waits for the first."""
    sums = torch.stack([x.sum(-1), x.new_full(x.shape[:-1], x.shape[-1])])
    dist.all_reduce(sums)
    off = x - (sums[0] / sums[1]).unsqueeze(-1)
    square = off.square().sum(-1)
    dist.all_reduce(square)
    return off / (square / sums[1] + EPS).sqrt().unsqueeze(-1) * weight + bias


def everything_gathered(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: right values, for the price of all features. Slices are filled up to one length."""
    own = x.new_full((*x.shape[:-1], 32), torch.nan)
    own[..., : x.shape[-1]] = x
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    whole = torch.cat([part[..., ~part[0, 0].isnan()] for part in every], dim=-1).double()
    variance, mean = torch.var_mean(whole, dim=-1, unbiased=False, keepdim=True)
    return ((x - mean) / (variance + EPS).sqrt()).float() * weight + bias


def the_unbiased_variance(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: divided by one less than the number of features, as torch.var does unless told."""
    wide = x.double()
    count = wide.new_full(x.shape[:-1], x.shape[-1])
    sums = torch.stack([wide.sum(-1), wide.square().sum(-1), count])
    dist.all_reduce(sums)
    mean = sums[0] / sums[2]
    variance = (sums[1] - sums[2] * mean.square()) / (sums[2] - 1)
    out = (wide - mean.unsqueeze(-1)) * torch.rsqrt(variance + EPS).unsqueeze(-1)
    return out.float() * weight + bias


def one_number_for_all_tokens(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: one mean and one variance for all tokens together."""
    wide = x.double()
    sums = torch.stack([wide.sum(), wide.square().sum(), wide.new_tensor(x.numel())])
    dist.all_reduce(sums)
    mean = sums[0] / sums[2]
    out = (wide - mean) * torch.rsqrt(sums[1] / sums[2] - mean.square() + EPS)
    return out.float() * weight + bias


def _given(seed: int, rank: int, trial: Trial) -> Tensors:
    """This rank's slice of the features: their means differ, all lie about `offset`.

    Without an offset one token is so small that eps decides its result.
    """
    hidden = trial["hidden"]
    x = inputs.normal(seed, "x", 2, trial["sequence"], hidden) + torch.linspace(-2, 2, hidden)
    x = x * (1 + inputs.normal(seed, "spread", 2, trial["sequence"], 1).abs())
    x[:, -1] *= 1 if trial["offset"] else 1e-3
    x += trial["offset"]
    weight = 1 + inputs.normal(seed, "weight", hidden, scale=0.1)
    bias = inputs.normal(seed, "bias", hidden, scale=0.1)
    mine = [inputs.part(tensor, rank, trial.ranks, dim=-1) for tensor in (x, weight, bias)]
    return mine[0], mine[1], mine[2]


def _reference(given: list[Tensors]) -> list[torch.Tensor]:
    """In float64: one card's float32 is itself off at a large offset."""
    whole = [torch.cat([parts[place] for parts in given], dim=-1).double() for place in range(3)]
    out = F.layer_norm(whole[0], whole[1].shape, whole[1], whole[2], EPS).float()
    return [part.clone() for part in out.split([parts[1].numel() for parts in given], dim=-1)]


def _numbers(a_token: int, trial: Trial) -> Quantity:
    """The bytes of so many float32 a token, and the length of the slice, to each other rank."""
    ranks, tokens = trial.ranks, 2 * trial["sequence"]
    formula = rf"(p-1)\,(1 + {a_token}\,b\,s)\,e"
    return Quantity(
        (ranks - 1) * (1 + a_token * tokens) * 4, "B", formula, sources.COUNTED_BY_HAND, ranks=ranks
    )


def _features(trial: Trial) -> Quantity:
    """The bytes of all slices, gathered: each rank sends its own to each other rank."""
    nbytes = 4 * 2 * trial["sequence"] * trial["hidden"] * (trial.ranks - 1) / trial.ranks
    return Quantity(nbytes, "B", r"\frac{p-1}{p}\,b\,s\,h\,e", sources.COUNTED_BY_HAND, ranks=trial.ranks)


EXERCISE = Exercise(
    name="03.1",
    title="LayerNorm of a slice, with one small collective",
    statement="""
Write `my_layer_norm(x, weight, bias)`. Each rank gets its slice of the features of all tokens, (batch,
sequence, own features) in float32, and the same slice of weight and bias. The slices may differ in length.
Return this rank's slice of the LayerNorm of the whole features, with `eps = 1e-5`.

One collective, all_gather or all_reduce, and few numbers a token. In one of the trials all features lie about
10000.
""",
    inputs=_given,
    reference=_reference,
    calls=("all_gather", "all_reduce"),
    budget=Budget(
        sent=Bound(
            OfTrial(lambda trial: _numbers(2, trial)),
            naive=OfTrial(_features),
            allowed=OfTrial(lambda trial: _numbers(3, trial)),
        ),
        collectives={"all_gather": 1, "all_reduce": 1},
    ),
    whole=lambda trial: 4 * 2 * trial["sequence"] * trial["hidden"],
    grain=lambda trial: 0,
    tolerance={
        "float32": Tolerance(
            5e-3, 1e-4, "about 10000, float32 has steps of 0.001; one card's own LayerNorm is off by as much"
        )
    },
    dims=("batch", "sequence", "features"),
    trials=(
        Trial(4, sizes={"sequence": 6, "hidden": 96, "offset": 0}),
        Trial(4, sizes={"sequence": 6, "hidden": 90, "offset": 0}),
        Trial(3, sizes={"sequence": 6, "hidden": 89, "offset": 10000}),
    ),
    hints=(
        "A LayerNorm needs the mean of the whole token and the mean square distance from it. What must "
        "another rank know of your slice, so that it can compute both? Not the features: numbers about "
        "them.",
        "Draw two slices as two clouds of points on a line. Each has a length, a middle, and a spread "
        "about its own middle. The spread of both together is larger than the mean of the two spreads: "
        "how far the middles lie apart comes in too.",
        """
    own = torch.stack([count, mean, square])     # of this slice, for each token
    ...                                          # one all_gather: the three of every rank
    middle = ...                                 # the slices' means, each weighted with its count
    variance = ...                               # the slices' squares, and count * (mean - middle)²
    return (x - middle) ... * weight + bias      # unsqueeze(-1) where a feature dimension is missing
""",
    ),
    solution=my_layer_norm,
    explanation="""
Count, mean and the sum of squares about that mean tell all that is needed of a slice: Chan, Golub & LeVeque
(1979) merge them exactly. No square of a large number is taken, so nothing cancels at 10000.

Plain sums of $x$ and $x^2$ would be as few numbers and could go into one all_reduce, but in float32 they
cancel. In float64 they are good enough: eight bytes each, and within this budget too.
""",
    right=(in_double, two_by_two, from_the_package),
    wrong=(
        Wrong(alone, r"Nothing was sent"),
        Wrong(about_the_own_mean, r"Rank 0: element \[0, 0, \d+\] is .* elements are wrong"),
        Wrong(without_eps, r"Rank 0: element \[0, 5, 0\] is .* elements are wrong"),
        Wrong(in_one_pass, r"NaN|With 4 ranks.* it was right"),
        Wrong(all_slices_alike, r"elements are wrong.* With 4 ranks, .*96.* it was right"),
        Wrong(two_collectives, r"called all_reduce 2 times; the budget is 1"),
        Wrong(everything_gathered, r"Rank 0 sent .* times the allowed"),
        Wrong(the_unbiased_variance, r"Rank 0: .*elements are wrong"),
        Wrong(one_number_for_all_tokens, r"Rank 0: element .* elements are wrong"),
    ),
)
