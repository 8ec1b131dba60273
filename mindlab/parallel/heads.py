"""Attention cut over ranks by heads: each rank computes its own from start to end, then one sum joins them.

Rank r of p has query heads r H/p to (r+1) H/p: q, k and v are column layers, the output o is a row layer.
Keys and values have K heads of their own (grouped-query attention). Where K < p, each of them lies on p/K
ranks: their weights, and their part of a KV cache, do not shrink below one head a rank.
"""

from __future__ import annotations

import torch
from torch import nn

from mindlab.models.layers import Attention
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.linear import ColumnParallelLinear, Group, RowParallelLinear, copied, place, summed
from mindlab.predict.heads import heads_per_rank


class ParallelAttention(nn.Module):
    """This rank's heads of an attention layer: (B, S, hidden) -> (B, S, hidden), whole on every rank.

    `heads` and `kv_heads` count this rank's own; `o.bias` is the whole bias, to be added after the sum.
    """

    q: ColumnParallelLinear
    k: ColumnParallelLinear
    v: ColumnParallelLinear
    o: RowParallelLinear

    def __init__(self, full: Attention, group: Group = None) -> None:
        super().__init__()
        rank, ranks = place(group)
        self.group, self.head_dim, self.causal = group, full.head_dim, full.causal
        self.heads, self.kv_heads = heads_per_rank(full.heads, full.kv_heads, ranks)
        self.q = ColumnParallelLinear.from_full(full.q, group)
        self.k, self.v = (self._kv(linear, rank * full.kv_heads // ranks) for linear in (full.k, full.v))
        self.o = RowParallelLinear.from_full(full.o, group)

    @classmethod
    def from_full(cls, attention: Attention, group: Group = None) -> ParallelAttention:
        """This rank's heads of `attention`, copied.

        Raises ValueError where ranks do not divide the heads, or neither divide nor are a multiple of the key
        and value heads.

        >>> full, x = Attention(32, heads=4, kv_heads=2), torch.ones(1, 5, 32)
        >>> run = ml.launch(lambda: ParallelAttention.from_full(full)(x), ranks=4)
        >>> torch.allclose(run.values[3], full(x), atol=1e-5)
        True
        """
        return cls(attention, group)

    def _kv(self, linear: nn.Linear, first: int) -> ColumnParallelLinear:
        """The features of key (or value) heads `first` on: as many as this rank has."""
        own = slice(first * self.head_dim, (first + self.kv_heads) * self.head_dim)
        bias = None if linear.bias is None else copied(linear.bias[own])
        return ColumnParallelLinear(copied(linear.weight[own]), bias, self.group)

    def qkv(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """This rank's queries (B, S, own heads, head_dim), keys and values (B, S, own kv heads, head_dim)."""
        q, k, v = (layer(x).unflatten(-1, (-1, self.head_dim)) for layer in (self.q, self.k, self.v))
        return q, k, v

    @torch.no_grad()
    def partial(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's term of the sum over ranks, without o's bias: nothing is sent."""
        out, _ = attention_with_lse(*self.qkv(x), causal=self.causal)
        return self.o.partial(out.flatten(2))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) on every rank from (B, S, hidden), the same on all: one all-reduce."""
        return summed(self.partial(x), self.o.bias, group=self.group)
