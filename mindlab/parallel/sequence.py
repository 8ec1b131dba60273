"""Sequence parallel: between the tensor-parallel layers every rank keeps its shard of the sequence only.

A tensor-parallel block keeps norms' outputs and the residual whole on every rank, p times over. A norm or an
addition needs no other token, so a shard of the sequence will do; attention and MLP, cut by heads and
features, need every token:

    shard ── norm ── all-gather ── attention or MLP: partial sums ── reduce-scatter ── + shard

An all-reduce is a reduce-scatter and an all-gather: where tensor parallel has one all-reduce, here its halves
stand apart, and as many bytes are sent. Korthikanti et al. 2022. For inference: no gradients.

What is cut by heads and features is `tensor`'s; norms over a slice of the FEATURES stand in `norms`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mindlab.collectives import ring_all_gather, ring_reduce_scatter
from mindlab.models.layers import Block
from mindlab.parallel.heads import ParallelAttention
from mindlab.parallel.linear import Group, place
from mindlab.parallel.norms import sharded_layer_norm, sharded_rms_norm
from mindlab.parallel.shards import agreed_sizes
from mindlab.parallel.tensor import parallel_mlp

__all__ = [
    "SequenceParallelBlock",
    "gather_sequence",
    "scatter_sequence",
    "library_reduce_scatter",
    "sharded_layer_norm",
    "sharded_rms_norm",
]


class ReduceScatter(Protocol):
    """A reduce-scatter along dim 0: `ring_reduce_scatter`, `library_reduce_scatter`, or one of your own."""

    def __call__(self, x: Tensor, group: Group = None, *, sizes: Sequence[int] | None = None) -> Tensor:
        """This rank's chunk of the sum over all ranks of x; `sizes` are the chunks' lengths, by rank."""


class Partial(Protocol):
    """A layer that gives this rank's term of a sum over ranks: ParallelAttention, ParallelMLP."""

    def partial(self, x: Tensor) -> Tensor:
        """This rank's term, without the bias."""


class SequenceParallelBlock(nn.Module):
    """A transformer block in its full's form: this rank's shard of the sequence in, its shard out.

    Norms and residuals are on the shard, attention by heads and MLP by features on the whole sequence: two
    all-gathers and two reduce-scatters. Where attention and MLP stand beside each other, one of each: x is
    gathered, and both norms are of all tokens. (To gather two norms would send half as much again.)
    """

    def __init__(self, full: Block, group: Group = None, *, reduce_scatter: ReduceScatter) -> None:
        super().__init__()
        self.group, self.parallel, self.reduce_scatter = group, full.parallel, reduce_scatter
        self.norm1, self.norm2 = (
            copy.deepcopy(norm).requires_grad_(False) for norm in (full.norm1, full.norm2)
        )
        self.attention = ParallelAttention.from_full(full.attention, group)
        self.mlp = parallel_mlp(full.mlp, group)

    @classmethod
    def from_full(
        cls, block: Block, group: Group = None, *, reduce_scatter: ReduceScatter = ring_reduce_scatter
    ) -> SequenceParallelBlock:
        """This rank's part of `block`, copied. Raises ValueError where its heads cannot be split.

        >>> block, x = Block(32, heads=4), torch.ones(1, 5, 32)
        >>> def shard():
        ...     mine = x.tensor_split(2, dim=1)[dist.get_rank()]
        ...     return SequenceParallelBlock.from_full(block)(mine, sizes=[3, 2])
        >>> torch.allclose(torch.cat(ml.launch(shard, ranks=2).values, dim=1), block(x), atol=1e-5)
        True
        """
        return cls(block, group, reduce_scatter=reduce_scatter)

    @torch.no_grad()
    def forward(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """This rank's (B, S_r, hidden) from (B, S_r, hidden), the shards in the order of ranks.

        `sizes` are all shards' lengths, by rank; without them they are exchanged first. Raises ValueError if
        they do not fit.
        """
        sizes = agreed_sizes(x, sizes, self.group)
        if self.parallel:
            return x + self._beside(x, sizes)
        x = x + self._after(self.norm1, self.attention, self.attention.o.bias, x, sizes)
        return x + self._after(self.norm2, self.mlp, self.mlp.down.bias, x, sizes)

    def _after(
        self, norm: nn.Module, layer: Partial, bias: Tensor | None, x: Tensor, sizes: list[int]
    ) -> Tensor:
        """This rank's shard of layer(norm(x)); its bias is added once, after the sum."""
        whole = gather_sequence(norm(x), sizes, self.group)
        terms = layer.partial(whole)
        del whole  # not needed while the sum is made
        return self._shard_of_sum(terms, sizes, bias)

    def _beside(self, x: Tensor, sizes: list[int]) -> Tensor:
        """This rank's shard of attention(norm1(x)) + mlp(norm2(x))."""
        whole = gather_sequence(x, sizes, self.group)
        terms = self.attention.partial(self.norm1(whole))
        terms += self.mlp.partial(self.norm2(whole))
        del whole
        return self._shard_of_sum(terms, sizes, self.attention.o.bias, self.mlp.down.bias)

    def _shard_of_sum(self, terms: Tensor, sizes: list[int], *biases: Tensor | None) -> Tensor:
        shard = scatter_sequence(terms, sizes, self.group, reduce_scatter=self.reduce_scatter)
        for bias in biases:
            if bias is not None:
                shard += bias
        return shard


def gather_sequence(x: Tensor, sizes: Sequence[int], group: Group = None) -> Tensor:
    """The whole sequence (B, S, …), contiguous, from every rank's shard (B, S_r, …).

    One ring all-gather, (p-1)/p of the result's bytes sent per rank. Collectives join along
    dim 0, so with B > 1 the sequence goes there and back: two copies.
    """
    whole = ring_all_gather(x.transpose(0, 1).contiguous(), group, sizes=sizes)
    return whole.transpose(0, 1).contiguous()


def scatter_sequence(
    partial: Tensor,
    sizes: Sequence[int],
    group: Group = None,
    *,
    reduce_scatter: ReduceScatter = ring_reduce_scatter,
) -> Tensor:
    """This rank's shard (B, S_r, …) of the sum of all ranks' `partial` (B, S, …); contiguous.

    One reduce-scatter: (p-1)/p of `partial`'s bytes sent per rank with `ring_reduce_scatter`.
    """
    shard = reduce_scatter(partial.transpose(0, 1).contiguous(), group, sizes=sizes)
    return shard.transpose(0, 1).contiguous()


def library_reduce_scatter(x: Tensor, group: Group = None, *, sizes: Sequence[int] | None = None) -> Tensor:
    """This rank's chunk (along dim 0) of the sum over all ranks: torch's own collective.

    Cards send (p-1)/p of x's bytes. gloo has no reduce-scatter of its own: it sums everything everywhere,
    2(p-1)/p, and keeps a part. Without `sizes` the chunks are those of `torch.tensor_split`. Equal chunks
    take the tensor form, others the list form.
    """
    rank, ranks = place(group)
    x = x.detach().contiguous()
    parts = list(x.tensor_split(ranks) if sizes is None else torch.split(x, list(sizes)))
    out = torch.empty_like(parts[rank])
    if len({len(part) for part in parts}) > 1:
        dist.reduce_scatter(out, parts, group=group)
    elif hasattr(dist, "reduce_scatter_single"):  # from torch 2.13 on, which warns of the older name
        dist.reduce_scatter_single(out, x, group=group)
    else:
        dist.reduce_scatter_tensor(out, x, group=group)
    return out
