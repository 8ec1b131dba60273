r"""How many bytes each rank sends in one layer's forward pass, one function for each way to split a model.

The other family of `volume`: these take the shapes of a layer, where the collectives take a tensor's bytes.
`itemsize` is the bytes of one element, and always needed: `per_rank` holds each rank's exact whole bytes
where they differ, because ranks do not divide what is cut; else it is None. `by_rank(ranks)` gives them
either way.
What ranks tell each other about lengths, where a strategy is not given `sizes`, is not in these numbers.
"""

from __future__ import annotations

from dataclasses import replace

from mindlab.predict import sources
from mindlab.predict.collectives import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from mindlab.predict.gloo import gloo_all_reduce
from mindlab.predict.heads import heads_per_rank
from mindlab.predict.layouts import lengths
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole, times


def tensor_parallel(tokens: int, hidden: int, ranks: int, *, itemsize: int, all_reduces: int = 2) -> Quantity:
    r"""Bytes each rank sends in a tensor-parallel layer: `all_reduces` ring all-reduces of (tokens, hidden).

    Each sends 2(p-1)/p of the activation; neither the inner width nor the number of heads matters. Two a
    layer (after attention, after the MLP); one where both stand beside each other. Shoeybi et al. 2019.

    >>> tensor_parallel(128, 512, 4, itemsize=4).value
    786432
    """
    nbytes = _activation(tokens, hidden, itemsize, all_reduces=all_reduces)
    each = ring_all_reduce(nbytes, ranks, itemsize=itemsize)
    return _all_reduces("tensor_parallel", each, all_reduces, sources.SHOEYBI)


def gloo_tensor_parallel(
    tokens: int, hidden: int, ranks: int, *, itemsize: int, all_reduces: int = 2
) -> Quantity:
    """Bytes each rank sends in a tensor-parallel layer with gloo's all_reduce: as many, cut in gloo's way.

    >>> gloo_tensor_parallel(128, 512, 4, itemsize=4).value
    786432
    """
    nbytes = _activation(tokens, hidden, itemsize, all_reduces=all_reduces)
    each = gloo_all_reduce(nbytes, ranks, itemsize=itemsize)
    return _all_reduces("gloo_tensor_parallel", each, all_reduces, sources.GLOO)


def sequence_parallel(
    batch: int, sequence: int, hidden: int, ranks: int, *, itemsize: int, pairs: int = 2
) -> Quantity:
    r"""Bytes each rank sends in a sequence-parallel layer: `pairs` of ring all-gather and reduce-scatter.

    Each pair sends 2(p-1)/p of the activation (batch, sequence, hidden), as the all-reduce that it replaces;
    shards are cut along the sequence. Korthikanti et al. 2022.

    >>> sequence_parallel(1, 128, 512, 4, itemsize=4).value
    786432
    >>> sequence_parallel(1, 10, 512, 4, itemsize=4).per_rank
    (57344, 61440, 65536, 61440)
    """
    nbytes = _activation(batch * sequence, hidden, itemsize, batch=batch, sequence=sequence, pairs=pairs)
    row = batch * hidden * itemsize
    one = [form(nbytes, ranks, itemsize=max(1, row)) for form in (ring_all_gather, ring_reduce_scatter)]
    formula = rf"{times(pairs)}2\,\frac{{p-1}}{{p}}\,b\,s\,h\,e"
    return _renamed("sequence_parallel", pairs * (one[0] + one[1]), formula, sources.KORTHIKANTI)


def gloo_sequence_parallel(
    batch: int, sequence: int, hidden: int, ranks: int, *, itemsize: int, pairs: int = 2
) -> Quantity:
    """Bytes each rank sends in a sequence-parallel layer whose reduce-scatter is gloo's: 1.5 times as many.

    gloo's reduce_scatter is an all-reduce inside; of unequal shards one all-reduce for each. The all-gather
    is the ring's; gloo's own sends as much, and takes equal shards only.

    >>> gloo_sequence_parallel(1, 128, 512, 4, itemsize=4).value
    1179648
    """
    nbytes = _activation(batch * sequence, hidden, itemsize, batch=batch, sequence=sequence, pairs=pairs)
    row = batch * hidden * itemsize
    gather = ring_all_gather(nbytes, ranks, itemsize=max(1, row))
    shards = lengths(sequence, ranks)
    parts = [nbytes] if len(set(shards)) == 1 else [rows * row for rows in shards]
    sums = [gloo_all_reduce(part, ranks, itemsize=itemsize) for part in parts]
    formula = rf"{times(pairs)}3\,\frac{{p-1}}{{p}}\,b\,s\,h\,e"
    return _renamed("gloo_sequence_parallel", pairs * sum(sums, gather), formula, sources.GLOO)


def ring_attention(
    batch: int,
    sequence: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layout: str = "contiguous",
) -> Quantity:
    r"""Bytes each rank sends in ring attention: (p-1)/p of all keys and values, in p-1 rounds.

    Every rank passes on each shard but its right neighbour's own. The query heads do not matter, nor does
    `layout` where 2p divides the sequence (see `layouts`). Liu et al. 2023.

    >>> ring_attention(1, 512, 2, 64, ranks=4, itemsize=4).value
    393216
    """
    shards = _kv_shards(batch, sequence, kv_heads, head_dim, ranks, itemsize, layout)
    by_rank = [sum(shards) - shards[(rank + 1) % ranks] for rank in range(ranks)]
    return counted("ring_attention", by_rank, _RING, sources.LIU)


