"""Amounts for budgets that `ml.volume` has no name for: whole tensors, chunks, fixed numbers of rounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from mindlab.predict.quantity import Quantity, exact

Amount = Callable[[int, int], Quantity]


def tensors(count: int) -> Amount:
    """`count` times the whole tensor, in bytes.

    >>> tensors(2)(4096, 4).value
    8192
    """
    formula = "D" if count == 1 else rf"{count}\,D"
    return lambda nbytes, ranks: Quantity(count * nbytes, "B", formula, ranks=ranks)


def chunks(count: int) -> Amount:
    """`count` chunks of the p that the tensor is cut into, in bytes.

    >>> chunks(3)(4096, 4).value
    3072
    """
    formula = r"\frac{D}{p}" if count == 1 else rf"{count}\,\frac{{D}}{{p}}"
    return lambda nbytes, ranks: Quantity(exact(Fraction(count * nbytes, ranks)), "B", formula, ranks=ranks)


def of_every_rank(nbytes: int, ranks: int) -> Quantity:
    """A whole tensor from each of the p ranks, in bytes.

    >>> of_every_rank(4096, 4).value
    16384
    """
    return Quantity(ranks * nbytes, "B", r"p\,D", ranks=ranks)


def to_every_other(nbytes: int, ranks: int) -> Quantity:
    """The whole tensor to each of the p-1 others, in bytes.

    >>> to_every_other(4096, 4).value
    12288
    """
    return Quantity((ranks - 1) * nbytes, "B", r"(p-1)\,D", ranks=ranks)


def rounds(count: int) -> Amount:
    """A fixed number of rounds.

    >>> rounds(1)(4096, 4).value
    1
    """
    return lambda nbytes, ranks: Quantity(count, "rounds", str(count), ranks=ranks)


def others(nbytes: int, ranks: int) -> Quantity:
    """p-1 rounds: one for each other rank.

    >>> others(4096, 4).value
    3
    """
    return Quantity(ranks - 1, "rounds", "p-1", ranks=ranks)
