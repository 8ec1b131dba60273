"""Case 02-b: rows, and then side by side."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, Tolerance, Trial, Wrong

Tensors = tuple[torch.Tensor, ...]


def rows_by_the_text(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A layer cut by rows of W: results gathered, joined, cut to the output's features."""
    local_out = F.linear(x, weight)
    parts = [torch.empty_like(local_out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local_out)
    whole = torch.cat(parts, dim=-1)
    return whole[..., : len(bias)] + bias


def row_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A layer cut by rows of W: partial sums added up, the bias once."""
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out + bias


def one_rank_has_the_bias(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: the bias is in one partial sum."""
    out = F.linear(x, weight, bias if dist.get_rank() == 0 else None)
    dist.all_reduce(out)
    return out


def written_out(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right: a product with the transposed weight."""
    out = (x @ weight.T).contiguous()
    dist.all_reduce(out)
    return out.add_(bias)


def last_rank(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: another one of the partial sums."""
    out = F.linear(x, weight)
    parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, out)
    return parts[-1] + bias


def not_cut(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: joined as the text says, p times too wide."""
    out = F.linear(x, weight)
    parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, out)
    return torch.cat(parts, dim=-1)


def mean(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the mean of the partial sums."""
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out / dist.get_world_size() + bias


def bias_inside(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the bias is in the sum p times."""
    out = F.linear(x, weight, bias)
    dist.all_reduce(out)
    return out


def largest(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the largest of the partial sums."""
    out = F.linear(x, weight)
    dist.all_reduce(out, op=dist.ReduceOp.MAX)
    return out + bias


def gathered_and_added(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong here: right values; every partial sum goes to every rank."""
    out = F.linear(x, weight)
    parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, out)
    return torch.stack(parts).sum(0) + bias


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """This rank's input features of x and of the weight; the bias is the same everywhere."""
    inner, outer, dtype = trial["inputs"], trial["outputs"], trial.dtype
    x = inputs.normal(seed, "x", 2, trial["sequence"], inner, dtype=dtype)
    weight = inputs.normal(seed, "weight", outer, inner, dtype=dtype, scale=inner**-0.5)
    x, weight = (inputs.part(tensor, rank, trial.ranks, dim=-1) for tensor in (x, weight))
    return x, weight, inputs.normal(seed, "bias", outer, dtype=dtype)


def one_card(given: list[Tensors]) -> list[torch.Tensor]:
    """The whole layer."""
    x, weight = (torch.cat([parts[place] for parts in given], dim=-1) for place in (0, 1))
    return [F.linear(x, weight, given[0][2])] * len(given)


def terms(given: list[Tensors], rank: int) -> list[torch.Tensor]:
    """Each rank's term of the sum; the bias stands in rank 0's."""
    return [F.linear(x, weight, None if place else bias) for place, (x, weight, bias) in enumerate(given)]


def mistakes(given: list[Tensors], rank: int) -> dict[str, torch.Tensor]:
    """What may come out instead."""
    partial = [F.linear(x, weight) for x, weight, _ in given]
    bias = given[0][2]
    return {
        "rank 0's partial sum alone": partial[0] + bias,
        "the last rank's partial sum alone": partial[-1] + bias,
        "all partial sums beside each other": torch.cat(partial, dim=-1),
        "the mean of the partial sums": torch.stack(partial).mean(0) + bias,
        "the largest of the partial sums": torch.stack(partial).amax(0) + bias,
    }


REPAIR = Exercise(
    name="02-b",
    title="Rows, and then side by side",
    statement="The whole output of a layer that is cut by rows of W, with its bias, on every rank.",
    inputs=given,
    reference=one_card,
    summands=terms,
    calls=("all_gather", "all_reduce"),
    look=likely.named(mistakes),
    budget=Budget(
        sent=Bound(volume.ring_all_reduce, naive=amounts.to_every_other), collectives={"all_reduce": 1}
    ),
    whole=lambda trial: 2 * trial["sequence"] * trial["outputs"] * (2 if trial.dtype == "bfloat16" else 4),
    trials=(
        Trial(4, sizes={"sequence": 5, "inputs": 16, "outputs": 6}),
        Trial(4, sizes={"sequence": 5, "inputs": 18, "outputs": 6}),
        Trial(3, sizes={"sequence": 5, "inputs": 16, "outputs": 6}),
        Trial(4, sizes={"sequence": 5, "inputs": 18, "outputs": 6}, dtype="bfloat16"),
    ),
    tolerance={"bfloat16": Tolerance(0.1, 2**-5, "each rank's part of the sum is rounded to 8 bits")},
    dims=("batch", "sequence", "features"),
    hints=(
        "The shape of what each rank computes tells which cut it was: all output features, or some?",
        "Each rank has some of the input features. A number of the output is a sum over all of them. How "
        "much of that sum is on one rank?",
        """
    out = ...       # this rank's term of every number of the output
    ...             # every rank's term is needed: which call?
    return ...      # and the bias, how often?
""",
    ),
    solution=row_linear,
    explanation="""
Cut by rows, every rank has a partial sum of all output features. They are added. What was cut off behind the
join were the partial sums of ranks 1, 2, …: the result was rank 0's term alone. In the text's other half,
where it cuts columns and adds, both words are exchanged (case a).
""",
    right=(one_rank_has_the_bias, written_out),
    wrong=(
        Wrong(rows_by_the_text, r"rank 0's partial sum alone"),
        Wrong(last_rank, r"the last rank's partial sum alone"),
        Wrong(not_cut, r"all partial sums beside each other"),
        Wrong(mean, r"the mean of the partial sums"),
        Wrong(bias_inside, r"right but for 3 x `bias` too much"),
        Wrong(largest, r"the largest of the partial sums"),
        Wrong(gathered_and_added, r"Rank 0 sent .*, 2 times the allowed"),
    ),
)

CASE = Case(
    name="02-b",
    title="Rows, and then side by side",
    story="""
A text says how tensor parallel communicates: "cut by columns, the cards' results are merged by all-reduce;
cut by rows, each card has a piece of the complete result, and all-gather joins the pieces". A team builds
its row layer by the second half. The joined output is p times too wide, so somebody cuts it to size.
""",
    program=rows_by_the_text,
    causes=(
        Choice(
            "The text has the two cuts exchanged: rows give partial sums, which are added.",
            "Every rank's output has all features already. What stands beside each other are p partial sums, "
            "and the cut keeps the first.",
            holds=True,
        ),
        Choice(
            "The pieces are joined along the wrong dimension.",
            "Along no dimension do partial sums lie side by side.",
            holds=False,
        ),
        Choice(
            "The cut should keep the last features, not the first.",
            "Then it is the last rank's partial sum instead of rank 0's.",
            holds=False,
        ),
        Choice(
            "The bias is added after the join instead of before.",
            "After the sum is right: before it, it would come p times.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="Ascend/MindIE-SD, docs/zh/features/parallelism.md at 3066189 (2026-05-06), section 通信方式; its "
    "introduction and its English page have the two cuts right",
)