def ring_attention_received(
    batch: int,
    sequence: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
    layout: str = "contiguous",
) -> Quantity:
    r"""Bytes each rank receives in ring attention: all keys and values but its own.

    The mean is that of `ring_attention`; single ranks differ where shards do.

    >>> ring_attention_received(1, 5, 1, 1, ranks=4, itemsize=1).per_rank  # shards of 2, 1, 1, 1
    (6, 8, 8, 8)
    >>> ring_attention(1, 5, 1, 1, ranks=4, itemsize=1).per_rank
    (8, 8, 8, 6)
    """
    shards = _kv_shards(batch, sequence, kv_heads, head_dim, ranks, itemsize, layout)
    by_rank = [sum(shards) - own for own in shards]
    return counted("ring_attention_received", by_rank, _RING, sources.LIU)


def ulysses_attention(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
) -> Quantity:
    r"""Bytes each rank sends in Ulysses attention: four all-to-alls, of queries, keys, values and the result.

    (p-1)/p of (2H + 2K) d b e s/p. With fewer key-value heads than ranks each is sent to p/K ranks: K becomes
    p. The sequence is cut as torch.tensor_split cuts. Raises ValueError where ranks do not divide the heads.
    Jacobs et al. 2023.

    >>> ulysses_attention(1, 512, 8, 2, 64, ranks=2, itemsize=4).value
    655360
    """
    there, back = _ulysses_shards(batch, sequence, heads, kv_heads, head_dim, ranks, itemsize)
    by_rank = [(ranks - 1) * own + sum(back) - back[rank] for rank, own in enumerate(there)]
    return counted("ulysses_attention", by_rank, _ulysses_formula(kv_heads, ranks), sources.JACOBS)


def ulysses_attention_received(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ranks: int,
    *,
    itemsize: int,
) -> Quantity:
    r"""Bytes each rank receives in Ulysses attention; the mean is that of `ulysses_attention`.

    >>> ulysses_attention_received(1, 5, 4, 4, 1, ranks=2, itemsize=1).per_rank  # shards of 3, 2
    (18, 22)
    >>> ulysses_attention(1, 5, 4, 4, 1, ranks=2, itemsize=1).per_rank
    (22, 18)
    """
    there, back = _ulysses_shards(batch, sequence, heads, kv_heads, head_dim, ranks, itemsize)
    by_rank = [sum(there) - own + (ranks - 1) * back[rank] for rank, own in enumerate(there)]
    return counted("ulysses_attention_received", by_rank, _ulysses_formula(kv_heads, ranks), sources.JACOBS)


_RING = r"\frac{p-1}{p}\,2\,b\,s\,K\,d\,e"


def _ulysses_formula(kv_heads: int, ranks: int) -> str:
    copied = "p" if kv_heads < ranks else "K"
    return rf"\frac{{p-1}}{{p}}\,(2H+2{copied})\,d\,b\,\frac{{s}}{{p}}\,e"


def _activation(tokens: int, hidden: int, itemsize: int, **more: int) -> int:
    """The bytes of an activation (tokens, hidden), its lengths checked."""
    check_whole(0, **more, tokens=tokens)
    check_whole(1, hidden=hidden, itemsize=itemsize)
    return tokens * hidden * itemsize


def _kv_shards(
    batch: int, sequence: int, kv_heads: int, head_dim: int, ranks: int, itemsize: int, layout: str
) -> list[int]:
    """The bytes of each rank's keys and values."""
    check_whole(1, batch=batch, kv_heads=kv_heads, head_dim=head_dim, itemsize=itemsize)
    position = 2 * batch * kv_heads * head_dim * itemsize
    return [length * position for length in lengths(sequence, ranks, layout)]


def _ulysses_shards(
    batch: int, sequence: int, heads: int, kv_heads: int, head_dim: int, ranks: int, itemsize: int
) -> tuple[list[int], list[int]]:
    """The bytes of each rank's positions that go to one rank's heads (q, k, v), and that come back (out)."""
    check_whole(1, batch=batch, head_dim=head_dim, itemsize=itemsize)
    held, kv_held = heads_per_rank(heads, kv_heads, ranks)
    head = batch * head_dim * itemsize
    shards = lengths(sequence, ranks)
    return [part * (held + 2 * kv_held) * head for part in shards], [part * held * head for part in shards]


def _all_reduces(name: str, each: Quantity, count: int, source: str) -> Quantity:
    formula = rf"{times(count)}2\,\frac{{p-1}}{{p}}\,b\,s\,h\,e"
    return _renamed(name, count * each, formula, source)


def _renamed(name: str, total: Quantity, formula: str, source: str) -> Quantity:
    """The total under its own name; `per_rank` only where ranks differ."""
    alike = len(set(total.per_rank or ())) <= 1
    per_rank = None if alike else total.per_rank
    return replace(total, name=name, formula=formula, source=source, per_rank=per_rank)
