r"""How many bytes the stages of a pipeline send: forward only."""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole

HEADER = 64
"""Bytes of the message before each activation, which says its shape and dtype: eight int64."""
_ID = 8  # bytes of a token's number


def pipeline(tokens: int, hidden: int, ranks: int, *, itemsize: int, microbatches: int) -> Quantity:
    r"""Bytes each rank sends in a pipeline's forward pass: all activations once, to the next stage.

    `tokens` are those of all micro-batches together. Every stage but the last sends them, with a header of
    64 bytes a micro-batch. Huang et al. 2019.

    >>> pipeline(8, 16, ranks=3, itemsize=4, microbatches=2).per_rank
    (640, 640, 0)
    """
    check_whole(0, tokens=tokens)
    check_whole(1, hidden=hidden, ranks=ranks, itemsize=itemsize, microbatches=microbatches)
    each = tokens * hidden * itemsize + HEADER * microbatches
    formula = r"\frac{p-1}{p}\,(b\,s\,h\,e + 64\,m)"
    return counted("pipeline", [each] * (ranks - 1) + [0], formula, sources.HUANG)


def pipeline_decode(
    batch: int,
    prompt: int,
    tokens: int,
    hidden: int,
    ranks: int,
    *,
    itemsize: int,
    cached: bool = True,
) -> Quantity:
    r"""Bytes each rank sends while `tokens` new tokens are made one by one after a prompt of that length.

    A stage sends for each of them an activation and its header to the next one: of the whole prompt first,
    then of one token, or of all so far without a cache. The last stage sends each new token's number, 8
    bytes, to the first, but for the final one.

    >>> pipeline_decode(1, 5, 3, hidden=16, ranks=2, itemsize=4).per_rank
    (640, 16)
    """
    check_whole(1, batch=batch, prompt=prompt, hidden=hidden, ranks=ranks, itemsize=itemsize)
    check_whole(0, tokens=tokens)
    lengths = [prompt if not step else 1 if cached else prompt + step for step in range(tokens)]
    each = sum(batch * length * hidden * itemsize + HEADER for length in lengths)
    back = _ID * batch * max(0, tokens - 1)
    by_rank = [*[each] * (ranks - 1), back] if ranks > 1 else [0]
    formula = r"\frac{1}{p}\Big((p-1)\sum_i (b\,s_i\,h\,e + 64) + 8\,b\,(n-1)\Big)"
    return counted("pipeline_decode", by_rank, formula, sources.COUNTED_BY_HAND)
