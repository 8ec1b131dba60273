"""Case 02-d: every rank draws its own weights."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.teach import inputs, likely
from mindlab.teach.lesson import Case, Choice, Exercise, Trial, Wrong

Tensors = tuple[torch.Tensor, ...]


def no_seed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A column-parallel layer, joined; x, weight and bias are what this rank drew."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = F.linear(x, weight.tensor_split(p)[rank], bias.tensor_split(p)[rank])
    parts = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=-1)


def from_rank_0(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A column-parallel layer, joined; x, weight and bias are rank 0's."""
    rank, p = dist.get_rank(), dist.get_world_size()
    for tensor in (x, weight, bias):
        dist.broadcast(tensor, src=0)
    mine = F.linear(x, weight.tensor_split(p)[rank], bias.tensor_split(p)[rank])
    parts = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=-1)


def only_their_rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: each rank gets x and its own part of the layer, and nothing more."""
    p = dist.get_world_size()
    dist.broadcast(x, src=0)
    layer = torch.cat([weight, bias[:, None]], dim=1)
    mine = torch.empty_like(layer[: len(layer) // p])
    first = dist.get_rank() == 0
    dist.scatter(mine, [part.contiguous() for part in layer.tensor_split(p)] if first else None, src=0)
    out = F.linear(x, mine[:, :-1], mine[:, -1])
    parts = [torch.empty_like(out) for _ in range(p)]
    dist.all_gather(parts, out)
    return torch.cat(parts, dim=-1)


def in_one_message(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: everything in one broadcast."""
    together = torch.cat([x.flatten(), weight.flatten(), bias])
    dist.broadcast(together, src=0)
    parts = together.split([x.numel(), weight.numel(), bias.numel()])
    return no_seed(parts[0].view_as(x), parts[1].view_as(weight), parts[2])


def weight_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: bias and input are still each rank's own."""
    dist.broadcast(weight, src=0)
    return no_seed(x, weight, bias)


def layer_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the input is still each rank's own."""
    dist.broadcast(bias, src=0)
    return weight_only(x, weight, bias)


def input_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the layer is still each rank's own."""
    dist.broadcast(x, src=0)
    return no_seed(x, weight, bias)


def the_result(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: rank 0's result is brought to all; they agreed before."""
    out = no_seed(x, weight, bias)
    dist.broadcast(out, src=0)
    return out


def last_rank(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: another rank's."""
    for tensor in (x, weight, bias):
        dist.broadcast(tensor, src=dist.get_world_size() - 1)
    return no_seed(x, weight, bias)


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """What a script without a seed has: on every rank other numbers."""
    inner, outer = trial["inputs"], trial["outputs"]
    x = inputs.normal(seed, "x", 2, trial["sequence"], inner, rank=rank)
    weight = inputs.normal(seed, "weight", outer, inner, rank=rank, scale=inner**-0.5)
    return x, weight, inputs.normal(seed, "bias", outer, rank=rank)


def mistakes(given: list[Tensors], rank: int) -> dict[str, torch.Tensor]:
    """What may come out instead."""
    p, first = len(given), given[0]

    def joined(x: bool, weight: bool, bias: bool) -> torch.Tensor:
        """The features of all ranks' own tensors, or of rank 0's where that is said."""
        kept = (x, weight, bias)
        by_rank = [[first[i] if kept[i] else own[i] for i in range(3)] for own in given]
        return torch.cat([F.linear(*one).tensor_split(p, -1)[r] for r, one in enumerate(by_rank)], dim=-1)

    return {
        "features of different layers and different x, joined": joined(False, False, False),
        "features of different x, and of different biases, joined": joined(False, True, False),
        "features of one layer for different x, joined": joined(False, True, True),
        "features of different layers for one x, joined": joined(True, False, False),
        "the layer and the x of another rank than 0": F.linear(*given[-1]),
    }


REPAIR = Exercise(
    name="02-d",
    title="All ranks agree",
    statement="The layer of rank 0 applied to the x of rank 0, on every rank.",
    inputs=given,
    reference=lambda given: [F.linear(*given[0])] * len(given),
    calls=("broadcast", "scatter", "all_gather"),
    trials=(
        Trial(4, sizes={"sequence": 5, "inputs": 16, "outputs": 24}),
        Trial(3, sizes={"sequence": 5, "inputs": 16, "outputs": 24}),
    ),
    dims=("batch", "sequence", "features"),
    look=likely.named(mistakes),
    hints=(
        "All ranks have the same result. Does that say whose layer it is?",
        "Take the first feature and the last one. Whose weight, and whose x, are in each of them?",
        """
Before anything is computed:

    for tensor in (...):
        dist.broadcast(tensor, src=0)
""",
    ),
    solution=from_rank_0,
    explanation="""
Every rank had drawn its own layer and its own input. The all-gather made one tensor of p different layers'
features, and every rank had the same one. Ranks that agree prove nothing: hold them against one card. Seed
all ranks alike before a layer is made, or broadcast what was made.
""",
    right=(only_their_rows, in_one_message),
    wrong=(
        Wrong(no_seed, r"features of different layers and different x"),
        Wrong(weight_only, r"different x, and of different biases"),
        Wrong(layer_only, r"features of one layer for different x"),
        Wrong(input_only, r"features of different layers for one x"),
        Wrong(the_result, r"features of different layers and different x"),
        Wrong(last_rank, r"another rank than 0"),
    ),
)

CASE = Case(
    name="02-d",
    title="All ranks agree",
    story="""
The column layer of case a, repaired. As in the published sample, every rank makes the whole layer and the
input itself, `torch.nn.Linear(…)` and `torch.randn(…)`, and then keeps its part. A test compares the results
of all ranks: they are equal, to the bit. So it must be right.
""",
    program=no_seed,
    causes=(
        Choice(
            "Without a common seed each rank has another layer and another x.",
            "Rank r's features come from rank r's weight and x. Joined, they belong to no layer at all. The "
            "all-gather makes all ranks agree, on nonsense.",
            holds=True,
        ),
        Choice(
            "The features are joined in another order than they were cut.",
            "Both are in the order of the ranks.",
            holds=False,
        ),
        Choice(
            "The bias is not cut as the weight is.",
            "`tensor_split` cuts both in the same places.",
            holds=False,
        ),
        Choice(
            "Float sums differ from rank to rank.",
            "The ranks have equal results, to the bit. And no sum over ranks is made here.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="Ascend/MindIE-SD, docs/zh/features/parallelism.md at 3066189 (2026-05-06): neither the layer nor "
    "x is seeded; retold here in other words",
)
