r"""How many bytes of weights each rank holds under tensor parallel; reached through `ml.memory`.

Features are cut as torch.tensor_split cuts, heads whole. A column layer's bias is cut with its outputs; a row
layer's, added after the sum, lies whole on every rank, and so do norms. `ranks=1` is one card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mindlab.predict import sources
from mindlab.predict.chunks import split
from mindlab.predict.heads import head_size, heads_per_rank
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole

_COLUMNS = r"\frac{n}{p}\,(m+1)\,e"
_ROWS = r"\left(\frac{m}{p}\,n + n\right)e"


def column_weights(
    inputs: int, outputs: int, ranks: int = 1, *, itemsize: int, bias: bool = True
) -> Quantity:
    """Bytes of a linear layer's weights on each rank, cut by columns (output features): n/p (m + 1) e.

    >>> column_weights(6, 8, 4, itemsize=4).value
    56
    """
    check_whole(1, inputs=inputs, outputs=outputs, ranks=ranks, itemsize=itemsize)
    by_rank = [own * (inputs + bias) * itemsize for own in split(outputs, ranks)]
    return counted("column_weights", by_rank, _formula(_COLUMNS, "+1", bias), sources.SHOEYBI)


def row_weights(inputs: int, outputs: int, ranks: int = 1, *, itemsize: int, bias: bool = True) -> Quantity:
    """Bytes of a linear layer's weights on each rank, cut by rows (input features): (m/p n + n) e.

    >>> row_weights(8, 6, 4, itemsize=4).value
    72
    """
    check_whole(1, inputs=inputs, outputs=outputs, ranks=ranks, itemsize=itemsize)
    by_rank = [(own + bias) * outputs * itemsize for own in split(inputs, ranks)]
    return counted("row_weights", by_rank, _formula(_ROWS, " + n", bias), sources.SHOEYBI)


def mlp_weights(hidden: int, inner: int, ranks: int = 1, *, itemsize: int, bias: bool = True) -> Quantity:
    """Bytes of an MLP's weights on each rank: up by columns, down by rows.

    >>> mlp_weights(6, 24, 4, itemsize=2, bias=False).value
    144
    """
    check_whole(1, hidden=hidden, inner=inner)
    up = column_weights(hidden, inner, ranks, itemsize=itemsize, bias=bias)
    down = row_weights(inner, hidden, ranks, itemsize=itemsize, bias=bias)
    formula = r"\left(2\,h\,\frac{i}{p} + \frac{i}{p} + h\right)e"
    return _total("mlp_weights", [up, down], _formula(formula, r" + \frac{i}{p} + h", bias))


def gated_mlp_weights(
    hidden: int, inner: int, ranks: int = 1, *, itemsize: int, bias: bool = False
) -> Quantity:
    """Bytes of a gated MLP's weights on each rank: gate and up by columns, down by rows.

    >>> gated_mlp_weights(6, 24, 4, itemsize=2).value
    216
    """
    check_whole(1, hidden=hidden, inner=inner)
    up = column_weights(hidden, inner, ranks, itemsize=itemsize, bias=bias)
    down = row_weights(inner, hidden, ranks, itemsize=itemsize, bias=bias)
    formula = r"\left(3\,h\,\frac{i}{p} + 2\,\frac{i}{p} + h\right)e"
    return _total("gated_mlp_weights", [up, up, down], _formula(formula, r" + 2\,\frac{i}{p} + h", bias))


def attention_weights(
    hidden: int,
    heads: int,
    ranks: int = 1,
    *,
    itemsize: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    bias: bool = True,
) -> Quantity:
    """Bytes of an attention layer's weights on each rank: q, k and v by columns, the output by rows.

    With fewer key-value heads than ranks every rank holds one whole: these weights then stop shrinking.
    Raises ValueError where the heads cannot be dealt out.

    >>> attention_weights(8, 4, 4, itemsize=2, bias=False).value
    128
    >>> attention_weights(8, 4, 4, itemsize=2, kv_heads=1, bias=False).value
    128
    """
    kv_heads = heads if kv_heads is None else kv_heads
    head_dim = head_size(hidden, heads) if head_dim is None else head_dim
    check_whole(1, hidden=hidden, head_dim=head_dim)
    own, kv_own = heads_per_rank(heads, kv_heads, ranks)
    q, kv = (
        column_weights(hidden, count * head_dim, itemsize=itemsize, bias=bias) for count in (own, kv_own)
    )
    out = row_weights(own * head_dim, hidden, itemsize=itemsize, bias=bias)
    k, twice = (r"\frac{K}{p}", r"2\,\frac{K}{p}") if kv_heads >= ranks else ("1", "2")
    biases = rf" + \left(\frac{{H}}{{p}} + {twice}\right)d + h"
    formula = rf"\left(2\,h\,d\left(\frac{{H}}{{p}} + {k}\right){biases}\right)e"
    total = _total("attention_weights", [q, kv, kv, out], _formula(formula, biases, bias))
    return replace(total, ranks=ranks)


def block_weights(
    hidden: int,
    heads: int,
    ranks: int = 1,
    *,
    itemsize: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    inner: int | None = None,
    gated: bool = False,
    bias: bool = True,
    norm_vectors: int = 2,
) -> Quantity:
    """Bytes of a transformer block's weights on each rank: attention, MLP, two norms.

    `inner` is 4h unless given; then these are about 12 h^2 / p weights. `norm_vectors`: 2 for LayerNorm
    (weight and bias), 1 for RMSNorm.

    >>> round(block_weights(1024, 16, 8, itemsize=2).value / (12 * 1024**2 / 8 * 2), 4)
    1.0045
    """
    check_whole(0, norm_vectors=norm_vectors)
    check_whole(1, hidden=hidden)
    inner = 4 * hidden if inner is None else inner
    attention = attention_weights(
        hidden, heads, ranks, itemsize=itemsize, kv_heads=kv_heads, head_dim=head_dim, bias=bias
    )
    form = gated_mlp_weights if gated else mlp_weights
    mlp = form(hidden, inner, ranks, itemsize=itemsize, bias=bias)
    norms = Quantity(2 * norm_vectors * hidden * itemsize, "B", rf"2 \cdot {norm_vectors}\,h\,e")
    formula = f"{attention.formula} + {mlp.formula} + {norms.formula}"
    return _total("block_weights", [attention, mlp, norms], formula)


def vocabulary_weights(vocabulary: int, hidden: int, ranks: int = 1, *, itemsize: int) -> Quantity:
    """Bytes of an embedding, or of the matrix to logits, on each rank, cut along the vocabulary: V/p h e.

    >>> vocabulary_weights(10, 4, 4, itemsize=2).per_rank
    (24, 24, 16, 16)
    """
    check_whole(1, vocabulary=vocabulary, hidden=hidden)
    weights = column_weights(hidden, vocabulary, ranks, itemsize=itemsize, bias=False)
    return replace(weights, name="vocabulary_weights", formula=r"\frac{V}{p}\,h\,e")


def _total(name: str, parts: Sequence[Quantity], formula: str) -> Quantity:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return replace(total, name=name, formula=formula, source=sources.SHOEYBI)


def _formula(whole: str, of_bias: str, bias: bool) -> str:
    return whole if bias else whole.replace(of_bias, "")
