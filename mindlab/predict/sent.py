"""A number for each rank as a Quantity: the closed form, and each rank's own where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from mindlab.predict.quantity import Quantity, exact, mean


def sent(
    name: str,
    by_rank: Sequence[Fraction],
    closed: Fraction,
    formula: str,
    source: str,
    itemsize: int | None,
) -> Quantity:
    """The Quantity of a volume; `closed` is the closed form, which must be the mean of `by_rank`."""
    ranks = len(by_rank)
    assert sum(by_rank, Fraction(0)) == closed * ranks, f"{name}: the closed form is not the mean"
    differ = itemsize is not None or len(set(by_rank)) > 1
    per_rank = tuple(exact(value) for value in by_rank) if differ else None
    return Quantity(exact(closed), "B", formula, source, per_rank, name, ranks)


def summed(terms: Iterable[Quantity], ranks: int) -> list[int]:
    """The terms' whole numbers added up, rank by rank."""
    return [
        sum(int(number) for number in each) for each in zip(*(t.by_rank(ranks) for t in terms), strict=True)
    ]


def counted(name: str, by_rank: Sequence[int], formula: str, source: str, unit: str = "B") -> Quantity:
    """The Quantity of whole numbers counted rank by rank: their mean, and `per_rank` where they differ."""
    per_rank = tuple(by_rank) if len(set(by_rank)) > 1 else None
    return Quantity(mean(by_rank), unit, formula, source, per_rank, name, len(by_rank))
