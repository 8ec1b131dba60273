"""Decoding from a cache that is sharded by position: the query on every rank, keys and values on one each.

In decoding one query a request meets a long cache, so time goes to reading it. Each rank reads its own shard
and computes attention over it; the results are merged by their log-sum-exp (LSE). What is sent depends on
heads and head_dim, not on how long the cache is. With b requests, H heads, d = head_dim and e bytes a number
each rank sends, for one layer and token:

    merge_scattered   each row (a head of a request) is merged on one rank, which sends the result to all:
                      (p-1)/p b H (2 d e + 4), two all-to-alls
    merge_gathered    every rank gets all parts and merges all rows: (p-1) b H (d e + 4), one all-gather
    merge_summed      the greatest LSE first, then a sum of rescaled parts: 2(p-1)/p b H (d+2) 4, two
                      all-reduces (Shyam et al. 2024)

`merge_scattered` sends least at every p and dtype, and is the one used unless another is given. It is an
all-reduce by reduce-scatter and all-gather, with the LSE merge in the place of the sum. All parts of a row
meet on one rank, are added up in float32 there, and all ranks get the same bits: each may then choose its
next token by itself. Fewest bytes is not least time: the gathered form waits for one collective instead of
two, and wins where messages are so small that only their number counts, as with a few requests; from some
tens of requests on its bytes cost more than the second wait (`ml.replay` says where). The summed form waits
longest, and needs no merge of its own: a library that only knows sums and maxima can do it.

With tensor parallel over heads on another axis of a mesh, q and the shards hold this rank's heads, and
`group` is that of the axis of the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from mindlab.parallel.attention import attention_with_lse, check_attention
from mindlab.parallel.linear import Group, place
from mindlab.parallel.merge import EMPTY, merge_lse
from mindlab.predict.chunks import split
from mindlab.trace import recorder

Merge = Callable[[Tensor, Tensor, Group], Tensor]
"""merge(out, lse, group) -> the output over all ranks' keys, from this rank's output and LSE."""


@torch.no_grad()
def merge_scattered(out: Tensor, lse: Tensor, group: Group = None) -> Tensor:
    """The output over all ranks' keys, on every rank: each merges its rows, sends them."""
    rank, ranks = place(group)
    rows = with_lse(out, lse)
    sizes = list(split(len(rows), ranks))
    mine = [sizes[rank]] * ranks
    parts = rows.new_empty(ranks, sizes[rank], rows.shape[1])
    dist.all_to_all_single(parts.flatten(0, 1), rows, mine, sizes, group=group)
    merged = merged_rows(parts, out.shape[-1])
    whole = merged.new_empty(len(rows), out.shape[-1])
    dist.all_to_all_single(whole, merged.repeat(ranks, 1), sizes, mine, group=group)
    return whole.view(out.shape)


@torch.no_grad()
def merge_gathered(out: Tensor, lse: Tensor, group: Group = None) -> Tensor:
    """The output over all ranks' keys, on every rank: each gets and merges all parts."""
    _, ranks = place(group)
    rows = with_lse(out, lse)
    parts = [torch.empty_like(rows) for _ in range(ranks)]
    dist.all_gather(parts, rows, group=group)
    return merged_rows(torch.stack(parts), out.shape[-1]).view(out.shape)


@torch.no_grad()
def merge_summed(out: Tensor, lse: Tensor, group: Group = None) -> Tensor:
    """The output over all ranks' keys, on every rank: rescaled parts are added up."""
    place(group)
    top = lse.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
    share = (lse - top.masked_fill(top == EMPTY, 0.0)).exp()
    share = share.transpose(1, 2).unsqueeze(-1)
    wide = out.to(torch.promote_types(out.dtype, torch.float32)) * share
    sums = torch.cat([wide, share.to(wide.dtype)], -1)
    dist.all_reduce(sums, group=group)
    return (sums[..., :-1] / sums[..., -1:].clamp_min(1)).to(out.dtype)


