"""Exercise 05.3: keys and values of which there are fewer heads than ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.ulysses import sequence_to_heads
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards, there

QUERY_HEADS = 24


def my_keys_to_heads(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """All positions of the key heads that this rank's queries need, (B, S, max(1, K/p), D)."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = k.shape
    k = k.repeat_interleave(max(1, p // heads), dim=2)
    leaving = k.reshape(batch, length, p, -1, head_dim).permute(2, 1, 0, 3, 4)
    leaving = leaving.reshape(p * length, batch, -1, head_dim)
    arriving = k.new_empty(sum(sizes), *leaving.shape[1:])
    dist.all_to_all_single(arriving, leaving, sizes, [length] * p)
    return arriving.transpose(0, 1)


def head_by_head(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: for each rank the heads that its queries need, picked by number."""
    p, rank = dist.get_world_size(), dist.get_rank()
    batch, _, heads, head_dim = k.shape
    count = max(1, heads // p)
    needed = [slice(other * heads // p, other * heads // p + count) for other in range(p)]
    leaving = torch.cat([k[:, :, one].transpose(0, 1) for one in needed])
    arriving = k.new_empty(sum(sizes), batch, count, head_dim)
    dist.all_to_all_single(arriving, leaving, sizes, [sizes[rank]] * p)
    return arriving.transpose(0, 1).contiguous()


def from_the_package(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: the package's own."""
    return sequence_to_heads(k, sizes=sizes)


def tiled(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: heads 0 1 0 1 in place of 0 0 1 1."""
    p, heads = dist.get_world_size(), k.shape[2]
    return there.my_sequence_to_heads(k.repeat(1, 1, max(1, p // heads), 1), sizes)


def one_head_always(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: one head for each rank, also where there are more than ranks."""
    p, heads = dist.get_world_size(), k.shape[2]
    first = k[:, :, :: max(1, heads // p)].repeat_interleave(max(1, p // heads), dim=2)
    return there.my_sequence_to_heads(first, sizes)


def always_repeated(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: each head p times, also where there are enough."""
    return there.my_sequence_to_heads(k.repeat_interleave(dist.get_world_size(), dim=2), sizes)


def not_repeated(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: with fewer heads than ranks there is no way to cut them."""
    return there.my_sequence_to_heads(k, sizes)


def all_heads_to_everybody(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, but every rank gets every key head."""
    p, rank, heads = dist.get_world_size(), dist.get_rank(), k.shape[2]
    whole = there.my_sequence_to_heads(k.repeat(1, 1, p, 1), sizes)
    first = rank * heads // p
    return whole[:, :, first : first + max(1, heads // p)].contiguous()


def as_many_as_queries(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, but each key head is sent once for each query head."""
    p, heads = dist.get_world_size(), k.shape[2]
    sharing = QUERY_HEADS // heads
    mine = there.my_sequence_to_heads(k.repeat_interleave(sharing, dim=2), sizes)
    return mine[:, :, :: min(sharing, QUERY_HEADS // p)].contiguous()


def gathered(k: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong here: all-gather, and drop what is not needed."""
    p, rank, heads = dist.get_world_size(), dist.get_rank(), k.shape[2]
    parts = [torch.empty_like(k) for _ in range(p)]
    dist.all_gather(parts, k)
    first = rank * heads // p
    return torch.cat(parts, dim=1)[:, :, first : first + max(1, heads // p)].contiguous()


def _given(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor, list[int]]:
    lengths = shards.sizes(trial)
    k = shards.whole(seed, "k", trial, trial["kv_heads"])
    return k.split(lengths, dim=1)[rank].clone(memory_format=torch.contiguous_format), lengths


def _one_card(given: list[tuple[torch.Tensor, list[int]]]) -> list[torch.Tensor]:
    whole, ranks = torch.cat([k for k, _ in given], dim=1), len(given)
    heads = whole.shape[2]
    first = [rank * heads // ranks for rank in range(ranks)]
    return [whole[:, :, one : one + max(1, heads // ranks)] for one in first]


def _sent(trial: Trial) -> int:
    """Key heads that count: K, or one a rank where there are fewer."""
    return max(trial["kv_heads"], trial.ranks)


EXERCISE = Exercise(
    name="05.3",
    title="Fewer key heads than ranks",
    statement="""
A model has H query heads and K key-value heads, and query head i reads key head i // (H/K). Rank r works on
the query heads from r H/p on. Write `my_keys_to_heads(k, sizes)`, which brings each rank the key heads that
its queries read.

`k` is this rank's shard of the keys, (batch, positions, K, head_dim); `sizes` are the numbers of positions of
all ranks. Either p divides K, or K divides p. Return (batch, S, max(1, K/p), head_dim): where K is smaller
than p, several ranks get the same head.

One call of `all_to_all_single`. No rank may be sent a head that it does not read.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(
            OfTrial(lambda trial: shards.there(trial, _sent(trial), r"\max(K, p)")),
            naive=OfTrial(lambda trial: shards.there(trial, QUERY_HEADS)),
        ),
        collectives={"all_to_all_single": 1},
    ),
    calls=("all_to_all_single",),
    whole=lambda trial: shards.block(trial, trial["kv_heads"]),
    grain=lambda trial: 0,
    dims=("batch", "position", "head", "head_dim"),
    trials=(
        Trial(4, sizes={"sequence": 24, "kv_heads": 2}),
        Trial(4, sizes={"sequence": 26, "kv_heads": 1}),
        Trial(4, sizes={"sequence": 26, "kv_heads": 8}),
        Trial(3, sizes={"sequence": 26, "kv_heads": 3}),
    ),
    hints=(
        "Write down for each rank which query heads it has, and which key heads these read. Take H = 8, "
        "K = 2, p = 4.",
        "Ranks 0 and 1 read key head 0, ranks 2 and 3 read key head 1: ranks that share a head are "
        "neighbours. If every rank had a copy of its own, in which order would the copies stand?",
        """
    k = k.repeat_...(..., dim=2)        # one head a rank, if there are fewer
    ...                                 # then as in exercise 05.1
""",
    ),
    solution=my_keys_to_heads,
    explanation="""
`repeat_interleave` gives 0 0 1 1, `repeat` gives 0 1 0 1. Both have the right shape, and on the first and the
last rank the same values.

To repeat up to all H query heads is also right, and sends H/p times as much where K is smaller than p. Each
rank needs one whole head, and has 1/p of it: fewer bytes would not do.
""",
    right=(head_by_head, from_the_package),
    wrong=(
        Wrong(tiled, r"Rank 1 returned what belongs on rank 2\. Ranks 0 and 3 are right"),
        Wrong(one_head_always, r"shape \(2, 26, 1, 8\), and \(2, 26, 2, 8\) is wanted"),
        Wrong(always_repeated, r"shape \(2, 24, 2, 8\), and \(2, 24, 1, 8\) is wanted"),
        Wrong(not_repeated, r"raised|shape"),
        Wrong(all_heads_to_everybody, r"Rank 0 sent .*, 2 times the allowed [^:?]*$"),
        Wrong(as_many_as_queries, r"Rank 0 sent .*, 6 times the allowed"),
        Wrong(gathered, r"It calls all_gather"),
    ),
)
