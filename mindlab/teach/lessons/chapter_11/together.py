"""Exercise 11.3: a GroupNorm over the tiles of a picture."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from mindlab.parallel.tiles import shared_group_norm
from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_11 import given

Tensor = torch.Tensor
BATCH, CHANNELS, GROUPS, WIDTH = 2, 4, 2, 3


def normed_together(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """This rank's tile, normalised as a part of the whole picture."""
    grouped = x.reshape(len(x), groups, -1)
    mean, variance = grouped.mean(-1), grouped.var(-1, correction=0)
    count = x.new_tensor([grouped.shape[-1]])
    mine = torch.cat([count, mean.flatten(), variance.flatten()])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    n, means, variances = torch.stack(every).split([1, mean.numel(), mean.numel()], 1)
    share = n / n.sum()
    centre = (share * means).sum(0)
    spread = (share * (variances + (means - centre) ** 2)).sum(0)
    centre, spread = (one.view(*mean.shape, 1) for one in (centre, spread))
    out: Tensor = ((grouped - centre) * (spread + eps).rsqrt()).view(x.shape)
    return out * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def from_the_package(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Right: the package's own."""
    norm = nn.GroupNorm(groups, x.shape[1], eps)
    norm.weight, norm.bias = nn.Parameter(weight), nn.Parameter(bias)
    return shared_group_norm(norm, x, [slice(None), slice(None)])


def in_two_sums(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Right: the mean first, then the squares about it."""
    grouped = x.double().reshape(len(x), groups, -1)
    sums = torch.cat([x.new_tensor([grouped.shape[-1]]).double(), grouped.sum(-1).flatten()])
    dist.all_reduce(sums)
    off = grouped - (sums[1:] / sums[0]).view(len(x), groups, 1)
    squares = off.square().sum(-1)
    dist.all_reduce(squares)
    out = (off * (squares / sums[0] + eps).rsqrt().unsqueeze(-1)).view(x.shape).float()
    return out * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def by_itself(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Wrong: the statistics of this tile alone; something is sent so that it is not silent."""
    dist.all_gather([torch.empty(1) for _ in range(dist.get_world_size())], torch.ones(1))
    return F.group_norm(x, groups, weight, bias, eps)


def squares_summed(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Wrong: E[x²] - E[x]², in float32: far from 0 no digit is left."""
    grouped = x.reshape(len(x), groups, -1)
    sums = torch.stack([torch.ones_like(grouped).sum(-1), grouped.sum(-1), grouped.square().sum(-1)])
    dist.all_reduce(sums)
    mean = (sums[1] / sums[0]).unsqueeze(-1)
    spread = (sums[2] / sums[0]).unsqueeze(-1) - mean.square()
    out = ((grouped - mean) * (spread.clamp(min=0) + eps).rsqrt()).view(x.shape)
    return out * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def divided_by_less(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Wrong: the squares of the whole picture, over one number less than it has."""
    grouped = x.double().reshape(len(x), groups, -1)
    sums = torch.cat([x.new_tensor([grouped.shape[-1]]).double(), grouped.sum(-1).flatten()])
    dist.all_reduce(sums)
    off = grouped - (sums[1:] / sums[0]).view(len(x), groups, 1)
    squares = off.square().sum(-1)
    dist.all_reduce(squares)
    out = (off * (squares / (sums[0] - 1) + eps).rsqrt().unsqueeze(-1)).view(x.shape).float()
    return out * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def _gathered(how: str, x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The merge with one thing made otherwise."""
    grouped = x.reshape(len(x), x.shape[1] if how == "channels" else groups, -1)
    mean, variance = grouped.mean(-1), grouped.var(-1, correction=int(how == "unbiased"))
    mine = torch.cat([x.new_tensor([grouped.shape[-1]]), mean.flatten(), variance.flatten()])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    n, means, variances = torch.stack(every).split([1, mean.numel(), mean.numel()], 1)
    share = torch.full_like(n, 1 / len(n)) if how == "alike" else n / n.sum()
    centre = (share * means).sum(0)
    between = 0 if how == "within" else (means - centre).square()
    spread = (share * (variances + between)).sum(0)
    if how == "deviations":
        spread = (share * variances.sqrt()).sum(0).square()
    if how == "mean only":
        spread = variance.flatten()
    centre, spread = (one.view(*mean.shape, 1) for one in (centre, spread))
    out: Tensor = ((grouped - centre) * (spread + eps).rsqrt()).view(x.shape)
    return out * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def whole_picture(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Wrong: right values, but every pixel is sent to every rank."""
    rank, p = dist.get_rank(), dist.get_world_size()
    heights = [torch.zeros(1) for _ in range(p)]
    dist.all_gather(heights, torch.tensor([float(x.shape[2])]))
    most = int(max(heights))
    padded = F.pad(x, (0, 0, 0, most - x.shape[2]))
    every = [torch.empty_like(padded) for _ in range(p)]
    dist.all_gather(every, padded.contiguous())
    parts = [one[:, :, : int(h)] for one, h in zip(every, heights, strict=True)]
    normed = F.group_norm(torch.cat(parts, 2).double(), groups, weight.double(), bias.double(), eps)
    begin = sum(int(h) for h in heights[:rank])
    return normed[:, :, begin : begin + x.shape[2]].float().contiguous()


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, int, Tensor, Tensor, float]:
    """This rank's rows: the lower the tile, the darker; in a far trial all of it is far from 0."""
    rows = trial["rows"]
    x = inputs.normal(seed, "x", BATCH, CHANNELS, rows, WIDTH)
    ramp = torch.linspace(0, 3, rows).view(-1, 1) + trial.sizes.get("far", 0)
    mine = (x + ramp).tensor_split(trial.ranks, 2)[rank].clone(memory_format=torch.contiguous_format)
    weight = 1 + inputs.normal(seed, "weight", CHANNELS, scale=0.2)
    return mine, GROUPS, weight, inputs.normal(seed, "bias", CHANNELS), 1e-5


def _normed(x: Tensor, args: tuple[int, Tensor, Tensor, float]) -> Tensor:
    groups, weight, bias, eps = args
    return F.group_norm(x.double(), groups, weight.double(), bias.double(), eps).float()


def _one_card(all_given: list[tuple[Tensor, int, Tensor, Tensor, float]]) -> list[Tensor]:
    normed = _normed(torch.cat([one[0] for one in all_given], 2), all_given[0][1:])
    return [part.contiguous() for part in normed.split([one[0].shape[2] for one in all_given], 2)]


def _mistakes(all_given: list[tuple[Tensor, int, Tensor, Tensor, float]], rank: int) -> dict[str, Tensor]:
    x, groups, weight, bias, eps = all_given[rank]
    tiles = [one[0].double().reshape(BATCH, groups, -1) for one in all_given]
    n = torch.tensor([float(tile.shape[-1]) for tile in tiles]).double()
    means = torch.stack([tile.mean(-1) for tile in tiles])
    variances = torch.stack([tile.var(-1, correction=0) for tile in tiles])
    whole = n.sum() / (n.sum() - 1)

    def normed(
        share: Tensor, between: bool, more: Tensor | float = 1.0, all_more: Tensor | float = 1.0
    ) -> Tensor:
        share = share.view(-1, 1, 1)
        centre = (share * means).sum(0)
        spread = (share * (variances * more + between * (means - centre).square())).sum(0) * all_more
        out = (tiles[rank] - centre.unsqueeze(-1)) * (spread + eps).rsqrt().unsqueeze(-1)
        return (out.view(x.shape) * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)).float()

    return {
        "its tile, normalised by itself": _normed(x, (groups, weight, bias, eps)),
        "its tile by the mean of the tiles' variances: how far their means are apart is left out": normed(
            n / n.sum(), False
        ),
        "its tile by statistics in which every tile counts alike, large or small": normed(
            torch.full_like(n, 1 / len(n)), True
        ),
        "its tile by a variance that is divided by n - 1 on each tile": normed(
            n / n.sum(), True, (n / (n - 1)).view(-1, 1, 1)
        ),
        "its tile by a variance that is divided by n - 1": normed(n / n.sum(), True, 1.0, whole),
    }


def _look(attempt: Attempt) -> str:
    """The mistake by its name; far from 0, where an earlier trial was right, what is new there."""
    pairs = list(zip(attempt.values, attempt.wanted, strict=True))
    same = all(isinstance(seen, Tensor) and seen.shape == wanted.shape for seen, wanted in pairs)
    close = same and all(bool(torch.isclose(s, w, atol=2e-4, rtol=1e-5).all()) for s, w in pairs)
    if attempt.trial.sizes.get("far") and same and not close:
        return (
            "Every number of x lies near 300 here, and only here the result is off. Squares are near 90,000, "
            "of which float32 keeps 7 digits: of E[x²] - E[x]², which is near 2, few are left. From where "
            "can the squares be counted instead?"
        )
    return likely.named(_mistakes)(attempt)


def _whole(trial: Trial) -> int:
    return BATCH * CHANNELS * trial["rows"] * WIDTH * 4


def _sent(trial: Trial) -> object:
    """As the package: a count, and three numbers a group and picture."""
    return volume.norm_statistics(1, GROUPS, trial.ranks, batch=BATCH)


def _least(trial: Trial) -> int:
    """A count, a mean and a variance a group and picture, to each other rank."""
    return (trial.ranks - 1) * (1 + 2 * BATCH * GROUPS) * 4


EXERCISE = Exercise(
    name="11.3",
    title="One norm for all tiles",
    statement="""
Write `normed_together(x, groups, weight, bias, eps)`: the GroupNorm of the whole picture, this rank's part of
it. `x` (2, channels, height, width) is this rank's tile, without a halo; the ranks' tiles lie one below the
other, and their heights may differ. `weight` and `bias` have a number for each channel.

A group is channels / `groups` channels of one picture of the batch, all their pixels. Send no more than three
numbers a group and picture, and one beside them, to each other rank. (The variance of a norm is the mean of
the squares about the mean: not divided by n - 1.)
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_least), naive=amounts.to_every_other, allowed=OfTrial(_sent))),
    calls=("all_gather", "all_reduce"),
    whole=_whole,
    grain=lambda trial: 0,
    look=_look,
    tolerance={"float32": Tolerance(2e-4, 1e-5, "means of numbers near 300 are rounded to 24 bits")},
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"rows": 8}),
        Trial(4, sizes={"rows": 9}),
        Trial(3, sizes={"rows": 7}),
        Trial(4, sizes={"rows": 9, "far": 300}),
    ),
    hints=(
        "The variance of a picture is not the mean of its tiles' variances: a black tile and a white one "
        "have none, and together they have much.",
        "Each rank tells how many numbers a group has on it, their mean, and their variance. Which share has "
        "a rank in the whole mean? About which mean must its squares be counted, and what does a shift of "
        "the mean add to a variance?",
        """
    grouped = x.reshape(len(x), groups, -1)
    mine = torch.cat([count, mean.flatten(), variance.flatten()])
    dist.all_gather(every, mine)
    share = ...                                  # of each rank
    centre = ...                                 # the mean of all
    spread = ...                                 # the variance of all, about centre
""",
    ),
    solution=normed_together,
    explanation="""
With the shares $a_r = n_r / \\sum n$ and $\\mu = \\sum a_r \\mu_r$ it is
$\\sigma^2 = \\sum a_r\\,(\\sigma_r^2 + (\\mu_r - \\mu)^2)$: within the tiles, and between them (Chan, Golub
and LeVeque 1979). $E[x^2] - \\mu^2$ is the same on paper. In float32, far from 0, both terms are large and
their difference has no digit left; so the package sends one number more, a centre to count from.
""",
    right=(from_the_package, in_two_sums),
    wrong=(
        Wrong(by_itself, r"returned its tile, normalised by itself"),
        Wrong(partial(_gathered, "within"), r"how far their means are apart"),
        Wrong(partial(_gathered, "alike"), r"every tile counts alike"),
        Wrong(squares_summed, r"Every number of x lies near 300"),
        Wrong(partial(_gathered, "unbiased"), r"n - 1 on each tile"),
        Wrong(divided_by_less, r"divided by n - 1\."),
        Wrong(partial(_gathered, "deviations"), r"Rank 0: "),
        Wrong(partial(_gathered, "mean only"), r"Rank 0: "),
        Wrong(partial(_gathered, "channels"), r"Rank 0: "),
        Wrong(whole_picture, r"times the allowed"),
    ),
)
