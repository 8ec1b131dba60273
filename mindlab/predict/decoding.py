r"""Decoding from a sharded cache, on paper: what the merge sends, what each rank reads, what a change costs.

The query is the same on every rank, each rank reads its own shard of the keys and values, and the results are
merged by their LSE. What is sent depends on heads and head_dim, not on the length of the cache. b is the
batch, H the query heads, K those of keys and values, d head_dim (of the values, where it is another one),
e the bytes of one element; an LSE takes as many bytes as an element, 4 at least.
"""

from __future__ import annotations

from fractions import Fraction

from mindlab.predict import sources
from mindlab.predict.caches import held, holder
from mindlab.predict.chunks import split
from mindlab.predict.collectives import ring_all_reduce
from mindlab.predict.heads import check_groups
from mindlab.predict.layouts import positions
from mindlab.predict.quantity import Quantity, exact
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole, times

_LSE = 4


def decode_attention(
    batch: int, heads: int, head_dim: int, ranks: int, *, itemsize: int, layers: int = 1
) -> Quantity:
    r"""Bytes each rank sends for one new token a request: (p-1)/p b H (2 d e + 4), in two all-to-alls.

    Each of the b H rows (one head of one request) is merged on one rank: it gets the others' d numbers and
    their LSE, and sends the d numbers of the result to all. Rows are dealt as torch.tensor_split cuts. The
    length of the cache does not matter.

    >>> decode_attention(1, 8, 64, ranks=4, itemsize=4).value
    3096
    """
    rows = _rows(batch, heads, head_dim, ranks, itemsize, layers)
    there, back = head_dim * itemsize + max(_LSE, itemsize), head_dim * itemsize
    by_rank = [layers * ((rows - own) * there + (ranks - 1) * own * back) for own in split(rows, ranks)]
    formula = rf"{times(layers)}\frac{{p-1}}{{p}}\,b\,H\,(2\,d\,e + {max(_LSE, itemsize)})"
    return counted("decode_attention", by_rank, formula, sources.COUNTED_BY_HAND)


def decode_attention_gathered(
    batch: int, heads: int, head_dim: int, ranks: int, *, itemsize: int, layers: int = 1
) -> Quantity:
    r"""Bytes each rank sends if all merge all: (p-1) b H (d e + 4), in one all-gather.

    Half the messages of `decode_attention`, and about p/2 times its bytes.

    >>> decode_attention_gathered(1, 8, 64, ranks=4, itemsize=4).value
    6240
    """
    rows = _rows(batch, heads, head_dim, ranks, itemsize, layers)
    lse = max(_LSE, itemsize)
    each = layers * (ranks - 1) * rows * (head_dim * itemsize + lse)
    formula = rf"{times(layers)}(p-1)\,b\,H\,(d\,e + {lse})"
    return counted("decode_attention_gathered", [each] * ranks, formula, sources.COUNTED_BY_HAND)


def decode_attention_summed(
    batch: int, heads: int, head_dim: int, ranks: int, *, itemsize: int, layers: int = 1
) -> Quantity:
    r"""Bytes each rank sends if sums are reduced: 2(p-1)/p b H (d+2) 4, in two all-reduces.

    The first finds the greatest LSE of each row, the second adds outputs and weights, both relative to it and
    in float32 (float64 for elements of 8 bytes). Shyam et al. 2024. gloo cuts its all-reduce in its own way:
    as many bytes in all, other ones on single ranks.

    >>> decode_attention_summed(1, 8, 64, ranks=4, itemsize=4).value
    3168
    """
    rows = _rows(batch, heads, head_dim, ranks, itemsize, layers)
    wide = max(_LSE, itemsize)
    total = ring_all_reduce(rows * _LSE, ranks) + ring_all_reduce(rows * (head_dim + 1) * wide, ranks)
    width = r"(d+2)\,4" if wide == _LSE else rf"(4 + {wide}\,(d+1))"
    formula = rf"{times(layers)}2\,\frac{{p-1}}{{p}}\,b\,H\,{width}"
    value = exact(Fraction(total.value) * layers)
    return Quantity(value, "B", formula, sources.SHYAM, name="decode_attention_summed", ranks=ranks)


