"""Exercise 04.1: the attention over all keys, from the attention over parts of them."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist

from mindlab.parallel import ring
from mindlab.teach import inputs, likely
from mindlab.teach.lesson import Exercise, Tolerance, Trial, Wrong

Tensors = tuple[torch.Tensor, torch.Tensor]
Parts = tuple[list[torch.Tensor], list[torch.Tensor]]


def my_merge(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """The attention over all parts' keys, and its LSE."""
    top = torch.stack(lses).amax(0)
    safe = top.masked_fill(top == -torch.inf, 0.0)  # else -inf - -inf, which is NaN
    out, total = torch.zeros_like(outs[0], dtype=torch.float32), torch.zeros_like(top)
    for part, lse in zip(outs, lses, strict=True):
        weight = torch.exp(lse - safe)
        out = out + weight.transpose(1, 2).unsqueeze(-1) * part.float()
        total = total + weight
    out = out / total.clamp(min=1).transpose(1, 2).unsqueeze(-1)  # the largest weight is 1
    return out.to(outs[0].dtype), top + total.log()


def by_logsumexp(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Right: torch's own logsumexp, and weights that add up to 1."""
    lse = torch.logsumexp(torch.stack(lses), 0)
    weights = torch.exp(torch.stack(lses) - lse).nan_to_num(0.0)
    wide = torch.stack(outs).float() * weights.transpose(2, 3).unsqueeze(-1)
    return wide.sum(0).to(outs[0].dtype), lse


def two_at_a_time(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Right: a running result, as a ring has it."""
    out, lse = outs[0].float(), lses[0]
    for part, part_lse in zip(outs[1:], lses[1:], strict=True):
        both = torch.logaddexp(lse, part_lse)
        keep, add = (
            torch.where(both == -torch.inf, 0.0, torch.exp(one - both)).transpose(1, 2)[..., None]
            for one in (lse, part_lse)
        )
        out, lse = keep * out + add * part.float(), both
    return out.to(outs[0].dtype), lse


def from_the_package(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Right: the package's own."""
    return ring.merge_lse(outs, lses)


def adds_up(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: the sum of the softmaxes."""
    return torch.stack(outs).sum(0), by_logsumexp(outs, lses)[1]


def averages(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: every part counts alike, however many large scores it has."""
    return torch.stack(outs).float().mean(0).to(outs[0].dtype), by_logsumexp(outs, lses)[1]


def without_the_largest(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: exp of the LSE itself overflows."""
    weights = torch.stack(lses).exp()
    total = weights.sum(0)
    shares = (weights / total.clamp(min=1e-30)).transpose(2, 3).unsqueeze(-1)
    return (torch.stack(outs).float() * shares).sum(0).to(outs[0].dtype), total.log()


def published(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """The attention over all parts' keys, and its LSE."""
    out, lse = outs[0], lses[0]
    for part, part_lse in zip(outs[1:], lses[1:], strict=True):
        new = lse + torch.log(1 + torch.exp(part_lse - lse))
        keep = torch.exp(lse - new).transpose(1, 2).unsqueeze(-1)
        add = torch.exp(part_lse - new).transpose(1, 2).unsqueeze(-1)
        out, lse = keep * out + add * part, new
    return out, lse


def by_sigmoid(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: the widely copied form is NaN where the first part is empty."""
    out, lse = outs[0].float(), lses[0]
    for part, part_lse in zip(outs[1:], lses[1:], strict=True):
        share = torch.sigmoid(part_lse - lse).transpose(1, 2).unsqueeze(-1)
        out = out - share * (out - part.float())
        lse = lse - torch.nn.functional.logsigmoid(lse - part_lse)
    return out.to(outs[0].dtype), lse


def both_empty(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: where all parts are empty, -inf - -inf is NaN."""
    top = torch.stack(lses).amax(0)
    weights = torch.exp(torch.stack(lses) - top)
    shares = (weights / weights.sum(0)).transpose(2, 3).unsqueeze(-1)
    out = (torch.stack(outs).float() * shares).sum(0)
    return out.to(outs[0].dtype), torch.logsumexp(torch.stack(lses), 0)


def in_base_two(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: a kernel that works with powers of two gives such an LSE; nobody converted it."""
    out, lse = by_logsumexp(outs, lses)
    return out, lse / math.log(2)


def adds_the_lse(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: logarithms are added where their exponentials had to be."""
    return by_logsumexp(outs, lses)[0], torch.stack(lses).sum(0)


def in_half_precision(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong: the running sum has 8 bits, and every part rounds it again."""
    out, lse = outs[0], lses[0]
    for part, part_lse in zip(outs[1:], lses[1:], strict=True):
        both = torch.logaddexp(lse, part_lse)
        keep, add = (
            torch.where(both == -torch.inf, 0.0, torch.exp(one - both))
            .transpose(1, 2)[..., None]
            .to(out.dtype)
            for one in (lse, part_lse)
        )
        out, lse = keep * out + add * part, both
    return out, lse


def lse_forgotten(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> torch.Tensor:
    """Wrong: without the LSE nobody can go on merging."""
    return by_logsumexp(outs, lses)[0]


def asks_the_others(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Tensors:
    """Wrong here: all parts are at hand."""
    dist.barrier()
    return by_logsumexp(outs, lses)


def _inputs(seed: int, rank: int, trial: Trial) -> Parts:
    """Parts whose LSE lie "gap" apart. "empty": query 0 saw nothing in part 0, the last one in no part."""
    count, shape = trial["parts"], (2, trial["queries"], 3, 8)
    outs = [inputs.normal(seed, f"out {part}", *shape, rank=rank, dtype=trial.dtype) for part in range(count)]
    lses = [
        inputs.normal(seed, f"lse {part}", 2, 3, trial["queries"], rank=rank) + part * trial["gap"]
        for part in range(count)
    ]
    if trial["empty"]:
        for part, (out, lse) in enumerate(zip(outs, lses, strict=True)):
            unseen = [-1] if part else [0, -1]
            out[:, unseen], lse[:, :, unseen] = 0, -torch.inf
    return outs, lses


def _one_card(given: list[Parts]) -> list[Tensors]:
    results = []
    for outs, lses in given:
        stacked = torch.stack(lses).double()
        lse = torch.logsumexp(stacked, 0)
        shares = torch.exp(stacked - lse).nan_to_num(0.0).transpose(2, 3).unsqueeze(-1)
        out = (torch.stack(outs).double() * shares).sum(0)
        results.append((out.to(outs[0].dtype), lse.float()))
    return results


def _mistakes(given: list[Parts], rank: int) -> dict[str, torch.Tensor]:
    outs = torch.stack(given[rank][0]).float()
    return {
        "the plain sum of the parts as `out`": outs.sum(0),
        "the mean of the parts as `out`, each counted alike": outs.mean(0),
    }


EXERCISE = Exercise(
    name="04.1",
    title="Merge",
    statement="""
Write `my_merge(outs, lses)`. `outs` are the results of attention over parts of the keys, each (batch,
queries, heads, head_dim); `lses` their LSE, each (batch, heads, queries), in float32. There may be any
number of parts. Return the result over all keys, in the dtype of the parts, and its LSE in float32.

The LSE of two parts may lie hundreds apart. A query that saw no key of a part has output 0 and LSE -inf
there; if it saw none in any part, the answer is 0 and -inf. Some parts are bfloat16: round only once.
""",
    inputs=_inputs,
    reference=_one_card,
    results=("out", "lse"),
    pure=True,
    look=likely.named(_mistakes),
    trials=(
        Trial(3, sizes={"parts": 2, "queries": 5, "gap": 0, "empty": 0}),
        Trial(3, sizes={"parts": 2, "queries": 5, "gap": 300, "empty": 0}),
        Trial(3, sizes={"parts": 3, "queries": 5, "gap": 0, "empty": 1}),
        Trial(3, sizes={"parts": 5, "queries": 5, "gap": -200, "empty": 1}),
        Trial(3, sizes={"parts": 32, "queries": 5, "gap": 0, "empty": 0}, dtype="bfloat16"),
    ),
    tolerance={
        "bfloat16": Tolerance(1e-4, 2.0**-7, "one rounding to 8 bits"),
        "float32": Tolerance(1e-4, 1e-5, "an LSE of hundreds has five digits left behind the point"),
    },
    dims=("batch", "queries", "heads", "head_dim"),
    hints=(
        "A part divided by the sum of its own exponentials, which is exp(lse). Undo that, add, and divide by "
        "the sum over all parts.",
        "Draw the parts as pieces of one bar, each as long as its exp(lse). The share of a piece in the bar "
        "is its weight. Only the ratio of the pieces matters, so measure all of them by the longest one. "
        "And a bar without any piece?",
        """
    top = ...                                   # for each query, the largest LSE of all parts
    for part, lse in zip(outs, lses):
        weight = ...                            # 1 for the largest; 0 for an empty part, never NaN
        out = out + ...                         # the weight must stand beside an output's shape
        total = total + weight
    return ..., ...                             # divided by total; and the logarithm of it, measured from top
""",
    ),
    solution=my_merge,
    explanation="""
With $m = \\max_i \\ell_i$ every weight $e^{\\ell_i - m}$ lies between 0 and 1, and the largest is 1:
nothing overflows, and the sum can be divided by. The result is $\\sum_i e^{\\ell_i-m} O_i / \\sum_i
e^{\\ell_i-m}$, its LSE $m + \\log\\sum_i e^{\\ell_i-m}$.

If all parts are empty, $m$ is $-\\infty$ and the difference is NaN: there 0 is taken in its place. The sum is
kept in float32 and rounded once; with 32 parts in bfloat16 the error of a running sum in bfloat16 is several
times as large. `merge_lse` of the package is this, with checks of shapes, and with Ascend's kernel on a card.
""",
    right=(by_logsumexp, two_at_a_time, from_the_package),
    wrong=(
        Wrong(adds_up, r"returned the plain sum of the parts as `out`"),
        Wrong(averages, r"returned the mean of the parts as `out`"),
        Wrong(without_the_largest, r"240 of 240 elements are NaN .*gap 0, empty 0 it was right"),
        Wrong(published, r"Rank 0, out: its result is all zeros.*gap 0, empty 0 it was right"),
        Wrong(by_sigmoid, r"96 of 240 elements are NaN where one card has numbers"),
        Wrong(both_empty, r"Rank 0, out: 48 of 240 elements are NaN"),
        Wrong(in_base_two, r"Rank 0, lse: every element is 1\.4427 times"),
        Wrong(adds_the_lse, r"Rank 0, lse: element"),
        Wrong(in_half_precision, r"Allowed: 0\.0001 \+ 0\.0078125 x .*one rounding to 8 bits"),
        Wrong(lse_forgotten, r"returned a Tensor where 2 results are wanted: out, lse"),
        Wrong(asks_the_others, r"It calls barrier\. In this exercise no rank needs another one"),
    ),
)
