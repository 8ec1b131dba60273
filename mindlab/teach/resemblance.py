"""What a wrong tensor has in common with the right one: the order, an offset, a factor.

Each resemblance is believed only if it explains every element within the tolerance.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mindlab.predict import units
from mindlab.teach.lesson import Exercise
from mindlab.teach.parity import mismatch, near
from mindlab.teach.words import say

_LONGEST = 64
"""Places along one dimension that are tried against each other."""
_FEWEST = 4
"""Elements: of fewer, almost anything can be said."""
_SURE = 2.0**-10
"""Coarser formats have too few values: any two sorted lists of them look alike."""


def of(side: Any, given: tuple[Any, ...], exercise: Exercise, ranks: int) -> str:
    """The sentence on what `side` (who, seen, wanted, allowed) looks like; "" for nothing that is known.

    `given` are the arguments that the rank got.
    """
    who, seen, wanted, allowed = side
    if seen.numel() < _FEWEST or seen.is_complex():
        return ""
    if not bool(seen.any()):
        return say("empty", who=who, place=say("its_result")) if bool(wanted.any()) else ""
    return (
        _reordered(who, seen, wanted, allowed, exercise.dims)
        or _shifted(who, seen, wanted, allowed)
        or _scaled(who, seen, wanted, allowed, ranks)
        or _argument_added(who, seen, wanted, allowed, _named(given, exercise))
    )


def _reordered(who: str, seen: Any, wanted: Any, allowed: Any, dims: tuple[str, ...]) -> str:
    for dim, size in enumerate(seen.shape):
        order = _order(seen, wanted, allowed, dim) if 2 <= size <= _LONGEST else None
        if order is not None:
            to = next(place for place, source in enumerate(order) if place != source)
            name = f" ({dims[dim]})" if dim < len(dims) else ""
            return say("reordered", who=who, dim=dim, name=name, to=to, source=order[to])
    if near(wanted) > _SURE:
        return ""
    have, want = seen.flatten().sort().values, wanted.flatten().sort()
    if bool(mismatch(have, want.values, allowed.flatten()[want.indices]).any()):
        return ""
    return say("other_order", who=who)


def _order(seen: Any, wanted: Any, allowed: Any, dim: int) -> list[int] | None:
    """For each place along `dim`, the place whose right values stand there; None if it is no exchange."""
    places = range(seen.shape[dim])
    order: list[int] = []
    for place in places:
        piece = seen.select(dim, place)
        fits = (
            other for other in [place, *(one for one in places if one != place)]
            if not bool(mismatch(piece, wanted.select(dim, other), allowed.select(dim, other)).any())
        )  # fmt: skip
        found = next(fits, None)
        if found is None:
            return None
        order.append(found)
    return order if sorted(order) == list(places) and order != list(places) else None


def _shifted(who: str, seen: Any, wanted: Any, allowed: Any) -> str:
    """Right up to a constant: the same number was added everywhere."""
    apart = _difference(seen, wanted)
    if apart is None:
        return ""
    constant = float(apart.median())
    if abs(constant) <= 4 * float(allowed.max()) or bool(
        ((apart - constant).abs() > 2 * allowed[_finite(seen, wanted)]).any()
    ):
        return ""
    return say("shifted", who=who, constant=f"{constant:.4g}")


def _scaled(who: str, seen: Any, wanted: Any, allowed: Any, ranks: int) -> str:
    if _difference(seen, wanted) is None:
        return ""
    finite = _finite(seen, wanted)
    have, want = seen.double()[finite], wanted.double()[finite]
    square = float((want * want).sum())
    factor = float((have * want).sum()) / square if square else 0.0
    off = (have - factor * want).abs() > 2 * max(1.0, abs(factor)) * allowed[finite]
    if abs(factor) < 0.01 or abs(factor - 1) < 0.01 or bool(off.any()):
        return ""
    known = {"p": ranks, "1/p": 1 / ranks, "p-1": ranks - 1}
    name = next((text for text, value in known.items() if value and abs(factor / value - 1) < 0.01), "")
    meant = say("scaled_p", name=name, ranks=ranks) if name else ""
    return say("scaled", who=who, factor=units.number(round(factor, 4)), meant=meant)


def _argument_added(who: str, seen: Any, wanted: Any, allowed: Any, arguments: Iterator[Any]) -> str:
    """An argument, such as a bias, that was added more often than once, or not at all."""
    apart = _difference(seen, wanted, flat=False)
    if apart is None:
        return ""
    for name, tensor in arguments:
        if not tensor.is_floating_point() or not _spreads(tensor.shape, apart.shape):
            continue
        one = tensor.double().expand(apart.shape)
        square = float((one * one).sum())
        times = round(float((apart * one).sum()) / square) if square else 0
        large = float((times * one).abs().max()) > 4 * float(allowed.max())
        if large and not bool(((apart - times * one).abs() > 2 * max(1, abs(times)) * allowed).any()):
            key = "argument_more" if times > 0 else "argument_less"
            return say(key, who=who, name=name, times=abs(times))
    return ""


def _named(given: tuple[Any, ...], exercise: Exercise) -> Iterator[Any]:
    import torch

    names = inspect.signature(exercise.solution).parameters
    return (pair for pair in zip(names, given, strict=False) if isinstance(pair[1], torch.Tensor))


def _spreads(shape: Any, over: Any) -> bool:
    """Whether a tensor of this shape can be added to one of the shape `over`."""
    return 0 < len(shape) <= len(over) and all(
        one in (1, other) for one, other in zip(shape[::-1], over[::-1], strict=False)
    )


def _finite(seen: Any, wanted: Any) -> Any:
    return seen.isfinite() & wanted.isfinite()


def _difference(seen: Any, wanted: Any, *, flat: bool = True) -> Any:
    """seen - wanted where both are finite; None where an infinity stands on one side only."""
    finite = _finite(seen, wanted)
    if not bool(((seen == wanted) | finite).all()) or not bool(finite.any()):
        return None
    if flat:
        return seen.double()[finite] - wanted.double()[finite]
    return (seen.double() - wanted.double()).where(finite, 0.0)
