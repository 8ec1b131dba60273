r"""How many bytes of activations one transformer layer keeps on each rank for a backward pass.

After Korthikanti et al. 2022: a pre-norm layer of attention and an MLP with GeLU, dropout after the softmax,
after the projection and after the MLP. Elements take `itemsize` bytes (the paper: 2), dropout masks one.
Every term stands by itself in `activation_terms`, so that a layer without dropout, or one that keeps less,
can be held against those terms that it has. Inference keeps none beyond the layer that is running.

    no split, 16 bit           s b h (34 + 5 a s / h)
    tensor parallel            s b h (10 + 24 / p + 5 a s / (h p))
    with sequence parallel     s b h (34 + 5 a s / h) / p
    selective recomputation    the same without 5 a s / h
    full recomputation         2 s b h
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mindlab.predict import sources
from mindlab.predict.chunks import split
from mindlab.predict.heads import head_size, heads_per_rank
from mindlab.predict.layouts import lengths
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted, summed
from mindlab.predict.shapes import check_whole

QUADRATIC = ("softmax", "softmax_mask", "softmax_dropped")
"""The terms that grow with the square of the sequence: selective recomputation drops them."""
DROPOUT = ("softmax_mask", "softmax_dropped", "attention_mask", "mlp_mask")
"""The terms that are there for dropout only."""


def activation_terms(
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    ranks: int = 1,
    *,
    itemsize: int = 2,
    kv_heads: int | None = None,
    inner: int | None = None,
    sequence_parallel: bool = False,
    dropout: bool = True,
) -> dict[str, Quantity]:
    """Bytes of each activation kept on each rank, by name, in the order in which the layer makes them.

    Attention's inside is cut by heads and the MLP's by features; the rest lies whole on every rank, or is cut
    along the sequence with `sequence_parallel`. `inner` is 4h unless given. Without `dropout` its terms are
    left out. Korthikanti et al. 2022.

    >>> list(activation_terms(1, 64, 32, 4, dropout=False))[:4]
    ['norm1_input', 'qkv_input', 'queries', 'keys']
    >>> activation_terms(1, 64, 32, 4, ranks=2)["gelu_input"].value
    8192
    """
    check_whole(1, batch=batch, hidden=hidden, heads=heads, ranks=ranks, itemsize=itemsize)
    kv_heads = heads if kv_heads is None else kv_heads
    inner = 4 * hidden if inner is None else inner
    check_whole(1, inner=inner)
    rows = lengths(sequence, ranks) if sequence_parallel else (sequence,) * ranks
    sizes = _sizes(batch, sequence, hidden, heads, kv_heads, inner, ranks)
    along = r"\frac{s}{p}" if sequence_parallel else "s"
    sizes["whole"] = _Size([batch * row * hidden for row in rows], rf"b\,{along}\,h")
    return {
        name: _term(name, sizes[of], 1 if name.endswith("mask") else itemsize)
        for name, of in _TERMS.items()
        if dropout or name not in DROPOUT
    }


def activations(
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    ranks: int = 1,
    *,
    itemsize: int = 2,
    kv_heads: int | None = None,
    inner: int | None = None,
    sequence_parallel: bool = False,
    dropout: bool = True,
) -> Quantity:
    """Bytes of all activations that a layer keeps on each rank: the sum of `activation_terms`.

    Korthikanti et al. 2022: s b h (34 + 5 a s / h) at ranks=1, s b h (10 + 24 / p + 5 a s / (h p)) under
    tensor parallel, the first divided by p with `sequence_parallel`.

    >>> activations(1, 64, 32, 4).value == 64 * 32 * 34 + 5 * 4 * 64**2
    True
    """
    terms = activation_terms(
        batch, sequence, hidden, heads, ranks, itemsize=itemsize, kv_heads=kv_heads, inner=inner,
        sequence_parallel=sequence_parallel, dropout=dropout,
    )  # fmt: skip
    own = (itemsize, kv_heads or heads, inner or 4 * hidden, dropout) != (2, heads, 4 * hidden, True)
    published = None if own else _published(ranks, sequence_parallel, r" + 5\,\frac{a\,s}{h}")
    return _total("activations", terms, published)


def activations_selective(
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    ranks: int = 1,
    *,
    itemsize: int = 2,
    kv_heads: int | None = None,
    inner: int | None = None,
    sequence_parallel: bool = False,
    dropout: bool = True,
) -> Quantity:
    """Bytes of activations kept on each rank where the softmax and its dropout are computed again.

    Korthikanti et al. 2022: 34 s b h / p with tensor and sequence parallel.

    >>> activations_selective(1, 64, 32, 4, ranks=2, sequence_parallel=True).value == 34 * 64 * 32 / 2
    True
    """
    terms = activation_terms(
        batch, sequence, hidden, heads, ranks, itemsize=itemsize, kv_heads=kv_heads, inner=inner,
        sequence_parallel=sequence_parallel, dropout=dropout,
    )  # fmt: skip
    kept = {name: term for name, term in terms.items() if name not in QUADRATIC}
    own = (itemsize, kv_heads or heads, inner or 4 * hidden, dropout) != (2, heads, 4 * hidden, True)
    return _total("activations_selective", kept, None if own else _published(ranks, sequence_parallel, ""))


def activations_full(batch: int, sequence: int, hidden: int, *, itemsize: int = 2) -> Quantity:
    """Bytes of activations kept where the whole layer is computed again: its input, 2 s b h in 16 bit.

    >>> activations_full(1, 64, 32).value
    4096
    """
    check_whole(1, batch=batch, hidden=hidden, itemsize=itemsize)
    check_whole(0, sequence=sequence)
    nbytes = batch * sequence * hidden * itemsize
    return counted("activations_full", [nbytes], r"b\,s\,h\,e", sources.KORTHIKANTI)


class _Size(NamedTuple):
    """The elements of one activation on each rank, and that as a formula."""

    by_rank: list[int]
    formula: str


def _sizes(
    batch: int, sequence: int, hidden: int, heads: int, kv_heads: int, inner: int, ranks: int
) -> dict[str, _Size]:
    """What tensor parallel cuts: by heads, and the MLP's inside by features."""
    check_whole(0, sequence=sequence)
    d, (own, kv_own) = head_size(hidden, heads), heads_per_rank(heads, kv_heads, ranks)
    tokens = batch * sequence
    kv = r"\frac{K}{p}\," if kv_heads >= ranks else ""
    return {
        "q": _Size([tokens * own * d] * ranks, r"b\,s\,\frac{h}{p}"),
        "kv": _Size([tokens * kv_own * d] * ranks, rf"b\,s\,{kv}d"),
        "scores": _Size([tokens * sequence * own] * ranks, r"b\,s^2\,\frac{a}{p}"),
        "inner": _Size([tokens * part for part in split(inner, ranks)], r"b\,s\,\frac{i}{p}"),
    }


