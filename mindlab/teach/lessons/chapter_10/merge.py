"""Exercise 10.1: the merge over ranks, each row on one rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.decode import merge_gathered, merge_scattered
from mindlab.parallel.expert import swapped
from mindlab.predict import units
from mindlab.teach import likely
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_10 import given

Tensor = torch.Tensor


def merged_over_ranks(out: Tensor, lse: Tensor) -> Tensor:
    """The output over all ranks' keys, on every rank."""
    rank, p, dim = dist.get_rank(), dist.get_world_size(), out.shape[-1]
    rows = torch.cat([out.flatten(0, 2), lse.transpose(1, 2).reshape(-1, 1)], 1)
    sizes = [len(part) for part in rows.tensor_split(p)]
    mine = [sizes[rank]] * p
    parts = rows.new_empty(sum(mine), dim + 1)
    dist.all_to_all_single(parts, rows, mine, sizes)
    parts = parts.view(p, sizes[rank], dim + 1)
    weights = parts[..., dim:].softmax(0)
    merged = (weights * parts[..., :dim]).sum(0)
    whole = merged.new_empty(len(rows), dim)
    dist.all_to_all_single(whole, merged.repeat(p, 1), sizes, mine)
    return whole.view(out.shape)


def in_two_messages(out: Tensor, lse: Tensor) -> Tensor:
    """Right: outputs and LSE apart, and weights by logsumexp."""
    rank, p, dim = dist.get_rank(), dist.get_world_size(), out.shape[-1]
    sizes = [len(part) for part in lse.flatten().tensor_split(p)]
    mine = [sizes[rank]] * p
    outs = swapped(out.reshape(-1, dim), sizes, mine).view(p, -1, dim)
    lses = swapped(lse.transpose(1, 2).flatten(), sizes, mine).view(p, -1)
    weights = torch.exp(lses - torch.logsumexp(lses, 0))
    merged = torch.einsum("pr,prd->rd", weights, outs)
    return swapped(merged.repeat(p, 1), mine, sizes).view(out.shape)


def from_the_package(out: Tensor, lse: Tensor) -> Tensor:
    """Right: the package's own."""
    return merge_scattered(out, lse)


