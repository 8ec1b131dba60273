"""What a person hands to `check`, as numbers: one, one a rank, or rank x rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindlab.predict.quantity import Quantity
from mindlab.trace.measured import PROVENANCES, Measured
from mindlab.trace.run import Run
from mindlab.trace.wire import Wire

Number = int | float


@dataclass(frozen=True)
class Reading:
    """Numbers with their shape: () is one number, (p,) one a rank, (p, p) from rank to rank."""

    values: tuple[Number, ...]
    shape: tuple[int, ...]
    unit: str = ""
    provenance: str = "stated"
    note: str = ""
    ranks: int | None = None

    @property
    def shown(self) -> Number | tuple[Number, ...]:
        """One number, or all of them."""
        return self.values if self.shape else self.values[0]


def unanswered(value: Any) -> bool:
    """True where a person has not written an answer yet: `...`, or a sequence with `...` in it."""
    return value is ... or (isinstance(value, (list, tuple)) and any(unanswered(item) for item in value))


def read(value: Any, role: str, provenance: str | None = None) -> Reading:
    """The reading of a number, Quantity, Measured, array or sequence by rank; `role` names it in errors.

    Raises TypeError for what holds no numbers, ValueError for an unknown provenance or an empty sequence.
    """
    known = (*PROVENANCES, "stated")
    if provenance is not None and provenance not in known:
        raise ValueError(f"provenance {provenance!r}: choose one of {', '.join(known)}")
    if isinstance(value, Quantity):
        return Reading((value.value,), (), value.unit, provenance or "derived", ranks=value.ranks)
    if isinstance(value, (Run, Wire)):
        which = "run.wire.sent" if isinstance(value, Wire) else "run.sent, run.wire.sent or run.values"
        raise TypeError(f"{role} is a whole {type(value).__name__}: choose the numbers, such as {which}")
    values, shape = _numbers(value, role)
    if not values:
        raise ValueError(f"{role} is empty: a check of nothing proves nothing")
    if len(shape) > 2:
        raise TypeError(f"{role} has shape {shape}: give one number, one a rank, or rank x rank")
    ranks = shape[0] if shape else None
    unit = value.unit if isinstance(value, Measured) else _unit_of_items(value)
    named = value.provenance if isinstance(value, Measured) else ""
    note = value.note if isinstance(value, Measured) else ""
    return Reading(values, shape, unit, provenance or named or "stated", note, ranks)


def _numbers(value: Any, role: str) -> tuple[tuple[Number, ...], tuple[int, ...]]:
    if isinstance(value, (list, tuple)):
        value = [
            _items(item, role) if isinstance(item, (list, tuple)) else _number(item, role) for item in value
        ]
        array = np.empty(len(value), dtype=object)
        array[:] = value
        if any(isinstance(item, list) for item in value):
            array = np.array(value, dtype=object)
        return tuple(array.flatten().tolist()), array.shape
    if isinstance(value, np.ndarray):
        return tuple(_number(item, role) for item in value.ravel().tolist()), value.shape
    return (_number(value, role),), ()


def _items(row: Any, role: str) -> list[Number]:
    return [_number(item, role) for item in row]


def _number(value: Any, role: str) -> Number:
    """A Python number from a number, a numpy scalar, a one-element tensor or a Quantity."""
    if isinstance(value, Quantity):
        return value.value
    if isinstance(value, (int, float)):
        return value
    size = getattr(value, "numel", lambda: getattr(value, "size", None))
    if hasattr(value, "item") and size() == 1:
        return _number(value.item(), role)
    shape = tuple(getattr(value, "shape", ()))
    what = f"a {type(value).__name__}" + (f" of shape {shape}" if shape else "")
    raise TypeError(f"{role} holds {what} where one number is needed: give one number a rank")


def _unit_of_items(value: Any) -> str:
    return next(_units(value), "")


def _units(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, (list, tuple)) else ():
        unit = getattr(item, "unit", "")
        if isinstance(unit, str) and unit:
            yield unit
