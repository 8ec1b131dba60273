"""Small exercises of the kinds that chapters ask: a sum, two results, heads for sequence, a rule."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Tolerance, Trial

Tensors = tuple[torch.Tensor, ...]
BF16 = {"bfloat16": Tolerance(0.1, 2**-5, "each rank's part of the sum is rounded to 8 bits")}


def _row_inputs(seed: int, rank: int, trial: Trial) -> Tensors:
    hidden, dtype = trial["hidden"], trial.dtype
    x = inputs.normal(seed, "x", 2, trial["sequence"], hidden, dtype=dtype)
    weight = inputs.normal(seed, "weight", 6, hidden, dtype=dtype, scale=hidden**-0.5)
    bias = inputs.normal(seed, "bias", 6, dtype=dtype)
    mine = [inputs.part(tensor, rank, trial.ranks, dim=-1) for tensor in (x, weight)]
    return mine[0], mine[1], bias


def _row_reference(given: list[Tensors]) -> list[torch.Tensor]:
    x, weight = (torch.cat([parts[place] for parts in given], dim=-1) for place in (0, 1))
    return [F.linear(x, weight, given[0][2])] * len(given)


def _row_summands(given: list[Tensors], rank: int) -> list[torch.Tensor]:
    """The bias stands in rank 0's."""
    return [F.linear(x, weight, None if place else bias) for place, (x, weight, bias) in enumerate(given)]


def row_parallel(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Each rank's part of the sum, added up; the bias once."""
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out + bias


ROW = Exercise(
    name="99.1",
    title="A row-parallel linear",
    statement="",
    inputs=_row_inputs,
    reference=_row_reference,
    summands=_row_summands,
    budget=Budget(sent=Bound(volume.ring_all_reduce), collectives={"all_reduce": 1}),
    whole=lambda trial: 2 * trial["sequence"] * 6 * (2 if trial.dtype == "bfloat16" else 4),
    tolerance=BF16,
    calls=("all_reduce", "all_gather"),
    dims=("batch", "sequence", "features"),
    trials=(
        Trial(4, sizes={"sequence": 5, "hidden": 16}),
        Trial(4, sizes={"sequence": 5, "hidden": 18}),
        Trial(3, sizes={"sequence": 5, "hidden": 16}),
        Trial(4, sizes={"sequence": 5, "hidden": 16}, dtype="bfloat16"),
    ),
    hints=("", "", ""),
    solution=row_parallel,
    explanation="",
    right=(),
    wrong=(),
)


def _merge_inputs(seed: int, rank: int, trial: Trial) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Parts whose lse lie hundreds apart; one query has met no key yet in all but one of them."""
    parts, queries = trial["parts"], trial["queries"]
    outs = [inputs.normal(seed, f"out {part}", 2, queries, 3, 4, rank=rank) for part in range(parts)]
    lses = [
        inputs.normal(seed, f"lse {part}", 2, 3, queries, rank=rank) + 300 * part for part in range(parts)
    ]
    for out, lse in list(zip(outs, lses, strict=True))[1:]:
        out[:, 0], lse[:, :, 0] = 0, -torch.inf
    for lse, out in zip(lses, outs, strict=True):
        out[:, -1], lse[:, :, -1] = 0, -torch.inf
    return outs, lses


def merge(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """The attention over all parts' keys, and its lse."""
    lse = torch.logsumexp(torch.stack(lses), 0)
    safe = lse.nan_to_num(neginf=0.0)
    weights = [torch.exp(one - safe).transpose(1, 2).unsqueeze(-1) for one in lses]
    return sum(weight * out for weight, out in zip(weights, outs, strict=True)), lse  # type: ignore[return-value]


MERGE = Exercise(
    name="99.2",
    title="Merge parts",
    statement="",
    inputs=_merge_inputs,
    reference=lambda given: [
        tuple(part.float() for part in merge(*([one.double() for one in many] for many in parts)))
        for parts in given
    ],
    results=("out", "lse"),
    pure=True,
    trials=(Trial(3, sizes={"parts": 2, "queries": 5}), Trial(4, sizes={"parts": 3, "queries": 5})),
    hints=("", "", ""),
    solution=merge,
    explanation="",
    right=(),
    wrong=(),
)


def _heads_inputs(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor]:
    x = inputs.normal(seed, "x", 2, trial["sequence"], trial["heads"], 3)
    return (inputs.part(x, rank, trial.ranks, dim=1),)


def _heads_reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    x = torch.cat([part for (part,) in given], dim=1)
    return list(x.tensor_split(len(given), dim=2))


def sequence_to_heads(x: torch.Tensor) -> torch.Tensor:
    """The whole sequence of this rank's heads."""
    p = dist.get_world_size()
    lengths = [torch.empty(1, dtype=torch.long) for _ in range(p)]
    dist.all_gather(lengths, torch.tensor([x.shape[1]]))
    leaving = [part.flatten() for part in x.tensor_split(p, dim=2)]
    mine = x.shape[2] // p * x.shape[3] * x.shape[0]
    arriving = x.new_empty(sum(int(length) for length in lengths) * mine)
    into = [int(length) * mine for length in lengths]
    dist.all_to_all_single(arriving, torch.cat(leaving), into, [len(part) for part in leaving])
    parts = [part.view(x.shape[0], -1, x.shape[2] // p, x.shape[3]) for part in arriving.split(into)]
    return torch.cat(parts, dim=1)


def _exchange(trial: Trial) -> Quantity:
    """Each rank keeps its own heads of its own part; 8 bytes for the length to each other rank."""
    size = 2 * trial["sequence"] * trial["heads"] * 3 * 4
    return volume.direct_all_to_all(size // trial.ranks, trial.ranks) + 8 * (trial.ranks - 1)


HEADS = Exercise(
    name="99.3",
    title="Heads for sequence",
    statement="",
    inputs=_heads_inputs,
    reference=_heads_reference,
    budget=Budget(sent=Bound(OfTrial(_exchange)), collectives={"all_to_all": 1, "all_gather": 1}),
    grain=lambda trial: 2 * trial["heads"] * 3 * 4 if trial["sequence"] % trial.ranks else 0,
    calls=("all_to_all", "all_gather"),
    dims=("batch", "sequence", "heads", "head_dim"),
    trials=(
        Trial(4, sizes={"sequence": 8, "heads": 12}),
        Trial(4, sizes={"sequence": 10, "heads": 12}),
        Trial(3, sizes={"sequence": 10, "heads": 12}),
    ),
    hints=("", "", ""),
    solution=sequence_to_heads,
    explanation="",
    right=(),
    wrong=(),
)


def zigzag_step(rank: int, ranks: int, step: int) -> str:
    """What a rank computes in this step."""
    return "causal" if step == 0 else "first keys" if step <= rank else "last queries"


RULE = Exercise(
    name="99.4",
    title="A rule",
    statement="",
    inputs=lambda seed, rank, trial: (rank, trial.ranks, trial["step"]),
    reference=lambda given: [zigzag_step(*parts) for parts in given],
    pure=True,
    trials=tuple(Trial(4, sizes={"step": step}) for step in range(4)),
    hints=("", "", ""),
    solution=zigzag_step,
    explanation="",
    right=(),
    wrong=(),
)
