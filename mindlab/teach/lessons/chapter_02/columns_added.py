"""Case 02-a: columns, and then a sum."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Trial, Wrong
from mindlab.teach.lessons.chapter_02 import columns

Tensors = tuple[torch.Tensor, ...]


def column_sample(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The layer, cut by columns of W."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunk = weight.chunk(p, dim=0)[rank]
    local_out = x @ chunk.T
    dist.all_reduce(local_out)
    return local_out


def joined(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The layer, cut by columns of W: own features with their bias, joined."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = F.linear(x, weight.chunk(p)[rank], bias.chunk(p)[rank])
    parts = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=-1)


def by_rows_instead(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the sum stays, and W is cut by rows; twice the bytes."""
    rank, p = dist.get_rank(), dist.get_world_size()
    out = F.linear(x.tensor_split(p, -1)[rank], weight.tensor_split(p, 1)[rank])
    dist.all_reduce(out)
    return out + bias


def bias_at_the_end(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the whole bias on the whole result."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = x @ weight.tensor_split(p)[rank].T
    parts = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=-1) + bias


def joined_without_bias(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: half of the repair."""
    return bias_at_the_end(x, weight, torch.zeros_like(bias))


def dim_one(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: cut along the other dimension, so that x does not fit any more."""
    rank, p = dist.get_rank(), dist.get_world_size()
    out = x @ weight.chunk(p, dim=1)[rank].T
    dist.all_reduce(out)
    return out + bias


def repeated(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the shape is mended, not the values."""
    p = dist.get_world_size()
    return column_sample(x, weight, bias).repeat(1, 1, p) + bias


def rows_and_p_biases(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: by rows, and the bias in every partial sum."""
    rank, p = dist.get_rank(), dist.get_world_size()
    out = F.linear(x.tensor_split(p, -1)[rank], weight.tensor_split(p, 1)[rank], bias)
    dist.all_reduce(out)
    return out


def all_on_one_card(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: nothing is cut at all."""
    return F.linear(x, weight, bias)


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """All of x, weight and bias, the same on every rank."""
    inner, outer = trial["inputs"], trial["outputs"]
    x = inputs.normal(seed, "x", 1, trial["sequence"], inner)
    weight = inputs.normal(seed, "weight", outer, inner, scale=inner**-0.5)
    return x, weight, inputs.normal(seed, "bias", outer)


def mistakes(given: list[Tensors], rank: int) -> dict[str, torch.Tensor]:
    """What may come out instead."""
    x, weight, bias = given[0]
    p = len(given)
    added = torch.stack((x @ weight.T).chunk(p, -1)).sum(0)
    name = "the sum of different output features"
    return {f"{name}, and only 1/p of them": added, name: added.repeat(1, 1, p) + bias}


REPAIR = replace(
    columns.EXERCISE,
    name="02-a",
    title="Columns, and then a sum",
    statement="The layer's whole output, with its bias, on every rank; each rank does its share of the work.",
    inputs=given,
    reference=lambda given: [F.linear(*given[0])] * len(given),
    calls=("all_gather", "all_reduce"),
    look=likely.named(mistakes),
    budget=Budget(sent=Bound(volume.ring_all_gather, amounts.to_every_other, volume.ring_all_reduce)),
    whole=lambda trial: trial["sequence"] * trial["outputs"] * 4,
    trials=(
        Trial(4, sizes={"sequence": 15, "inputs": 16, "outputs": 24}),
        Trial(3, sizes={"sequence": 15, "inputs": 16, "outputs": 24}),
    ),
    hints=(
        "Compare shapes first. Then take one number of the result, and ask which products are in it.",
        "Rank 0 computes features 0 to 5, rank 1 features 6 to 11. What is feature 0 plus feature 6?",
        """
    mine = ...      # own features, with their own part of the bias
    ...             # which call puts different parts beside each other?
    return ...
""",
    ),
    solution=joined,
    explanation="""
Cut by columns, ranks have different features of the output, each complete. They are joined, not added: an
all-gather and a `cat` along the last dimension. The sum belongs to the cut by rows, where every rank has a
term of every feature. The bias is cut as the features are, or added at the end, once.
""",
    right=(bias_at_the_end, by_rows_instead),
    wrong=(
        Wrong(column_sample, r"the sum of different output features, and only 1/p of them"),
        Wrong(joined_without_bias, r"right but for 1 x `bias` too little"),
        Wrong(dim_one, r"RuntimeError"),
        Wrong(repeated, r"the sum of different output features\."),
        Wrong(rows_and_p_biases, r"right but for 3 x `bias` too much"),
        Wrong(all_on_one_card, r"Nothing was sent"),
    ),
)

CASE = Case(
    name="02-a",
    title="Columns, and then a sum",
    story="""
The documentation of a library for video models shows tensor parallel in twenty lines. The weight is cut by
columns, "and all-reduce merges the results". Its last line prints the shape of the output. It runs on every
number of cards.
""",
    program=column_sample,
    causes=(
        Choice(
            "`chunk` with `dim=0` cuts rows of W. It should be `dim=1`.",
            "torch keeps W transposed, (out, in). Along dimension 0 lie output features: columns of W.",
            holds=False,
        ),
        Choice(
            "The all-reduce works in place, so the partial sums are lost.",
            "It does work in place, and here nobody needs them afterwards. But what does it add?",
            holds=False,
        ),
        Choice(
            "The ranks hold different output features, and these are added up.",
            "Feature 0 of one rank and feature 0 of another one are different columns of Y. Their sum means "
            "nothing, and the output has only h'/p features. The bias is missing on top.",
            holds=True,
        ),
        Choice(
            "Every rank needs its own part of x.",
            "That is the cut by rows. For columns, every rank needs all of x, and has it.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="Ascend/MindIE-SD, docs/zh/features/parallelism.md at 3066189 (2026-05-06), the sample for tensor "
    "parallel; retold here in other words",
)
