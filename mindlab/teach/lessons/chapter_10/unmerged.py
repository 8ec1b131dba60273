"""Case 10-a: results of shards, averaged."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.decode import decode_attention, merge_summed
from mindlab.parallel.merge import merge_lse
from mindlab.teach import likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_10 import given

Tensor = torch.Tensor


def mean_of_parts(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """The attention over all ranks' keys, on every rank."""
    out, _ = attention_with_lse(q, k_shard, v_shard)
    dist.all_reduce(out)
    return out / dist.get_world_size()


def by_lse(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """The attention over all ranks' keys, on every rank."""
    out, lse = attention_with_lse(q, k_shard, v_shard)
    outs = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    lses = [torch.empty_like(lse) for _ in outs]
    dist.all_gather(outs, out.contiguous())
    dist.all_gather(lses, lse.contiguous())
    return merge_lse(outs, lses)[0]


def from_the_package(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Right: the package's own."""
    return decode_attention(q, k_shard, v_shard)


def by_sums(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Right: the largest LSE first, then one sum."""
    return decode_attention(q, k_shard, v_shard, merge=merge_summed)


def weighted(how: str, q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """The ranks' outputs, each with a weight: of its keys, of its LSE, or none."""
    out, lse = attention_with_lse(q, k_shard, v_shard)
    keys = torch.full_like(lse, k_shard.shape[1])
    weight = {"keys": keys, "seen": (keys > 0).float(), "sum": torch.ones_like(lse)}.get(how, lse.exp())
    share = weight.transpose(1, 2).unsqueeze(-1)
    both = torch.cat([out * share, share], -1)
    dist.all_reduce(both)
    whole = both[..., :-1] / (1 if how == "sum" else both[..., -1:])
    return whole.contiguous()


def adds_up(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: the sum, not divided at all."""
    return weighted("sum", q, k_shard, v_shard)


def by_length(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: a shard counts as much as it has keys."""
    return weighted("keys", q, k_shard, v_shard)


def without_the_empty(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: the mean over the shards that are not empty."""
    return weighted("seen", q, k_shard, v_shard)


def overflows(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: exponentials that were not measured from the largest."""
    return weighted("lse", q, k_shard, v_shard)


def own_shard(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: this rank's keys only."""
    return attention_with_lse(q, k_shard, v_shard)[0]


def all_keys(q: Tensor, k_shard: Tensor, v_shard: Tensor) -> Tensor:
    """Wrong: right values, but the whole cache travels for one query."""
    rank, p = dist.get_rank(), dist.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(p)]
    dist.all_gather(sizes, torch.tensor([k_shard.shape[1]]))
    longest = int(max(sizes))
    padded = k_shard.new_zeros(2, k_shard.shape[0], longest, *k_shard.shape[2:])
    padded[:, :, : k_shard.shape[1]] = torch.stack([k_shard, v_shard])
    every = [torch.empty_like(padded) for _ in range(p)]
    dist.all_gather(every, padded)
    k, v = (torch.cat([one[i, :, : int(n)] for one, n in zip(every, sizes, strict=True)], 1) for i in (0, 1))
    assert rank < p
    return attention_with_lse(q, k, v)[0]


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, ...]:
    return given.queries(seed, trial), *given.shards(seed, rank, trial)


def _one_card(all_given: list[tuple[Tensor, ...]]) -> list[Tensor]:
    k, v = (torch.cat([one[place] for one in all_given], 1) for place in (1, 2))
    return [given.exact(all_given[0][0], k, v)] * len(all_given)


def _mistakes(all_given: list[tuple[Tensor, ...]], rank: int) -> dict[str, Tensor]:
    outs = torch.stack([attention_with_lse(q, k, v)[0] for q, k, v in all_given])
    keys = torch.tensor([float(k.shape[1]) for _, k, _ in all_given]).view(-1, 1, 1, 1, 1)
    return {
        "the plain sum of the ranks' outputs": outs.sum(0),
        "the mean of the ranks' outputs, each counted alike": outs.mean(0),
        "the mean of the ranks' outputs by their numbers of keys": (outs * keys).sum(0) / keys.sum(),
        "the attention over its own keys alone": outs[rank],
    }


REPAIR = Exercise(
    name="10-a",
    title="Words, but no sentences",
    statement="""
The attention of `q` (batch, 1, heads, 8) over all ranks' keys, on every rank. `k_shard` and `v_shard` (batch,
S_r, 1, 8) are this rank's part of the cache; S_r may be 0.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(given.scattered), allowed=OfTrial(given.gathered))),
    calls=("all_reduce", "all_gather", "all_to_all"),
    whole=given.result,
    grain=lambda trial: 0,
    look=likely.named(_mistakes),
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"length": 12, "even": 1}),
        Trial(4, sizes={"length": 13}),
        Trial(3, sizes={"length": 13, "loud": 1}),
        Trial(4, sizes={"length": 3}),
    ),
    hints=(
        "Each rank's softmax divided by a sum of its own. Which rank's keys fit the query, and where would "
        "the mean learn of it?",
        "A rank's weight is e to its LSE, over the sum of all these. `attention_with_lse` returns the LSE "
        "beside the output; the program throws it away.",
        """
    out, lse = attention_with_lse(q, k_shard, v_shard)
    outs, lses = ..., ...           # of all ranks
    ...                             # merge_lse(outs, lses) gives (out, lse)
""",
    ),
    solution=by_lse,
    explanation="""
With queries of zeros every key has the same score: every shard of equal length has the same LSE, and the mean
is right. A trained model's queries prefer some keys, and the rank that holds them must count more.

A weight by the number of keys is the same mistake for shards of unequal length: how many keys there are says
nothing of how well they fit.
""",
    right=(from_the_package, by_sums),
    wrong=(
        Wrong(mean_of_parts, r"mean of the ranks' outputs, each counted alike"),
        Wrong(adds_up, r"returned the plain sum of the ranks' outputs|every element is 4 times"),
        Wrong(by_length, r"by their numbers of keys"),
        Wrong(without_the_empty, r"mean of the ranks' outputs"),
        Wrong(overflows, r"elements are NaN"),
        Wrong(own_shard, r"attention over its own keys alone"),
        Wrong(all_keys, r"times the allowed"),
    ),
)

CASE = Case(
    name="10-a",
    title="Words, but no sentences",
    story="""
A cache outgrew one card and was dealt to several. The kernel in use returns an output and nothing else, so
the outputs of the cards are averaged. The test, with a model fresh from its initialisation and a cache of
equal shards, agrees with one card. The trained model writes words, but no sentences.
""",
    program=mean_of_parts,
    causes=(
        Choice(
            "The all-reduce adds in another order than one card does, and the error grows token by token.",
            "Another order changes the last digits. Here the first digits differ, in the first token.",
            holds=False,
        ),
        Choice(
            "The new token is missing on some ranks.",
            "The program is given the shards as they are; no token is added in it.",
            holds=False,
        ),
        Choice(
            "Each shard's softmax has a denominator of its own, and the mean counts all shards alike.",
            "A shard whose keys fit the query must count more. How much is e to its LSE, which is thrown "
            "away.",
            holds=True,
        ),
        Choice(
            "The keys of a shard stand in another order than on one card.",
            "A query of decoding sees all keys; their order changes nothing.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    look=likely.unnamed,
    shown_trial=1,
    source="lightseekorg/tokenspeed pull request 364 (2026): a decode kernel returned no LSE, so that parts "
    "could not be merged; NPU 推理并行策略设计, section 4, names the sum as the mistake; the program is ours",
)
