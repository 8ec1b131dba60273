"""Ulysses: from a shard of the sequence to a shard of the heads by all-to-all, attention there, and back.

Attention of one head needs the whole sequence, but no other head. So the ranks, which hold a piece of the
sequence each, swap: rank r gets heads r H/p to (r+1) H/p of every position. Jacobs et al. 2023.

Four all-to-alls an attention: queries, keys and values on the way there, the result on the way back. One for
all three would send the same bytes in fewer messages. It is not done: it would hold all three twice at one
time, while here one packed tensor lives at a time, and is freed before the next.

Shards follow each other in the order of ranks. Without a causal mask any other order (zigzag) works as well,
for attention does not know positions; with one it would hide the wrong keys. Gradients do not flow.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse, check_attention
from mindlab.parallel.linear import Group, place
from mindlab.parallel.shards import agreed_sizes, sequence_sizes
from mindlab.predict.heads import heads_per_rank, kv_heads_per_rank


@torch.no_grad()
def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sizes: Sequence[int] | None = None,
    group: Group = None,
) -> torch.Tensor:
    """This rank's shard of the attention over the whole sequence: (B, S_r, H, D), in q's dtype.

    q (B, S_r, H, D), k and v (B, S_r, K, D): this rank's shard of the sequence, all heads. `sizes` are all
    shards' lengths, by rank; without them they are exchanged first (8 bytes to each other rank).
    With s positions each rank sends (2H + 2K') d b (s/p) (p-1)/p e bytes, K' = max(K, p): with fewer
    key-value heads than ranks each goes to the p/K ranks whose queries need it. Fewer bytes would not do:
    every rank needs one whole key-value head, and has 1/p of it.
    Raises ValueError where the heads cannot be dealt out evenly, or q, k and v do not fit together.

    >>> x = torch.ones(1, 5, 4, 8)
    >>> attend = lambda: ulysses_attention(*[x.tensor_split(2, dim=1)[dist.get_rank()]] * 3)
    >>> [tuple(out.shape) for out in ml.launch(attend, ranks=2).values]
    [(1, 3, 4, 8), (1, 2, 4, 8)]
    """
    _, ranks = place(group)
    _refuse(q, k, v, ranks)
    return attend_by_heads(q, k, v, agreed_sizes(q, sizes, group), causal=causal, group=group)


def attend_by_heads(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sizes: list[int],
    *,
    causal: bool = False,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """This rank's shard of the attention: to its heads, attention there, and back."""
    q, k, v = (sequence_to_heads(x, sizes=sizes, group=group) for x in (q, k, v))
    out, _ = attention_with_lse(q, k, v, causal=causal)
    del q, k, v
    return heads_to_sequence(out, sizes=sizes, group=group)


@torch.no_grad()
def sequence_to_heads(
    x: torch.Tensor, *, sizes: Sequence[int] | None = None, group: Group = None
) -> torch.Tensor:
    """This rank's heads of the whole sequence, (B, S, H/p, D), from its shard of all heads, (B, S_r, H, D).

    Rank r gets heads r H/p to (r+1) H/p. With fewer heads than ranks, H a divisor of p (key-value heads), it
    gets one, head r H // p, which p/H ranks have alike; `heads_to_sequence` then gives p heads, not H.
    `sizes` are all shards' lengths, by rank; without them they are exchanged first.
    One all-to-all, one copy before it. It sends max(H, p) d b S_r (p-1)/p e bytes. The result lies in memory
    as (S, B, H/p, D): so the pieces that arrive are in place, and no copy comes after. Raises ValueError for
    heads that neither divide p nor are divided by it, and for `sizes` that do not fit.

    >>> x = torch.arange(6).reshape(1, 3, 2, 1)  # two heads: even and odd numbers
    >>> swap = lambda: sequence_to_heads(x.tensor_split(2, dim=1)[dist.get_rank()]).flatten().tolist()
    >>> ml.launch(swap, ranks=2).values
    [[0, 2, 4], [1, 3, 5]]
    """
    rank, ranks = place(group)
    _refuse_shape(x)
    sizes = agreed_sizes(x, sizes, group)
    sent = _by_heads(x, ranks)  # (p, S_r, B, H/p, D)
    out = x.new_empty((sum(sizes), *sent.shape[2:]))
    dist.all_to_all_single(out, sent.flatten(0, 1), sizes, [sizes[rank]] * ranks, group=group)
    return out.transpose(0, 1)


@torch.no_grad()
def heads_to_sequence(
    x: torch.Tensor, *, sizes: Sequence[int] | None = None, group: Group = None
) -> torch.Tensor:
    """This rank's shard of all heads, (B, S_r, p h, D), from its h heads of the whole sequence, (B, S, h, D).

    `sizes` are the shards' lengths to cut into, by rank; without them those of `torch.tensor_split`.
    One all-to-all; it sends h d b (S - S_r) e bytes. One copy after it, which brings each position's heads
    together, and one before it unless x lies in memory as (S, B, h, D). Raises ValueError for `sizes` that do
    not sum to S.

    >>> x = torch.arange(6).reshape(1, 3, 2, 1).tensor_split(2, dim=2)
    >>> ml.launch(lambda: heads_to_sequence(x[dist.get_rank()]).flatten().tolist(), ranks=2).values
    [[0, 1, 2, 3], [4, 5]]
    """
    rank, ranks = place(group)
    _refuse_shape(x)
    sizes = sequence_sizes(x.shape[1], ranks) if sizes is None else _summing(sizes, x.shape[1], ranks)
    sent = x.transpose(0, 1).contiguous()  # (S, B, h, D): each rank's positions lie together
    out = x.new_empty((ranks * sizes[rank], *sent.shape[1:]))
    dist.all_to_all_single(out, sent, [sizes[rank]] * ranks, sizes, group=group)
    dealt = out.reshape(ranks, sizes[rank], *sent.shape[1:]).permute(2, 1, 0, 3, 4)
    del sent
    return dealt.flatten(2, 3).contiguous()


def _by_heads(x: torch.Tensor, ranks: int) -> torch.Tensor:
    """x as (p, S_r, B, H/p, D), contiguous: each rank's heads lie together; where H < p they are repeated.

    Each head stands p/H times in a row (repeat_interleave, not repeat): the ranks whose queries share it are
    neighbours. `expand` repeats without a copy, so that the packing is the only one.
    """
    batch, length, heads, head_dim = x.shape
    mine = kv_heads_per_rank(heads, ranks)
    if heads >= ranks:
        return x.reshape(batch, length, ranks, mine, head_dim).permute(2, 1, 0, 3, 4).contiguous()
    copies = x.unsqueeze(0).expand(ranks // heads, -1, -1, -1, -1)  # (p/H, B, S_r, H, D)
    return copies.permute(3, 0, 2, 1, 4).flatten(0, 1).unsqueeze(3).contiguous()


def _refuse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ranks: int) -> None:
    """Raise ValueError for shapes that do not fit, or heads that the ranks cannot share (with what would)."""
    check_attention(q, k, v)
    if q.shape[1] != k.shape[1]:
        raise ValueError(
            f"q has {q.shape[1]} positions, k and v have {k.shape[1]}: give shards of one sequence, cut alike"
        )
    try:
        heads_per_rank(q.shape[2], k.shape[2], ranks)
    except ValueError as error:
        raise ValueError(f"{error}; or ring_attention, which splits no heads") from None


def _refuse_shape(x: torch.Tensor) -> None:
    if x.ndim != 4:
        raise ValueError(f"a tensor of shape {tuple(x.shape)}: give (batch, sequence, heads, head_dim)")


def _summing(sizes: Sequence[int], length: int, ranks: int) -> list[int]:
    """The sizes; raises ValueError unless they cut a sequence of this length for these ranks."""
    if len(sizes) == ranks and sum(sizes) == length and min(sizes) >= 0:
        return [int(size) for size in sizes]
    raise ValueError(
        f"sizes={list(sizes)} does not fit: {ranks} ranks, and a sequence of {length} positions; give the "
        "length of every rank's shard, by rank"
    )
