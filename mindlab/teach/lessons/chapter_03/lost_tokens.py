"""Case 03-b: the last tokens are gone."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

import mindlab as ml
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong

Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
BATCH, HIDDEN = 2, 32


def normed_by_shards(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The LayerNorm of the whole sequence; each rank computes its part of it."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = x.split(x.shape[1] // p, dim=1)[rank]
    mine = F.layer_norm(mine, weight.shape, weight, bias)
    whole = ml.collectives.ring_all_gather(mine.transpose(0, 1).contiguous())
    return whole.transpose(0, 1)


def repaired(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The same; every position has a rank."""
    shards = x.tensor_split(dist.get_world_size(), dim=1)
    mine = F.layer_norm(shards[dist.get_rank()], weight.shape, weight, bias)
    sizes = [shard.shape[1] for shard in shards]
    whole = ml.collectives.ring_all_gather(mine.transpose(0, 1).contiguous(), sizes=sizes)
    return whole.transpose(0, 1)


def padded_and_cut(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: filled up to equal lengths, and what was added is cut off again."""
    p, length = dist.get_world_size(), x.shape[1]
    each = -(-length // p)
    filled = F.pad(x, (0, 0, 0, each * p - length))
    mine = F.layer_norm(filled.split(each, dim=1)[dist.get_rank()], weight.shape, weight, bias)
    parts = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(parts, mine.contiguous())
    return torch.cat(parts, dim=1)[:, :length]


def the_last_rank_has_more(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: all that is left over goes to the last rank, told to all."""
    p = dist.get_world_size()
    sizes = [x.shape[1] // p] * (p - 1)
    sizes.append(x.shape[1] - sum(sizes))
    mine = F.layer_norm(x.split(sizes, dim=1)[dist.get_rank()], weight.shape, weight, bias)
    return ml.collectives.ring_all_gather(mine.transpose(0, 1).contiguous(), sizes=sizes).transpose(0, 1)


def padded_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: filled up, and what was added stays."""
    p, length = dist.get_world_size(), x.shape[1]
    each = -(-length // p)
    filled = F.pad(x, (0, 0, 0, each * p - length))
    mine = F.layer_norm(filled.split(each, dim=1)[dist.get_rank()], weight.shape, weight, bias)
    return ml.collectives.ring_all_gather(mine.transpose(0, 1).contiguous()).transpose(0, 1)


def zeros_for_the_rest(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the shape is mended, the tokens are not."""
    found = normed_by_shards(x, weight, bias)
    return F.pad(found, (0, 0, 0, x.shape[1] - found.shape[1]))


def left_as_it_was(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the tokens are back, and nobody has normalised them."""
    found = normed_by_shards(x, weight, bias)
    return torch.cat([found, x[:, found.shape[1] :]], dim=1)


def padded_in_front(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: filled up at the front, cut off at the back."""
    p, length = dist.get_world_size(), x.shape[1]
    each = -(-length // p)
    filled = F.pad(x, (0, 0, each * p - length, 0))
    mine = F.layer_norm(filled.split(each, dim=1)[dist.get_rank()], weight.shape, weight, bias)
    whole = ml.collectives.ring_all_gather(mine.transpose(0, 1).contiguous()).transpose(0, 1)
    return whole[:, :length]


def everything_everywhere(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: right values; each rank does the work of all."""
    return F.layer_norm(x, weight.shape, weight, bias)


def added_into_place(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: right values; an all-reduce of zeros round each shard, where a gather would do."""
    whole = torch.zeros_like(x)
    rank, p = dist.get_rank(), dist.get_world_size()
    places = torch.arange(x.shape[1]).tensor_split(p)[rank]
    whole[:, places] = F.layer_norm(x[:, places], weight.shape, weight, bias)
    return ml.collectives.ring_all_reduce(whole)


def _given(seed: int, rank: int, trial: Trial) -> Given:
    """The whole sequence, on every rank."""
    x = inputs.normal(seed, "x", BATCH, trial["sequence"], HIDDEN)
    weight = 1 + inputs.normal(seed, "weight", HIDDEN, scale=0.2)
    return x, weight, inputs.normal(seed, "bias", HIDDEN)


def _reference(given: list[Given]) -> list[torch.Tensor]:
    return [F.layer_norm(x, weight.shape, weight, bias) for x, weight, bias in given]


def _filled_up(trial: Trial) -> Quantity:
    """An all-gather of shards that are filled up to equal lengths."""
    length = -(-trial["sequence"] // trial.ranks) * trial.ranks
    return volume.ring_all_gather(4 * BATCH * length * HIDDEN, trial.ranks)


REPAIR = Exercise(
    name="03-b",
    title="The last tokens are gone",
    statement="The LayerNorm of the whole sequence, on every rank; each rank computes a part. No token is"
    " lost.",
    inputs=_given,
    reference=_reference,
    calls=("send", "recv", "isend", "irecv", "all_gather"),
    budget=Budget(
        sent=Bound(volume.ring_all_gather, naive=volume.ring_all_reduce, allowed=OfTrial(_filled_up))
    ),
    whole=lambda trial: 4 * BATCH * trial["sequence"] * HIDDEN,
    grain=lambda trial: 4 * BATCH * HIDDEN if trial["sequence"] % trial.ranks else 0,
    dims=("batch", "sequence", "hidden"),
    trials=(
        Trial(4, sizes={"sequence": 60}),
        Trial(4, sizes={"sequence": 62}),
        Trial(3, sizes={"sequence": 62}),
    ),
    hints=(
        "Count the tokens of all shards. How many come in, how many are in a shard, how many shards are "
        "read?",
        "Write the positions in a row and cut off pieces of equal length from the left. What is left at "
        "the end, and whose is it?",
        """
    shards = x....(p, dim=1)              # a cut that leaves nothing over
    sizes = [...]                         # how long each of them is
    whole = ml.collectives.ring_all_gather(..., sizes=sizes)
""",
    ),
    solution=repaired,
    explanation="""
`split(length // p)` makes pieces of equal length, and one piece more of what is left over. No rank reads
it. `tensor_split(p)` makes exactly p pieces; the first ones are longer by one. Then lengths differ, and the
gather must know them all.

To fill the sequence up and to cut off again is as right, for a norm. In attention the added positions are
keys, and must be masked as well.
""",
    right=(padded_and_cut, the_last_rank_has_more),
    wrong=(
        Wrong(normed_by_shards, r"returned a tensor of shape \(2, 60, 32\), and \(2, 62, 32\) is wanted"),
        Wrong(padded_only, r"returned a tensor of shape \(2, 64, 32\), and \(2, 62, 32\) is wanted"),
        Wrong(zeros_for_the_rest, r"element \[0, 60, 0\] is 0 .*it was right"),
        Wrong(left_as_it_was, r"element \[0, 60, 0\] is .*it was right"),
        Wrong(padded_in_front, r"elements are wrong.* it was right"),
        Wrong(everything_everywhere, r"Nothing was sent"),
        Wrong(added_into_place, r"Rank 0 sent .*, 2 times the allowed"),
    ),
)

CASE = Case(
    name="03-b",
    title="The last tokens are gone",
    story="""
A video model cuts its tokens over the cards. 21 frames of 60 x 45 patches are 56,700 tokens. On 4 cards all
is well. On 8 cards a layer far behind the norm complains that it got 56,696. With a sequence of another
length, on other layers, nothing complains at all.
""",
    program=normed_by_shards,
    causes=(
        Choice(
            "The gather loses the last message of the ring.",
            "After $p-1$ rounds each shard has been everywhere. The lost tokens were never in a shard.",
            holds=False,
        ),
        Choice(
            "The length is divided and rounded down, so a rest of fewer than p tokens is in no rank's shard.",
            lambda: (
                f"{56_700 % 8} = 56,700 mod 8 tokens are left over, as one piece more, and no rank reads it. "
                f"With 4 ranks nothing is left: {56_700 % 4} = 56,700 mod 4."
            ),
            holds=True,
        ),
        Choice(
            "A LayerNorm needs the tokens of the neighbouring shards.",
            "It needs one token, whole. Nothing else.",
            holds=False,
        ),
        Choice(
            "The shards come back in another order.",
            "Then the number of tokens would be right.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="ByteDance-Seed/VeOmni issue 61 and pull request 1139; retold here in other words, with a norm",
)
