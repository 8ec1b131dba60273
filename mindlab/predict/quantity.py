"""A number that knows its unit, its formula and where the formula comes from."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mindlab.predict import units

Number = int | float


def exact(value: Fraction | Number) -> Number:
    """The value as an int where it is one, else as a float.

    >>> exact(Fraction(6, 3)), exact(Fraction(1, 2))
    (2, 0.5)
    """
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


@dataclass(frozen=True, eq=False)
class Quantity:
    """A derived number. `value` is in base units: "B", "s", "FLOP", "B/s", "rounds".

    `value` is an exact int where it is one. `per_rank` is None where every rank has the same value; else it
    holds each rank's, and `value` is their mean. Arithmetic with numbers and with quantities of the same
    unit keeps unit, formula and source.

    >>> Quantity(1572864, "B", name="ring_all_reduce")
    ring_all_reduce: 1.5 MiB (1,572,864 B)
    """

    value: Number
    unit: str
    formula: str = ""
    """LaTeX, without dollar signs."""
    source: str = ""
    """Paper and section, manual page."""
    per_rank: tuple[Number, ...] | None = None
    name: str = ""
    ranks: int | None = None
    """How many ranks the formula was asked for; None where it has none."""

    def by_rank(self, ranks: int) -> tuple[Number, ...]:
        """Each rank's value; raises ValueError where the quantity is for another number of ranks."""
        known = len(self.per_rank) if self.per_rank is not None else self.ranks
        if known not in (None, ranks):
            raise ValueError(f"{self.name or 'this quantity'} is for ranks={known}, not for {ranks}")
        return self.per_rank if self.per_rank is not None else (self.value,) * ranks

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __round__(self, digits: int | None = None) -> Number:
        return round(self.value, digits)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return (self.value, self.unit, self.per_rank) == (other.value, other.unit, other.per_rank)
        return self.value == other if isinstance(other, (int, float)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Quantity | Number) -> bool:
        return self.value < self._same_unit(other)

    def __le__(self, other: Quantity | Number) -> bool:
        return self.value <= self._same_unit(other)

    def __gt__(self, other: Quantity | Number) -> bool:
        return self.value > self._same_unit(other)

    def __ge__(self, other: Quantity | Number) -> bool:
        return self.value >= self._same_unit(other)

    def __add__(self, other: Quantity | Number) -> Quantity:
        self._same_unit(other)
        return self._combine(other, lambda a, b: a + b, f"{self._term()} + {_latex(other)}", self.unit)

    def __sub__(self, other: Quantity | Number) -> Quantity:
        self._same_unit(other)
        return self._combine(other, lambda a, b: a - b, f"{self._term()} - {_factor(other)}", self.unit)

    def __mul__(self, other: Quantity | Number) -> Quantity:
        unit = _product(self.unit, other.unit) if isinstance(other, Quantity) else self.unit
        return self._combine(other, lambda a, b: a * b, rf"{_factor(other)} \cdot {_factor(self)}", unit)

    def __truediv__(self, other: Quantity | Number) -> Quantity:
        unit = _quotient(self.unit, other.unit) if isinstance(other, Quantity) else self.unit
        formula = rf"\frac{{{self._term()}}}{{{_latex(other)}}}"
        return self._combine(other, lambda a, b: a / b, formula, unit)

    def __neg__(self) -> Quantity:
        return self * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> Quantity:
        return -self + other

    def _same_unit(self, other: Quantity | Number) -> Number:
        if not isinstance(other, Quantity):
            return other
        if other.unit != self.unit:
            raise ValueError(f"cannot compare or add {self.unit!r} and {other.unit!r}: convert one first")
        return other.value

    def _combine(
        self,
        other: Quantity | Number,
        apply: Callable[[Fraction, Fraction], Fraction],
        formula: str,
        unit: str,
    ) -> Quantity:
        per_rank = None
        theirs = other.per_rank if isinstance(other, Quantity) else None
        if self.per_rank is not None or theirs is not None:
            ranks = len(self.per_rank if self.per_rank is not None else theirs or ())
            right = other.by_rank(ranks) if isinstance(other, Quantity) else (other,) * ranks
            per_rank = tuple(_apply(apply, a, b) for a, b in zip(self.by_rank(ranks), right, strict=True))
        value = _apply(apply, self.value, other.value if isinstance(other, Quantity) else other)
        if per_rank is not None:
            value = mean(per_rank)
        return replace(self, value=value, unit=unit, formula=formula, per_rank=per_rank, name="")

    def _term(self) -> str:
        return self.formula or _symbol(self.name) or _latex(self.value)

    def __repr__(self) -> str:
        start = f"{self.name}: " if self.name else ""
        if self.per_rank is None:
            return start + units.with_base(self.value, self.unit)
        listed = ", ".join(units.number(value) for value in self.per_rank)
        average = units.pretty(self.value, self.unit)
        return f"{start}{average} on average; by rank {listed} {self.unit}".rstrip()

    def _repr_latex_(self) -> str:
        shown = units.pretty(self.value, self.unit).replace("µ", r"\mu ")
        return rf"$\displaystyle {self._term()} = \mathrm{{{shown.replace(' ', chr(92) + ',')}}}$"

    def _repr_html_(self) -> str:
        name = f"<b>{html.escape(self.name)}</b> " if self.name else ""
        source = f'<br><span style="opacity:.7">{html.escape(self.source)}</span>' if self.source else ""
        formula = f'<span class="math">${html.escape(self.formula)}$</span> = ' if self.formula else ""
        shown = html.escape(units.with_base(self.value, self.unit))
        mean_of = " on average" + _listed(self.per_rank, self.unit) if self.per_rank is not None else ""
        return f"<div>{name}{formula}{shown}{mean_of}{source}</div>"


def mean(values: Sequence[Number]) -> Number:
    """The mean, exact for whole numbers."""
    return exact(sum((Fraction(value) for value in values), Fraction(0)) / len(values))


def _apply(apply: Callable[[Fraction, Fraction], Fraction], a: Number, b: Number) -> Number:
    """The result rounded once: whole where it is whole."""
    return exact(apply(Fraction(a), Fraction(b)))


def _latex(other: Quantity | Number) -> str:
    if isinstance(other, Quantity):
        return other._term()
    return f"{other:.6g}" if isinstance(other, float) else str(other)


def _factor(other: Quantity | Number) -> str:
    text = _latex(other)
    return rf"\left({text}\right)" if "+" in text or "-" in text else text


def _symbol(name: str) -> str:
    return rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}" if name else ""


def _product(left: str, right: str) -> str:
    return left or right if not (left and right) else f"{left}·{right}"


def _quotient(left: str, right: str) -> str:
    if left == right:
        return ""
    return f"{left}/{right}" if right else left


def _listed(per_rank: Sequence[Number], unit: str) -> str:
    return "; by rank " + html.escape(", ".join(units.number(value) for value in per_rank) + f" {unit}")
