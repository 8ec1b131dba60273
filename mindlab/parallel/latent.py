"""Decoding with multi-latent attention from a cache that is sharded by position.

There is one latent a token for all heads. Tensor parallel over heads would copy it to every rank; cut by
position, each rank holds and reads 1/p of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mindlab.models.latent import LatentAttention
from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import Merge, attend_shard, merge_scattered
from mindlab.parallel.linear import Group


def latent_cache(
    layer: LatentAttention, batch: int, capacity: int, *, block: int = 1, group: Group = None
) -> ShardedCache:
    """An empty sharded cache for the layer: one head of d_c + d_r numbers a token."""
    dtype = layer.keys.dtype
    dims = (layer.latent + layer.rope,)
    return ShardedCache(batch, capacity, 1, dims, block=block, dtype=dtype, group=group)


@torch.no_grad()
def decode_latent(
    layer: LatentAttention, x: Tensor, cache: ShardedCache, merge: Merge = merge_scattered
) -> Tensor:
    """The layer's output (B, 1, hidden) for the newest tokens x, the same on every rank.

    Their entries are stored, each on one rank. A head's values are made of its mean latent
    before the merge: it is linear in them, and head_dim numbers a head travel, not d_c.
    """
    at = cache.newest(x).unsqueeze(1)
    cache.append(layer.entry(x, at))
    (entries,) = cache.shard
    q, latents = layer.absorbed_query(x, at), entries[..., : layer.latent]
    out, lse = attend_shard(q, entries, latents, cache.own, layer.scale)
    attended: Tensor = layer.o(merge(layer.head_values(out), lse, cache.group).flatten(2))
    return attended