def decode_layout(
    batch: int,
    sequence: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layout: str = "contiguous",
    block: int = 1,
    layers: int = 1,
) -> Quantity:
    r"""Bytes each rank sends to turn the shards of a prefill into those of a cache: what changes its rank.

    `layout` is the prefill's (contiguous, zigzag), `block` the cache's (`caches.holder`). To round-robin
    1/p of a shard stays: (p-1)/p of the rank's own keys and values are sent, where 2p divides its length.
    With `block` the length of a contiguous shard nothing is. Else `m` in the formula counts the positions
    that change their rank.

    >>> decode_layout(1, 512, 2, 64, ranks=4, itemsize=4).value
    98304
    >>> decode_layout(1, 512, 2, 64, ranks=4, itemsize=4, block=128).value
    0
    """
    check_whole(1, batch=batch, kv_heads=kv_heads, head_dim=head_dim, itemsize=itemsize, layers=layers)
    before = positions(sequence, ranks, layout)
    leaving = [
        sum(holder(position, ranks, block) != rank for piece in pieces for position in piece)
        for rank, pieces in enumerate(before)
    ]
    each = 2 * layers * batch * kv_heads * head_dim * itemsize
    regular = block == 1 and sum(leaving) * ranks == (ranks - 1) * sequence
    moved = r"\frac{p-1}{p}\,\frac{s}{p}" if regular else r"\frac{m}{p}"
    formula = rf"2\,L\,b\,{moved}\,K\,d\,e"
    return counted("decode_layout", [each * count for count in leaving], formula, sources.COUNTED_BY_HAND)


def kv_cache_shard(
    batch: int,
    sequence: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layers: int = 1,
    block: int = 1,
) -> Quantity:
    r"""Bytes of keys and values that each rank holds, and reads for each new token: 2 L b s/p K d e.

    The cache is sharded by position (`caches.holder`), not by heads: it shrinks with p however few key-value
    heads there are. `per_rank` where p does not divide the sequence. Add the requests' where they differ.

    >>> kv_cache_shard(1, 4096, 8, 128, 4, itemsize=2).value == 4 * 2**20
    True
    >>> kv_cache_shard(1, 5, 1, 1, 3, itemsize=4).per_rank
    (16, 16, 8)
    """
    check_whole(1, batch=batch, kv_heads=kv_heads, head_dim=head_dim, itemsize=itemsize, layers=layers)
    check_whole(0, sequence=sequence)
    each = 2 * layers * batch * kv_heads * head_dim * itemsize
    by_rank = [each * count for count in held(sequence, ranks, block)]
    formula = r"2\,L\,b\,\frac{s}{p}\,K\,d\,e"
    return counted("kv_cache_shard", by_rank, formula, sources.COUNTED_BY_HAND)


def latent_cache(
    batch: int,
    sequence: int,
    latent: int,
    rope: int,
    *,
    itemsize: int,
    layers: int = 1,
    ranks: int = 1,
    block: int = 1,
) -> Quantity:
    r"""Bytes of a latent cache that each rank holds, and reads for each new token: L b s/p (d_c + d_r) e.

    One latent of `latent` numbers and one key of `rope` numbers with its position serve all heads. Cut by
    heads it would not shrink, for there is one; cut by position it does. DeepSeek-AI 2024, section 2.1.

    >>> latent_cache(1, 1, 512, 64, itemsize=2, layers=61).value
    70272
    """
    check_whole(1, batch=batch, latent=latent, itemsize=itemsize, layers=layers)
    check_whole(0, rope=rope, sequence=sequence)
    each = layers * batch * (latent + rope) * itemsize
    by_rank = [each * count for count in held(sequence, ranks, block)]
    shard = "s" if ranks == 1 else r"\frac{s}{p}"
    formula = rf"L\,b\,{shard}\,(d_c+d_r)\,e"
    return counted("latent_cache", by_rank, formula, sources.DEEPSEEK_V2)


def attention_intensity(queries: int, keys: int, heads: int, kv_heads: int, *, itemsize: int) -> Quantity:
    r"""FLOP of attention for each byte of queries, keys and values that it reads; 2 H / (K e) for one query.

    Work, 4 b q k H d, over bytes, (b q H d + 2 b k K d) e: the batch and the head dimension cancel. One query
    beside a long cache: 2 H / (K e), whatever the length. As many queries as keys: it grows with the length.
    No causal mask: with one it is half where queries are as many as keys.

    >>> attention_intensity(1, 10**6, 32, 8, itemsize=2).value < 4
    True
    >>> attention_intensity(4096, 4096, 32, 8, itemsize=2).value > 2000
    True
    """
    check_groups(heads, kv_heads)
    check_whole(1, queries=queries, keys=keys, itemsize=itemsize)
    flop = 4 * queries * keys * heads
    value = exact(Fraction(flop, (queries * heads + 2 * keys * kv_heads) * itemsize))
    formula = r"\frac{4\,s_q\,s_k\,H}{(s_q\,H + 2\,s_k\,K)\,e}"
    return Quantity(value, "FLOP/B", formula, sources.COUNTED_BY_HAND, name="attention_intensity")


def _rows(batch: int, heads: int, head_dim: int, ranks: int, itemsize: int, layers: int) -> int:
    """How many rows are merged: one for each head of each request."""
    check_whole(1, batch=batch, heads=heads, head_dim=head_dim)
    check_whole(1, ranks=ranks, itemsize=itemsize, layers=layers)
    return batch * heads