def all_to_all_ranks(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: every rank gets every part and merges everything."""
    return merge_gathered(out, lse)


def every_row(out: Tensor, weights_of: str, lse: Tensor) -> Tensor:
    """Each rank sends its rows to all; on arrival they are weighed as `weights_of` says."""
    rank, p, dim = dist.get_rank(), dist.get_world_size(), out.shape[-1]
    order = lse if weights_of == "heads first" else lse.transpose(1, 2)
    rows = torch.cat([out.flatten(0, 2), order.reshape(-1, 1)], 1)
    sizes = [len(part) for part in rows.tensor_split(p)]
    mine = [sizes[rank]] * p
    parts = rows.new_empty(sum(mine), dim + 1)
    dist.all_to_all_single(parts, rows, mine, sizes)
    parts = parts.view(p, sizes[rank], dim + 1)
    outs, lses = parts[..., :dim], parts[..., dim:]
    weights = {
        "sum": torch.ones_like(lses),
        "mean": torch.full_like(lses, 1 / p),
        "largest": (lses == lses.amax(0)).float(),
        "plain exponentials": lses.exp() / lses.exp().sum(0),
        "half": lses.bfloat16().softmax(0).float(),
        "base two": (lses * 2**0.5).softmax(0),
    }.get(weights_of, lses.softmax(0))
    merged = (weights * outs).sum(0)
    whole = merged.new_empty(len(rows), dim)
    if weights_of == "kept":
        whole = torch.cat([merged if r == rank else merged.new_zeros(n, dim) for r, n in enumerate(sizes)])
        return whole.view(out.shape)
    dist.all_to_all_single(whole, merged.repeat(p, 1), sizes, mine)
    return whole.view(out.shape)


def adds_up(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: the sum of the parts."""
    return every_row(out, "sum", lse)


def averages(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: every part counts alike."""
    return every_row(out, "mean", lse)


def takes_the_largest(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: the part with the largest LSE, the others left out."""
    return every_row(out, "largest", lse)


def overflows(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: exponentials of large LSE are infinite."""
    return every_row(out, "plain exponentials", lse)


def in_half_precision(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: an LSE that was rounded to 8 bits."""
    return every_row(out, "half", lse)


def heads_first(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: outputs are (queries, heads), the LSE (heads, queries); alike with one query."""
    return every_row(out, "heads first", lse)


def keeps_its_rows(out: Tensor, lse: Tensor) -> Tensor:
    """Wrong: the merged rows are not sent to the others."""
    return every_row(out, "kept", lse)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor]:
    return attention_with_lse(given.queries(seed, trial), *given.shards(seed, rank, trial))


def _one_card(all_given: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    lses = torch.stack([lse for _, lse in all_given]).double().transpose(2, 3).unsqueeze(-1)
    outs = torch.stack([out for out, _ in all_given]).double()
    return [(lses.softmax(0) * outs).sum(0).float()] * len(all_given)


def _mistakes(all_given: list[tuple[Tensor, Tensor]], rank: int) -> dict[str, Tensor]:
    outs = torch.stack([out for out, _ in all_given])
    return {
        "the plain sum of the ranks' outputs": outs.sum(0),
        "the mean of the ranks' outputs, each counted alike": outs.mean(0),
    }


def _look(attempt: Attempt) -> str:
    """A mistake by its name, or that every rank merges everything."""
    everything, ranks = _gathered(attempt.trial), attempt.trial.ranks
    right = all(likely.near(*pair) for pair in zip(attempt.values, attempt.wanted, strict=True))
    if right and attempt.run.sent.tolist() == everything:
        least = units.size(max(given.scattered(attempt.trial).by_rank(ranks)))
        return (
            f"The values are right, and every rank merges everything: it sends {units.size(everything[0])}, "
            f"all of its part to each of {ranks - 1} others. {least} is enough if one rank merges each row."
        )
    return likely.named(_mistakes)(attempt)


def _gathered(trial: Trial) -> list[int]:
    """Bytes that each rank sends if all get all parts."""
    return [int(nbytes) for nbytes in given.gathered(trial).by_rank(trial.ranks)]


EXERCISE = Exercise(
    name="10.1",
    title="A merge over ranks",
    statement="""
Write `merged_over_ranks(out, lse)`. Each rank attended to its own keys: `out` (batch, queries, heads,
head_dim), and its LSE (batch, heads, queries), both float32. Return the output over all
ranks' keys, on every rank.

A row is one head of one query of one request. Let every row be merged on one rank, and send the result to
all: that is p/2 times cheaper than every rank merging everything, for large p. The ranks need not divide the
rows. A rank without keys has output 0 and LSE -inf.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(given.scattered), naive=OfTrial(given.gathered))),
    calls=("all_to_all", "all_gather"),
    whole=given.result,
    grain=lambda trial: 0,
    look=_look,
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"length": 21}),
        Trial(4, sizes={"length": 21, "queries": 3}),
        Trial(3, sizes={"length": 21}),
        Trial(4, sizes={"length": 21, "loud": 1}),
        Trial(4, sizes={"length": 3}),
    ),
    hints=(
        "An all-reduce is a reduce-scatter and an all-gather: each chunk is added up on one rank and sent to "
        "all. Here the chunks are rows, and the sum is a merge.",
        "Put the LSE of a row behind its numbers, so that they travel together. Rank r gets row block r of "
        "every rank: an all-to-all of unequal pieces. What are the weights of p parts of a row? They add up "
        "to 1, and torch has a function for e^x over the sum of all e^x.",
        """
    rows = ...                         # (batch x queries x heads, head_dim + 1)
    sizes = ...                        # how many rows each rank merges
    dist.all_to_all_single(parts, rows, ..., ...)
    weights = ...                      # of p parts, for each of my rows
    merged = ...
    dist.all_to_all_single(whole, merged.repeat(p, 1), ..., ...)
""",
    ),
    solution=merged_over_ranks,
    explanation="""
The weights $e^{\\ell_i} / \\sum_j e^{\\ell_j}$ are the softmax of the LSE over the ranks: softmax takes the
largest one out first, so nothing overflows, and an empty part gets weight 0. (If all parts are empty it is
NaN; `merge_scattered` of the package gives 0 there.)

There $\\frac{p-1}{p} b H (d e + 4)$ bytes leave a rank, back $\\frac{p-1}{p} b H d e$: the LSE has done its
work. Every rank gets the same bits, so every rank may choose the next token by itself.
""",
    right=(in_two_messages, from_the_package),
    wrong=(
        Wrong(all_to_all_ranks, r"every rank merges everything"),
        Wrong(adds_up, r"returned the plain sum of the ranks' outputs"),
        Wrong(averages, r"returned the mean of the ranks' outputs"),
        Wrong(takes_the_largest, r"Rank 0: element"),
        Wrong(overflows, r"NaN .*length 21.*it was right"),
        Wrong(in_half_precision, r"Rank 0: element"),
        Wrong(heads_first, r"Rank 0: element .*length 21 it was right"),
        Wrong(keeps_its_rows, r"Rank 0: .* are wrong"),
    ),
)
