"""Ring attention: every rank keeps its queries, keys and values travel round a ring. Liu et al. 2023.

Rank r starts with its own keys and values, and passes on to its right neighbour what it has; after p-1
transfers it has met them all. Results over the parts are merged by their LSE (`merge_lse`). Each rank sends
every shard of keys and values but its right neighbour's own: (p-1)/p of them all when shards are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse, check_attention
from mindlab.parallel.merge import Running, merge_lse
from mindlab.parallel.shards import agreed_sizes, check_sizes, chunk_sizes

__all__ = ["Part", "merge_blocks", "merge_lse", "ring_attention", "travel", "visible_part"]

Group = dist.ProcessGroup | None
Blocks = Iterator[tuple[int, torch.Tensor, torch.Tensor]]
"""Whose the block is, its keys, its values."""


@torch.no_grad()
def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    layout: str = "contiguous",
    overlap: bool = True,
    sizes: Sequence[int] | None = None,
    group: Group = None,
) -> torch.Tensor:
    """This rank's shard of the attention over the whole sequence, in q's dtype; q, k, v are its shards.

    `layout` says how the sequence was cut (`split_sequence`): under a causal mask "zigzag" gives every rank
    the same work. With `overlap` a block is passed on while it is being used, else afterwards. `sizes` are
    the lengths of all ranks' shards, equal or not; without them they are exchanged first, 8 bytes to each
    other rank. Merges in float32; gradients do not flow. Raises ValueError if shapes or sizes do not fit.

    Sends all shards of keys and values but the right neighbour's own. Holds at most two travelling blocks,
    the output in float32, and one step's result, beside what it was given.
    """
    check_attention(q, k, v)
    _refuse_layouts(q, k)
    sizes = agreed_sizes(q, sizes, group)
    check_sizes(sizes, layout)
    blocks = travel(k, v, sizes, overlap=overlap, group=group)
    return merge_blocks(q, blocks, sizes, dist.get_rank(group), causal=causal, layout=layout)


def merge_blocks(
    q: torch.Tensor, blocks: Blocks, sizes: Sequence[int], rank: int, *, causal: bool, layout: str
) -> torch.Tensor:
    """The attention of q, the queries of `rank`, over all blocks, merged one by one."""
    running = None
    for source, keys, values in blocks:
        part = visible_part(rank, source, sizes, causal=causal, layout=layout)
        if running is None:  # the rank's own block: each query sees at least itself
            running = Running(*attention_with_lse(q, keys, values, causal=part.causal))
        elif part.keys and part.first < q.shape[1]:
            seen = keys[:, : part.keys], values[:, : part.keys]
            running.add(*attention_with_lse(q[:, part.first :], *seen), first=part.first)
    assert running is not None, "a group without ranks"
    return running.out


def travel(
    k: torch.Tensor, v: torch.Tensor, sizes: Sequence[int], *, overlap: bool = True, group: Group = None
) -> Blocks:
    """Every rank's keys and values in turn, this rank's own first; p-1 transfers.

    Each is one message of keys and one of values; none of an empty shard. With `overlap`
    they run while the caller works on the block, else after it asks for the next. A block
    is the caller's until then: of two buffers none is filled before it has been sent. Run it
    to its end on every rank: one that stops early leaves the others waiting for its blocks.
    """
    rank, ranks = dist.get_rank(group), len(sizes)
    block, room = [k.contiguous(), v.contiguous()], _rooms(k, v, sizes)
    for step in range(ranks - 1):
        source = (rank - step) % ranks
        coming = _cut(room[step % 2], (k, v), sizes[source - 1])
        posted = _pass_on(block, coming, group) if overlap else []
        yield source, block[0], block[1]
        for work in posted if overlap else _pass_on(block, coming, group):
            work.wait()
        block = coming
    yield (rank + 1) % ranks, block[0], block[1]


class Part(NamedTuple):
    """What of one block this rank's queries see: those from `first` on, the block's first `keys` keys."""

    first: int
    keys: int
    causal: bool


def visible_part(
    rank: int, source: int, sizes: Sequence[int], *, causal: bool, layout: str = "contiguous"
) -> Part:
    """What the queries of `rank` see of the keys of `source`.

    Contiguous, causal: an earlier rank's block whole, a later one's not at all. Zigzag
    (rank r has chunks r and 2p-1-r of 2p): all queries see the first chunk of an earlier
    rank's block; the second half of them sees a later one's whole block.

    >>> visible_part(1, 0, [4, 4, 4], causal=True, layout="zigzag")
    Part(first=0, keys=2, causal=False)
    """
    if not causal or source == rank:
        return Part(0, sizes[source], causal)
    if layout == "contiguous":
        return Part(0, sizes[source] if source < rank else 0, False)
    chunks = chunk_sizes(sum(sizes), 2 * len(sizes))
    if source < rank:
        return Part(0, chunks[source], False)
    return Part(chunks[rank], sizes[source], False)


def _pass_on(block: Sequence[torch.Tensor], coming: Sequence[torch.Tensor], group: Group) -> list[dist.Work]:
    """Starts to send the block to the right and to receive the next one from the left."""
    world = group or dist.group.WORLD
    assert world is not None, "torch.distributed is not initialised"
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    left, right = (dist.get_global_rank(world, (rank + way) % ranks) for way in (-1, 1))
    ops = [dist.P2POp(dist.irecv, x, left, group) for x in coming if x.numel()]
    ops += [dist.P2POp(dist.isend, x, right, group) for x in block if x.numel()]
    return list(dist.batch_isend_irecv(ops)) if ops else []


def _rooms(k: torch.Tensor, v: torch.Tensor, sizes: Sequence[int]) -> list[list[torch.Tensor]]:
    """At most two buffers, each flat memory for the keys and the values of the longest shard."""
    longest = max(sizes)
    return [
        [x.new_empty(x.shape[0] * longest * x.shape[2] * x.shape[3]) for x in (k, v)]
        for _ in range(min(2, len(sizes) - 1))
    ]


def _cut(room: Sequence[torch.Tensor], like: Sequence[torch.Tensor], length: int) -> list[torch.Tensor]:
    """The beginning of each flat buffer as a contiguous shard like the other, but of another length."""
    shapes = [torch.Size((x.shape[0], length, *x.shape[2:])) for x in like]
    return [flat[: shape.numel()].view(shape) for flat, shape in zip(room, shapes, strict=True)]


def _refuse_layouts(q: torch.Tensor, k: torch.Tensor) -> None:
    if q.shape[1] != k.shape[1]:
        raise ValueError(
            f"q has {q.shape[1]} tokens, k and v have {k.shape[1]}: ring attention wants them cut alike; "
            "cut each with split_sequence, or for one query beside a long cache merge with merge_lse"
        )
