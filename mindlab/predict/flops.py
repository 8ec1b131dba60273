r"""How much work a layer is, in FLOP: a multiplication and an addition count as two.

Matrix products only: norms, softmax, activations and sums are left out, as is usual. Attention counts the
pairs of a query and a key that it may see; a kernel that computes masked pairs too does more.

A whole model's pass: `prefill`, `decode_step`, `dit_pass`, of an `ml.architecture`; part by part:
`prefill_terms`, `decode_terms`, `dit_terms`.

    >>> ml.flops.attention(1, 1024, 1024, heads=8, head_dim=64)
    attention: 2.147 GFLOP (2,147,483,648 FLOP)
    >>> ml.flops.visible_keys(64, 4).per_rank  # contiguous: the last rank sees most
    (136, 392, 648, 904)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from mindlab.predict import sources
from mindlab.predict.convolutions import vae_convolutions as vae_convolutions
from mindlab.predict.convolutions import vae_decoder as vae_decoder
from mindlab.predict.decoding import attention_intensity as attention_intensity
from mindlab.predict.heads import check_groups
from mindlab.predict.layouts import pairs_up_to, positions
from mindlab.predict.passes import decode_step as decode_step
from mindlab.predict.passes import decode_terms as decode_terms
from mindlab.predict.passes import dit_pass as dit_pass
from mindlab.predict.passes import dit_terms as dit_terms
from mindlab.predict.passes import prefill as prefill
from mindlab.predict.passes import prefill_terms as prefill_terms
from mindlab.predict.quantity import Quantity, exact
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole
from mindlab.predict.tiles import recomputed as recomputed


def linear(tokens: int, inputs: int, outputs: int) -> Quantity:
    r"""FLOP of a linear layer: 2 t m n.

    >>> linear(8, 16, 32).value
    8192
    """
    check_whole(0, tokens=tokens, inputs=inputs, outputs=outputs)
    return _flop("linear", 2 * tokens * inputs * outputs, r"2\,t\,m\,n")


def mlp(tokens: int, hidden: int, inner: int) -> Quantity:
    r"""FLOP of an MLP, up and down: 4 t h i.

    >>> mlp(8, 16, 64).value
    32768
    """
    check_whole(0, tokens=tokens, hidden=hidden, inner=inner)
    return _flop("mlp", 4 * tokens * hidden * inner, r"4\,t\,h\,i")


def gated_mlp(tokens: int, hidden: int, inner: int) -> Quantity:
    r"""FLOP of a gated MLP, gate, up and down: 6 t h i.

    >>> gated_mlp(8, 16, 64).value
    49152
    """
    check_whole(0, tokens=tokens, hidden=hidden, inner=inner)
    return _flop("gated_mlp", 6 * tokens * hidden * inner, r"6\,t\,h\,i")


def attention(
    batch: int, queries: int, keys: int, heads: int, head_dim: int, *, causal: bool = False
) -> Quantity:
    r"""FLOP of attention itself, scores and weighted values: 4 b H d for each visible pair.

    The number of key-value heads does not matter. Projections are linear layers, and counted there.

    >>> attention(1, 4, 4, heads=2, head_dim=8, causal=True).value
    640
    """
    check_whole(0, batch=batch, heads=heads, head_dim=head_dim)
    pairs = visible_pairs(queries, keys, causal=causal)
    count = 4 * batch * heads * head_dim * int(pairs)
    return _flop("attention", count, rf"4\,b\,H\,d \cdot {pairs.formula}")


def visible_pairs(queries: int, keys: int, *, causal: bool = False) -> Quantity:
    """How many pairs of a query and a key there are; causal: query i sees keys j <= i + keys - queries.

    Both end at the same position, as in decoding: one query sees all keys.

    >>> visible_pairs(4, 4, causal=True).value, visible_pairs(1, 9, causal=True).value
    (10, 9)
    """
    check_whole(0, queries=queries, keys=keys)
    count, formula = queries * keys, r"s_q\,s_k"
    if causal:
        count = pairs_up_to(queries, keys, keys - queries)
        unseen = r"s_q\,s_k - \frac{s_q(s_q-1)}{2}"
        formula = rf"\left({unseen}\right)" if queries <= keys else r"\frac{s_k(s_k+1)}{2}"
    return Quantity(count, "pairs", formula, sources.COUNTED_BY_HAND, name="visible_pairs")


def visible_keys(sequence: int, ranks: int, *, layout: str = "contiguous") -> Quantity:
    r"""How many keys each rank's queries see under a causal mask, summed: the work of one head, in pairs.

    `layout` is contiguous, zigzag or striped (Brandon et al. 2023).

    >>> visible_keys(8, 2).per_rank, visible_keys(8, 2, layout="zigzag").value
    ((10, 26), 18)
    """
    by_rank = [sum(steps) for steps in ring_pairs(sequence, ranks, layout=layout)]
    return counted("visible_keys", by_rank, r"\frac{s(s+1)}{2\,p}", _source(layout), "pairs")


def balance(sequence: int, ranks: int, *, layout: str = "contiguous") -> Quantity:
    r"""The busiest rank's visible keys over the mean, causal: 1 is even, (2p-1)/p what contiguous tends to.

    >>> balance(4096, 4, layout="zigzag").value
    1
    >>> round(balance(64, 4, layout="striped").value, 3)
    1.046
    """
    seen = visible_keys(sequence, ranks, layout=layout)
    return _ratio("balance", max(seen.by_rank(ranks)), seen, layout)


def critical_pairs(sequence: int, ranks: int, *, layout: str = "contiguous") -> Quantity:
    """The pairs on the critical path of causal ring attention: in each step that of the busiest rank.

    Ranks pass keys on together, so that each step lasts as long as its longest.

    >>> critical_pairs(8, 2).value, critical_pairs(8, 2, layout="zigzag").value
    (26, 18)
    """
    steps = zip(*ring_pairs(sequence, ranks, layout=layout), strict=True)
    count = sum(max(step) for step in steps)
    formula = r"\sum_t \max_r n_{r,t}"
    return Quantity(count, "pairs", formula, _source(layout), name="critical_pairs", ranks=ranks)


def ring_pairs(
    sequence: int, ranks: int, *, layout: str = "contiguous", causal: bool = True
) -> tuple[tuple[int, ...], ...]:
    """The visible pairs of each rank in each step of ring attention: [rank][step].

    In step t rank r works on the keys of rank r - t.

    >>> ring_pairs(8, 2), ring_pairs(8, 2, layout="zigzag")
    (((10, 0), (10, 16)), ((10, 8), (10, 8)))
    """
    held = positions(sequence, ranks, layout)
    return tuple(
        tuple(_seen(held[rank], held[rank - step], causal) for step in range(ranks)) for rank in range(ranks)
    )


def ring_step(batch: int, shard: int, heads: int, head_dim: int, *, causal: bool = False) -> Quantity:
    r"""FLOP of one step of ring attention with shards of c = `shard` tokens: 4 b c^2 H d; causal: half.

    Half is what a balanced layout (zigzag) leaves to every rank in each step but the first. Liu et al. 2023.

    >>> ring_step(1, 16, 2, 8).value, ring_step(1, 16, 2, 8, causal=True).value
    (16384, 8192)
    """
    check_whole(0, batch=batch, shard=shard, heads=heads, head_dim=head_dim)
    factor = 2 if causal else 4
    count = factor * batch * shard**2 * heads * head_dim
    return _flop("ring_step", count, rf"{factor}\,b\,c^2\,H\,d", sources.LIU)


def ring_intensity(shard: int, heads: int, kv_heads: int, *, itemsize: int, causal: bool = False) -> Quantity:
    r"""FLOP for each byte that a step of ring attention sends: 2 c H / (K e), c = `shard`; causal: half.

    Work, 4 b c^2 H d, over keys and values, 2 b c K d e: the batch and the head dimension cancel.

    >>> ring_intensity(1024, 32, 8, itemsize=2)
    ring_intensity: 4.096 kFLOP/B (4,096 FLOP/B)
    """
    check_groups(heads, kv_heads)
    check_whole(0, shard=shard)
    check_whole(1, itemsize=itemsize)
    value = exact(Fraction((1 if causal else 2) * shard * heads, kv_heads * itemsize))
    formula = r"\frac{c\,H}{K\,e}" if causal else r"\frac{2\,c\,H}{K\,e}"
    return Quantity(value, "FLOP/B", formula, sources.LIU, name="ring_intensity")


def hiding_length(
    heads: int, kv_heads: int, *, itemsize: int, flop_rate: float, bandwidth: float, causal: bool = False
) -> Quantity:
    r"""The least shard length c whose work hides the transfer: c >= e/2 K/H F/B; causal: twice that.

    `flop_rate` is F in FLOP/s of one rank, `bandwidth` B in bytes/s of its link. The head dimension does not
    matter: it makes work and bytes longer alike. Liu et al. 2023, who have e = 2 and K = H: c >= F/B.

    >>> hiding_length(32, 32, itemsize=2, flop_rate=312e12, bandwidth=300e9).value
    1040
    >>> hiding_length(32, 8, itemsize=2, flop_rate=312e12, bandwidth=300e9, causal=True).value
    520
    """
    check_groups(heads, kv_heads)
    check_whole(1, itemsize=itemsize)
    least = Fraction(itemsize, 2) * Fraction(kv_heads, heads) * _rate("flop_rate", flop_rate)
    least = (2 if causal else 1) * least / _rate("bandwidth", bandwidth)
    formula = r"\left\lceil \frac{e}{2}\,\frac{K}{H}\,\frac{F}{B} \right\rceil"
    formula = formula.replace(r"\frac{e}{2}", "e") if causal else formula
    return Quantity(math.ceil(least), "tokens", formula, sources.LIU, name="hiding_length")


def _flop(name: str, count: int, formula: str, source: str = sources.COUNTED_BY_HAND) -> Quantity:
    return Quantity(count, "FLOP", formula, source, name=name)


def _ratio(name: str, most: float, mean: Quantity, layout: str) -> Quantity:
    value = exact(Fraction(most) / Fraction(mean.value)) if mean.value else 1
    return Quantity(value, "", r"\frac{\max_r n_r}{\frac{1}{p}\sum_r n_r}", _source(layout), name=name)


def _source(layout: str) -> str:
    return sources.BRANDON if layout == "striped" else sources.COUNTED_BY_HAND


def _rate(name: str, value: float) -> Fraction:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}={value!r}: give a number above 0, in base units each second")
    return Fraction(value)


def _seen(queries: Sequence[range], keys: Sequence[range], causal: bool) -> int:
    """The visible pairs between two ranks' positions; all ranges have one step."""
    if not causal:
        return sum(map(len, queries)) * sum(map(len, keys))
    return sum(
        pairs_up_to(len(mine), len(theirs), (mine.start - theirs.start) // mine.step)
        for mine in queries
        for theirs in keys
    )
