"""What the tests of decoding run on the ranks, and the one card that they compare with."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from attention_data import exact, qkv

from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import decode_attention, merge_gathered, merge_scattered, merge_summed

MERGES = {"scattered": merge_scattered, "gathered": merge_gathered, "summed": merge_summed}


class Case(NamedTuple):
    """Requests of these lengths, one query each; and how their cache is dealt."""

    lengths: tuple[int, ...]
    heads: int = 6
    kv_heads: int = 2
    dim: int = 10
    block: int = 1
    merge: str = "scattered"


CASES = [
    Case((30, 31)),
    Case((66, 66), kv_heads=6, block=4),
    Case(
        (1, 9, 0, 5), heads=3, kv_heads=1
    ),  # shards that are empty for some requests, a request without keys
    Case((2,), heads=1, kv_heads=1, block=2),  # fewer tokens than ranks, fewer rows than ranks
    Case((7, 40), block=16),  # block-wise: the last ranks have nothing yet
    Case((30, 17, 2), merge="gathered"),
    Case((30, 17, 2), merge="summed"),
    Case((5, 0), merge="summed", block=3),
]


def inputs(case: Case, dtype: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """q (1, 1, H, D), k and v (1, length, K, D) of each request; the values far from constant."""
    shape = {"heads": case.heads, "kv_heads": case.kv_heads, "dim": case.dim, "batch": 1, "dtype": dtype}
    return [qkv(1, length, **shape, seed=seed) for seed, length in enumerate(case.lengths)]


def one_card(case: Case, dtype: torch.dtype) -> torch.Tensor:
    """Attention by its definition, in float64, request by request."""
    return torch.cat([exact(q, k, v, False)[0] for q, k, v in inputs(case, dtype)])


def decoded(case: Case, dtype: torch.dtype, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """On a rank: the cache filled token by token, then one decode step."""
    given = inputs(case, dtype)
    cache = ShardedCache(
        len(given), max(case.lengths), case.kv_heads, (case.dim, case.dim), block=case.block, dtype=dtype,
        group=group,
    )  # fmt: skip
    for request, (_, k, v) in enumerate(given):
        for at in range(k.shape[1]):
            cache.append(k[:, at : at + 1], v[:, at : at + 1], requests=[request])
    assert cache.lengths == list(case.lengths)
    q = torch.cat([q for q, _, _ in given])
    merge = MERGES[case.merge]
    return decode_attention(q, *cache.shard, lengths=cache.own, merge=merge, group=group)
