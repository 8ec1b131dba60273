"""Whether each rank returned what one card computes, and in words what it returned instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mindlab.teach import resemblance
from mindlab.teach.attempt import Attempt
from mindlab.teach.composition import composition
from mindlab.teach.lesson import Tolerance
from mindlab.teach.parity import gap, limits, mismatch
from mindlab.teach.words import ranks_named, say


class Side(NamedTuple):
    """One tensor of a rank's result beside one card's."""

    who: str
    """The start of a sentence: "Rank 0", "Rank 0, lse"."""
    seen: Any
    wanted: Any
    allowed: Any
    """How far each element may be from `wanted`."""


def kind(attempt: Attempt) -> str:
    """Which rank returned something of another kind than is wanted; "" if none did."""
    for rank, (seen, wanted) in enumerate(zip(attempt.values, attempt.wanted, strict=True)):
        who = say("rank", rank=rank)
        if seen is None and wanted is not None:
            return say("no_value", who=who)
        sentence = _other_kind(who, seen, wanted, attempt.exercise.results)
        if sentence:
            return sentence
    return ""


def wrong_value(attempt: Attempt) -> str:
    """Which rank's result is wrong, and what it is made of; "" if all are right."""
    wrong = wrong_ranks(attempt)
    if not wrong:
        return ""
    right = [rank for rank in range(attempt.trial.ranks) if rank not in wrong]
    if right:
        others = _named(wrong[1:], "is_wrong_too", "are_wrong_too")
        return _complaint(attempt, wrong[0]) + _named(right, "is_right", "are_right") + others
    return _complaint(attempt, wrong[0]) + say("all_agree" if _agree(attempt) else "all_wrong")


def _named(ranks: list[int], one: str, several: str) -> str:
    """A sentence about these ranks; "" about none."""
    return say(one if len(ranks) == 1 else several, ranks=ranks_named(ranks).capitalize()) if ranks else ""


def wrong(attempt: Attempt) -> bool:
    """Whether a rank did not return what one card computes."""
    return bool(kind(attempt) or wrong_ranks(attempt))


def wrong_ranks(attempt: Attempt) -> list[int]:
    """The ranks that returned something which is not that of one card."""
    return [rank for rank in range(attempt.trial.ranks) if not _is_right(attempt, rank)]


def tolerance_of(attempt: Attempt, tensor: Any) -> Tolerance | None:
    """The exercise's own tolerance for a result of this dtype, if it has one."""
    return attempt.exercise.tolerance.get(_dtype(tensor))


def sides(attempt: Attempt, rank: int, of: int | None = None) -> Iterator[Side]:
    """The tensors that rank `rank` returned, each beside one card's (or that of another rank, `of`)."""
    who, names = say("rank", rank=rank), attempt.exercise.results
    seen, wanted = attempt.values[rank], attempt.wanted[rank if of is None else of]
    whos = [f"{who}, {name}" for name in names] if names else [who]
    for one in zip(whos, seen if names else [seen], wanted if names else [wanted], strict=True):
        own = tolerance_of(attempt, one[2])
        yield Side(*one, limits(one[2], own.atol, own.rtol) if own else limits(one[2]))


def _other_kind(who: str, seen: Any, wanted: Any, names: tuple[str, ...]) -> str:
    import torch

    if names:
        fits = isinstance(seen, (tuple, list)) and len(seen) == len(names)
        if not fits:
            have = f"{type(seen).__name__}" + (f" of {len(seen)}" if isinstance(seen, (tuple, list)) else "")
            return say("not_so_many", who=who, kind=have, count=len(names), names=", ".join(names))
        each = (
            _other_kind(f"{who}, {name}", one, other, ())
            for name, one, other in zip(names, seen, wanted, strict=True)
        )
        return next(filter(None, each), "")
    if isinstance(wanted, torch.Tensor) and not isinstance(seen, torch.Tensor):
        return say("no_tensor", who=who, kind=type(seen).__name__)
    return ""


def _is_right(attempt: Attempt, rank: int) -> bool:
    import torch

    seen, wanted = attempt.values[rank], attempt.wanted[rank]
    if not attempt.exercise.results and not isinstance(wanted, torch.Tensor):
        return type(seen) is type(wanted) and bool(seen == wanted)
    return all(_fits(side) for side in sides(attempt, rank))


def _fits(side: Side) -> bool:
    alike = side.seen.shape == side.wanted.shape and side.seen.dtype == side.wanted.dtype
    return alike and not bool(mismatch(side.seen, side.wanted, side.allowed).any())


def _complaint(attempt: Attempt, rank: int) -> str:
    import torch

    seen, wanted, who = attempt.values[rank], attempt.wanted[rank], say("rank", rank=rank)
    if not attempt.exercise.results and not isinstance(wanted, torch.Tensor):
        return say("other_data", who=who, seen=repr(seen), wanted=repr(wanted))
    place, side = next((place, side) for place, side in enumerate(sides(attempt, rank)) if not _fits(side))
    return _of_tensor(attempt, rank, place, side)


def _of_tensor(attempt: Attempt, rank: int, place: int, side: Side) -> str:
    who, seen, wanted, _ = side
    if seen.shape != wanted.shape:
        return say("shape", who=who, seen=tuple(seen.shape), wanted=tuple(wanted.shape))
    if seen.dtype != wanted.dtype:
        return say("dtype", who=who, seen=_dtype(seen), wanted=_dtype(wanted))
    strange = (seen != seen) & (wanted == wanted)
    if bool(strange.any()):
        count, numel = f"{int(strange.sum()):,}", f"{seen.numel():,}"
        return say("nan", who=who, count=count, numel=numel)
    return (
        composition(attempt, rank)
        or _another_ranks(attempt, rank, place, side)
        or resemblance.of(side, attempt.given[rank], attempt.exercise, attempt.trial.ranks)
        or _element(attempt, side)
    )


def _element(attempt: Attempt, side: Side) -> str:
    bad = mismatch(side.seen, side.wanted, side.allowed)
    at = [int(i) for i in bad.nonzero()[0]]
    own = tolerance_of(attempt, side.wanted)
    sentence = say(
        "values", who=side.who, at=at[0] if len(at) == 1 else at, seen=f"{side.seen[tuple(at)].item():g}",
        wanted=f"{side.wanted[tuple(at)].item():g}", count=f"{int(bad.sum()):,}",
        numel=f"{side.seen.numel():,}",
    )  # fmt: skip
    return sentence + (say("tolerance", atol=own.atol, rtol=own.rtol, why=own.why) if own else "")


def _another_ranks(attempt: Attempt, rank: int, place: int, side: Side) -> str:
    """Whether this rank returned what belongs on another one."""
    for other in range(attempt.trial.ranks):
        if attempt.wanted[other] is None:  # a rank that has no result, as most of a pipeline's
            continue
        theirs = list(sides(attempt, rank, of=other))[place]
        if other != rank and theirs.seen.numel() and _fits(theirs):
            return say("another_ranks", who=side.who, rank=other)
    return ""


def _agree(attempt: Attempt) -> bool:
    """Whether all ranks should return the same tensors and did: then none can tell by the others."""
    return attempt.trial.ranks > 1 and all(
        _alike(values, attempt.exercise.results) for values in (attempt.wanted, attempt.values)
    )


def _alike(values: list[Any], names: tuple[str, ...]) -> bool:
    import torch

    first, *others = [list(value) if names else [value] for value in values]
    return isinstance(first[0], torch.Tensor) and not any(
        gap(one, other, limits(other)).complaint
        for row in others
        for one, other in zip(row, first, strict=True)
    )


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
