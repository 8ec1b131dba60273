"""Cutting a sequence into one shard a rank, and joining the shards: two layouts.

    contiguous   rank r has the r-th of p chunks: `torch.tensor_split(p)`
    zigzag       rank r has chunks r and 2p-1-r of 2p, joined: under a causal mask an early and a late chunk
                 together have the same work on every rank

Any length will do: one that p does not divide, and one so short that shards are empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from mindlab.collectives import ring_all_gather
from mindlab.predict.chunks import split
from mindlab.predict.layouts import lengths

LAYOUTS = ("contiguous", "zigzag")


def split_sequence(
    x: torch.Tensor, ranks: int, *, layout: str = "contiguous", dim: int = 1
) -> list[torch.Tensor]:
    """One shard a rank, by rank, cut along `dim`. Contiguous shards are views of x.

    Raises ValueError for an unknown layout, or if there is nothing to cut.

    >>> [shard.tolist() for shard in split_sequence(torch.arange(9), 2, layout="zigzag", dim=0)]
    [[0, 1, 2, 7, 8], [3, 4, 5, 6]]
    """
    _check(ranks, layout)
    if layout == "contiguous":
        return list(x.tensor_split(ranks, dim))
    chunks = x.tensor_split(2 * ranks, dim)
    return [torch.cat([chunks[rank], chunks[-1 - rank]], dim) for rank in range(ranks)]


def join_sequence(parts: Sequence[torch.Tensor], *, layout: str = "contiguous", dim: int = 1) -> torch.Tensor:
    """The sequence whose shards `parts` are, by rank: what `split_sequence` cut.

    Contiguous shards may have any lengths. Raises ValueError for an unknown layout, or if zigzag shards do
    not have the lengths that `split_sequence` gives.

    >>> join_sequence([torch.tensor([0, 1, 2, 7, 8]), torch.tensor([3, 4, 5, 6])], layout="zigzag", dim=0)
    tensor([0, 1, 2, 3, 4, 5, 6, 7, 8])
    """
    _check(len(parts), layout)
    if layout == "contiguous":
        return torch.cat(list(parts), dim)
    sizes = [part.shape[dim] for part in parts]
    check_sizes(sizes, layout)
    early = chunk_sizes(sum(sizes), 2 * len(parts))[: len(parts)]
    firsts = [part.narrow(dim, 0, size) for part, size in zip(parts, early, strict=True)]
    lasts = [part.narrow(dim, size, part.shape[dim] - size) for part, size in zip(parts, early, strict=True)]
    return torch.cat(firsts + lasts[::-1], dim)


def sequence_sizes(length: int, ranks: int, *, layout: str = "contiguous") -> list[int]:
    """How long each rank's shard of a sequence of `length` is.

    >>> sequence_sizes(9, 2, layout="zigzag"), sequence_sizes(2, 3)
    ([5, 4], [1, 1, 0])
    """
    _check(ranks, layout)
    if length < 0:
        raise ValueError(f"length={length} is no length of a sequence: give 0 or more")
    return list(lengths(length, ranks, layout))


def chunk_sizes(length: int, parts: int) -> list[int]:
    """How long the chunks of `torch.tensor_split(parts)` are: the first ones are longer by one.

    >>> chunk_sizes(9, 4)
    [3, 2, 2, 2]
    """
    return list(split(length, parts))


def agreed_sizes(
    shard: torch.Tensor,
    sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    dim: int = 1,
) -> list[int]:
    """The lengths of all ranks' shards along `dim`, by rank of the group.

    With `sizes` nothing is exchanged: they are checked against this rank's shard. Without, the lengths go
    round a ring: each rank sends p-1 messages of 8 bytes. Raises ValueError if `sizes` does not fit.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group: let only its members call")
    length = shard.shape[dim]
    if sizes is None:
        own = torch.tensor([length], dtype=torch.int64, device=shard.device)
        return [int(size) for size in ring_all_gather(own, group).tolist()]
    if len(sizes) != ranks or sizes[rank] != length or min(sizes) < 0:
        raise ValueError(
            f"sizes={list(sizes)} does not fit: {ranks} ranks, and rank {rank} has a shard of {length}; "
            "give the length of every rank's shard, by rank"
        )
    return [int(size) for size in sizes]


def check_sizes(sizes: Sequence[int], layout: str) -> None:
    """Raises ValueError if shards of these lengths cannot be in this layout. Contiguous ones can have any."""
    _check(len(sizes), layout)
    right = sequence_sizes(sum(sizes), len(sizes), layout=layout)
    if layout != "contiguous" and list(sizes) != right:
        raise ValueError(
            f"shards of lengths {list(sizes)} are not a {layout} layout of {sum(sizes)}: that has {right}; "
            f'cut the sequence with split_sequence(x, {len(sizes)}, layout="{layout}")'
        )


def _check(ranks: int, layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is unknown: choose one of {', '.join(LAYOUTS)}")
    if ranks < 1:
        raise ValueError(f"a sequence cannot be cut for {ranks} ranks: give 1 or more")
