r"""How many bytes attention holds on each rank while it runs, and a KV cache: reached through `ml.memory`.

Tensors are (batch, sequence, heads, head_dim). What a kernel needs inside one step is not in these numbers:
add one working block.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindlab.predict import sources
from mindlab.predict.heads import check_groups, heads_per_rank, kv_heads_per_rank
from mindlab.predict.layouts import lengths
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted, summed
from mindlab.predict.shapes import check_whole

_FLOAT32 = 4


def kv_cache(
    batch: int,
    sequence: int,
    kv_heads: int,
    head_dim: int,
    *,
    itemsize: int,
    layers: int = 1,
    ranks: int = 1,
) -> Quantity:
    r"""Bytes of the keys and values of a sequence on each rank: 2 L b s K d e, cut by heads over `ranks`.

    With fewer key-value heads than ranks every rank holds one whole, and the cache stops shrinking.

    >>> kv_cache(1, 4096, 8, 128, itemsize=2, layers=32).value == 512 * 2**20
    True
    """
    check_whole(1, batch=batch, head_dim=head_dim, itemsize=itemsize, layers=layers)
    check_whole(0, sequence=sequence)
    own = kv_heads_per_rank(kv_heads, ranks)
    nbytes = 2 * layers * batch * sequence * own * head_dim * itemsize
    heads = r"K\," if ranks == 1 else r"\frac{K}{p}\," if kv_heads >= ranks else ""
    formula = rf"2\,L\,b\,s\,{heads}d\,e"
    return counted("kv_cache", [nbytes] * ranks, formula, sources.COUNTED_BY_HAND)


def ring_attention_terms(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layout: str = "contiguous",
    buffers: int = 2,
) -> dict[str, Quantity]:
    r"""Bytes that each part of ring attention takes on each rank, by name.

    queries, keys, values: what the rank was given. travelling: `buffers` blocks of keys and values, each as
    long as the longest shard, none on one rank, one on two; with 1 a block could not be computed with while
    the next arrives. merged: the result so far and two numbers a query and head (its LSE's parts), in
    float32. part: one step's result and its LSE; at the end the result in the queries' type takes its place.

    >>> {name: term.value for name, term in ring_attention_terms(1, 8, 4, 2, 16, 2, itemsize=2).items()}
    {'queries': 512, 'keys': 256, 'values': 256, 'travelling': 512, 'merged': 1152, 'part': 576}
    """
    check_groups(heads, kv_heads)
    check_whole(1, batch=batch, head_dim=head_dim, itemsize=itemsize)
    check_whole(0, buffers=buffers)
    shards = lengths(sequence, ranks, layout)
    wide = max(itemsize, _FLOAT32)
    q, kv = batch * heads * head_dim, batch * kv_heads * head_dim
    blocks, longest = min(buffers, ranks - 1), max(shards)
    s, queries = r"\frac{s}{p}", batch * heads
    sizes = {
        "queries": ([own * q * itemsize for own in shards], rf"b\,{s}\,H\,d\,e"),
        "keys": ([own * kv * itemsize for own in shards], rf"b\,{s}\,K\,d\,e"),
        "values": ([own * kv * itemsize for own in shards], rf"b\,{s}\,K\,d\,e"),
        "travelling": ([blocks * longest * 2 * kv * itemsize] * ranks, rf"{blocks} \cdot 2\,b\,{s}\,K\,d\,e"),
        "merged": ([own * (q * wide + queries * 8) for own in shards], rf"b\,{s}\,H\,(d\,e_{{32}} + 8)"),
        "part": ([own * (q * itemsize + queries * 4) for own in shards], rf"b\,{s}\,H\,(d\,e + 4)"),
    }
    return {name: counted(name, *size, sources.LIU) for name, size in sizes.items()}


def ring_attention_held(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layout: str = "contiguous",
    buffers: int = 2,
) -> Quantity:
    """Bytes that ring attention holds on each rank: the sum of `ring_attention_terms`.

    >>> ring_attention_held(1, 8, 4, 2, 16, 2, itemsize=2).value
    3264
    """
    terms = ring_attention_terms(
        batch, sequence, heads, kv_heads, head_dim, ranks, itemsize=itemsize, layout=layout, buffers=buffers
    )
    return _total("ring_attention_held", list(terms.values()), ranks, sources.LIU)


def ulysses_attention_terms(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
) -> dict[str, Quantity]:
    r"""Bytes that each part of Ulysses attention takes on each rank when its attention has run, by name.

    queries, keys, values: what the rank was given, its positions of all heads. head_queries, head_keys,
    head_values, head_out: all positions of its heads. With fewer key-value heads than ranks these hold one
    whole head each. lse: what attention gives beside, in float32. On the way back the result is held three
    times (as it leaves, as it arrives, put in order), but keys and values no more.

    >>> terms = ulysses_attention_terms(1, 8, 4, 1, 16, 2, itemsize=2)
    >>> terms["keys"].value, terms["head_keys"].value
    (128, 256)
    """
    check_whole(1, batch=batch, head_dim=head_dim, itemsize=itemsize)
    own, kv_own = heads_per_rank(heads, kv_heads, ranks)
    shards, one = lengths(sequence, ranks), batch * head_dim * itemsize
    kv = r"\frac{K}{p}\," if kv_heads >= ranks else ""
    given, given_kv = ([part * count * one for part in shards] for count in (heads, kv_heads))
    q, of_kv = ([sequence * count * one] * ranks for count in (own, kv_own))
    sizes = {
        "queries": (given, r"b\,\frac{s}{p}\,H\,d\,e"),
        "keys": (given_kv, r"b\,\frac{s}{p}\,K\,d\,e"),
        "values": (given_kv, r"b\,\frac{s}{p}\,K\,d\,e"),
        "head_queries": (q, r"b\,s\,\frac{H}{p}\,d\,e"),
        "head_keys": (of_kv, rf"b\,s\,{kv}d\,e"),
        "head_values": (of_kv, rf"b\,s\,{kv}d\,e"),
        "head_out": (q, r"b\,s\,\frac{H}{p}\,d\,e"),
        "lse": ([batch * own * sequence * _FLOAT32] * ranks, r"4\,b\,s\,\frac{H}{p}"),
    }
    return {name: counted(name, *size, sources.JACOBS) for name, size in sizes.items()}


def ulysses_attention_held(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
) -> Quantity:
    """Bytes that Ulysses attention holds on each rank: the sum of `ulysses_attention_terms`.

    >>> ulysses_attention_held(1, 8, 4, 4, 16, 2, itemsize=2).value
    3648
    """
    terms = ulysses_attention_terms(batch, sequence, heads, kv_heads, head_dim, ranks, itemsize=itemsize)
    return _total("ulysses_attention_held", list(terms.values()), ranks, sources.JACOBS)


def _total(name: str, terms: Sequence[Quantity], ranks: int, source: str) -> Quantity:
    return counted(name, summed(terms, ranks), " + ".join(term.formula for term in terms), source)
