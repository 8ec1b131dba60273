"""What the tests of Ulysses run on the ranks, and the one card that they compare with."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist

from mindlab.parallel.ulysses import ulysses_attention


class Shape(NamedTuple):
    """One attention: batch, sequence, query heads, key-value heads, head_dim."""

    batch: int
    length: int
    heads: int
    kv_heads: int
    head_dim: int


def inputs(shape: Shape, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """q, k and v of the whole sequence, the same on every rank and in the test's process."""
    draw = torch.Generator().manual_seed(7)
    batch, length, heads, kv_heads, head_dim = shape
    counts = (heads, kv_heads, kv_heads)
    return [torch.randn(batch, length, count, head_dim, generator=draw).to(dtype) for count in counts]


def one_card(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention by its definition, in float64, without any kernel or function of the package."""
    sharing = q.shape[2] // k.shape[2]
    k, v = (x.double().repeat_interleave(sharing, dim=2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q.double(), k) / q.shape[3] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[2:]).triu(1).bool(), -torch.inf)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(dim=-1), v)


def attend(
    shape: Shape,
    causal: bool = False,
    dtype: torch.dtype = torch.float32,
    given: bool = True,
    group: dist.ProcessGroup | None = None,
    lengths: list[int] | None = None,
) -> torch.Tensor:
    """On a rank: its shard of the result, from its shards of q, k and v."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    lengths = lengths or [len(part) for part in torch.arange(shape.length).tensor_split(ranks)]
    shards = [x.split(lengths, dim=1)[rank] for x in inputs(shape, dtype)]
    out = ulysses_attention(*shards, causal=causal, sizes=lengths if given else None, group=group)
    assert out.is_contiguous()  # asked here: on its way to the test every tensor becomes so
    return out


def sent_by(shape: Shape, ranks: int, element: int = 4) -> list[int]:
    """The bytes that each rank sends if lengths are given: Jacobs et al. 2023, and for uneven shards.

    There: the heads of its shard that others get. Back: the positions of its heads that others get.
    """
    batch, length, heads, kv_heads, head_dim = shape
    moved = (heads + 2 * max(kv_heads, ranks)) * (ranks - 1) // ranks
    lengths = [len(part) for part in torch.arange(length).tensor_split(ranks)]
    unit = head_dim * batch * element
    return [unit * (moved * mine + heads // ranks * (length - mine)) for mine in lengths]
