r"""What classifier-free guidance on two groups of ranks sends, and what it can win."""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole


def cfg_parallel(elements: int, ranks: int, *, itemsize: int, steps: int = 1) -> Quantity:
    r"""Bytes each rank sends in `steps` guided steps: its prediction, to one partner. p does not matter.

    `elements` are those of one rank's prediction: of a shard, where x is one. Raises ValueError for an odd
    number of ranks.

    >>> cfg_parallel(4 * 64 * 64, ranks=2, itemsize=4).value
    65536
    """
    check_whole(0, elements=elements, steps=steps)
    check_whole(1, ranks=ranks, itemsize=itemsize)
    if ranks % 2:
        raise ValueError(f"ranks={ranks} cannot be halved for two branches: choose an even number")
    value = steps * elements * itemsize
    return Quantity(value, "B", r"T\,n\,e", sources.COUNTED_BY_HAND, name="cfg_parallel", ranks=ranks)


def cfg_speedup(unconditional: float, conditional: float, exchange: float = 0.0) -> Quantity:
    r"""How many times faster a guided step gets on two groups: at most 2, however many ranks there are.

    In seconds: the two calls of the model, and the exchange. More ranks in each group shorten the calls by
    another strategy, not this number.

    >>> cfg_speedup(1.0, 1.0).value, cfg_speedup(1.0, 1.0, exchange=0.25).value
    (2.0, 1.6)
    """
    times = {"unconditional": unconditional, "conditional": conditional, "exchange": exchange}
    for name, value in times.items():
        if not 0 <= value < float("inf") or (name != "exchange" and value == 0):
            raise ValueError(f"{name}={value!r}: give seconds, above 0")
    value = (unconditional + conditional) / (max(unconditional, conditional) + exchange)
    formula = r"\frac{t_u+t_c}{\max(t_u,t_c)+t_{\mathrm{exchange}}}"
    return Quantity(value, "", formula, sources.COUNTED_BY_HAND, name="cfg_speedup")
