"""Which well-known mistake turns the right number into the one that was guessed.

A table of transformations of the right value, computed for this p. If several give the same number (at p = 4,
p/2 is 2), all of them are named: two ranks, or four, cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mindlab.predict.quantity import Quantity
from mindlab.teach.words import say

_NEAR = 0.006
"""A guess has three digits at most: 1.57 for 1.5729 is meant to be it."""


@dataclass(frozen=True)
class Mistake:
    """A mistake, and by which factor its number differs from the right one."""

    key: str
    factor: float
    unit: str = ""
    other: str = ""

    @property
    def words(self) -> str:
        """The mistake, as the end of a sentence."""
        return say(f"mistake_{self.key}", unit=self.unit, other=self.other)


def matching(
    guess: float, right: float, formula: Quantity | None, ranks: int | None, unit: str
) -> list[Mistake]:
    """The mistakes that lead from `right` to `guess`; empty where none is known. All in one unit."""
    if not right or not guess:
        return []
    known = list(_of_units(unit))
    if ranks is not None and ranks > 2:
        known += _of_ranks(ranks, _phases(formula))
    if formula is None or unit in _BYTES or _phases(formula):
        known += _of_directions(_phases(formula))
    ratio = guess / right
    found = [one for one in known if abs(ratio / one.factor - 1) <= _NEAR]
    return list({one.key: one for one in found}.values())


_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_DECIMAL = {"KiB": "kB", "MiB": "MB", "GiB": "GB"}


def size_of(unit: str) -> int | None:
    """The bytes of a unit of size; None for any other unit."""
    return _BYTES.get(unit)


def _phases(formula: Quantity | None) -> int:
    """2 for a formula that begins with 2 (p-1)/p, 1 for (p-1)/p, 0 for others."""
    text = "" if formula is None else formula.formula.replace(" ", "").replace("\\,", "")
    if text.startswith("2\\frac{p-1}{p}"):
        return 2
    return 1 if text.startswith("\\frac{p-1}{p}") else 0


def _of_directions(phases: int) -> Iterator[Mistake]:
    yield Mistake("both", 2)
    if phases == 2:
        yield Mistake("half", 1 / 2)


def _of_ranks(p: int, phases: int) -> Iterator[Mistake]:
    yield Mistake("total", p)
    yield Mistake("shard", 1 / p)
    if phases:
        share = phases * (p - 1) / p
        yield Mistake("own", p / (p - 1))
        yield Mistake("round", 1 / (p - 1))
        yield Mistake("chunk", p / (p - 1) ** 2)
        yield Mistake("uncut", (p - 1) / share)
        yield Mistake("whole", 1 / share)


def _of_units(unit: str) -> Iterator[Mistake]:
    if unit not in _BYTES:
        return
    if unit in _DECIMAL:
        other = _DECIMAL[unit]
        yield Mistake("decimal", _BYTES[unit] / _BYTES[other], unit, other)
        yield Mistake("binary", _BYTES[other] / _BYTES[unit], unit, other)
    yield Mistake("bits", 8)
    yield Mistake("elements", 1 / 4)
    yield Mistake("thousand", 1024)
    yield Mistake("thousandth", 1 / 1024)