@torch.no_grad()
def decode_attention(
    q: Tensor,
    k_shard: Tensor,
    v_shard: Tensor,
    *,
    lengths: Sequence[int] | Tensor | None = None,
    scale: float | None = None,
    merge: Merge = merge_scattered,
    group: Group = None,
) -> Tensor:
    """The attention of q over all ranks' keys and values, on every rank, (B, S, H, D) in q's dtype.

    q (B, S, H, D) is the same on every rank, in decoding S = 1. k_shard and v_shard (B, S_r, K, D) are this
    rank's part of the cache, of any length, also 0. `lengths` says how many of them each request has here;
    what lies behind is not read. Every query sees all keys of its request, on whatever rank and in whatever
    order: there is no mask, and positions do not matter. A request without keys gets 0.
    Raises ValueError if the shapes or lengths do not fit.

    >>> q, k, v = torch.ones(1, 1, 2, 8), torch.ones(1, 3, 2, 8), torch.arange(3.0).view(1, 3, 1, 1)
    >>> def decode():
    ...     mine = slice(dist.get_rank(), None, 2)  # round-robin: two keys and one
    ...     return decode_attention(q, k[:, mine], v.expand(k.shape)[:, mine])[0, 0, 0, 0].item()
    >>> ml.launch(decode, ranks=2).values
    [1.0, 1.0]
    """
    out, lse = attend_shard(q, k_shard, v_shard, lengths, scale)
    return merge(out, lse, group)


def attend_shard(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Sequence[int] | Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The output and LSE over this rank's keys alone, of each request its first `lengths`.

    Requests of different lengths are computed one by one, so that no padding is read. On a card a kernel for
    variable lengths does the same in one call.

    >>> out, lse = attend_shard(torch.ones(2, 1, 1, 4), *[torch.ones(2, 3, 1, 4)] * 2, lengths=[3, 0])
    >>> out[:, 0, 0, 0].tolist(), lse[1].item()
    ([1.0, 0.0], -inf)
    """
    check_attention(q, k, v)
    counts = _counts(lengths, k)
    if len(set(counts)) <= 1:
        keys = counts[0] if counts else 0
        return attention_with_lse(q, k[:, :keys], v[:, :keys], scale=scale)
    parts = [
        attention_with_lse(q[row : row + 1], k[row : row + 1, :n], v[row : row + 1, :n], scale=scale)
        for row, n in enumerate(counts)
    ]
    return torch.cat([out for out, _ in parts]), torch.cat([lse for _, lse in parts])


def with_lse(out: Tensor, lse: Tensor) -> Tensor:
    """A row a head, (B S H, D + LSE): its output and behind it the bytes of its LSE, to travel together.

    The LSE keeps its float32: in half precision it takes the place of two numbers (in float64 of one, as
    float64). Rounded to bfloat16 it would cost the weights their digits.

    >>> with_lse(torch.ones(2, 1, 3, 8, dtype=torch.bfloat16), torch.zeros(2, 3, 1)).shape
    torch.Size([6, 10])
    """
    wide = lse.double() if out.dtype == torch.float64 else lse.float()
    bits = wide.transpose(1, 2).reshape(-1).contiguous().view(out.dtype)
    rows = out.reshape(-1, out.shape[-1])
    return torch.cat([rows, bits.view(len(rows), -1)], 1)


def merged_rows(parts: Tensor, dim: int) -> Tensor:
    """The rows (rows, dim) over all parts (p, rows, dim + LSE), each as `with_lse` makes them."""
    ranks, count, _ = parts.shape
    wide = torch.float64 if parts.dtype == torch.float64 else torch.float32
    lses = parts[..., dim:].clone(memory_format=torch.contiguous_format).view(wide).view(ranks, 1, 1, count)
    outs = parts[..., :dim].view(ranks, 1, count, 1, dim)
    recorder.compute(2 * ranks * count * dim, nbytes=parts.numel() * parts.element_size(), what="merge")
    return merge_lse(outs.unbind(), lses.unbind())[0].view(count, dim)


def _counts(lengths: Sequence[int] | Tensor | None, k: Tensor) -> list[int]:
    """How many of the shard's keys each request has; raises ValueError where that cannot be."""
    batch, room = k.shape[:2]
    if lengths is None:
        return [room] * batch
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if len(counts) != batch or not all(type(count) is int and 0 <= count <= room for count in counts):
        raise ValueError(
            f"lengths={counts} does not fit: {batch} requests, and a shard with room for {room} keys; give "
            "how many keys of each request lie on this rank"
        )
    return counts