def _term(name: str, size: _Size, itemsize: int) -> Quantity:
    formula = size.formula if name.endswith("mask") else rf"{size.formula}\,e"
    return counted(name, [count * itemsize for count in size.by_rank], formula, sources.KORTHIKANTI)


def _total(name: str, terms: dict[str, Quantity], published: str | None) -> Quantity:
    """The sum; without a published formula its own counts terms of one size together."""
    ranks = next(iter(terms.values())).ranks or 1
    alike = Counter(term.formula for term in terms.values())
    own = " + ".join(part if count == 1 else rf"{count}\,{part}" for part, count in alike.items())
    return counted(name, summed(terms.values(), ranks), published or own, sources.KORTHIKANTI)


def _published(ranks: int, sequence_parallel: bool, scores: str) -> str:
    """The paper's formula, for 16 bit, an inner width of 4h, as many key-value heads, with dropout."""
    if ranks == 1 or sequence_parallel:
        size = _SBH if ranks == 1 else _SBH_OVER_P
        return rf"{size}\left(34{scores}\right)" if scores else rf"34\,{size}"
    split = scores.replace("{h}", r"{h\,p}")
    return rf"{_SBH}\left(10 + \frac{{24}}{{p}}{split}\right)"


_SBH, _SBH_OVER_P = r"s\,b\,h", r"\frac{s\,b\,h}{p}"
_TERMS = {
    "norm1_input": "whole",
    "qkv_input": "whole",
    "queries": "q",
    "keys": "kv",
    "values": "kv",
    "softmax": "scores",
    "softmax_mask": "scores",
    "softmax_dropped": "scores",
    "projection_input": "q",
    "attention_mask": "whole",
    "norm2_input": "whole",
    "mlp_input": "whole",
    "gelu_input": "inner",
    "down_input": "inner",
    "mlp_mask": "whole",
}
