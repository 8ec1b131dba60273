"""What is wrong with an answer, in one sentence: the first finding of a list that goes from plain to subtle.

A finding says what was seen, never what to write. Each is a pure function of an Attempt: sentence or "".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindlab.predict import units
from mindlab.teach import pattern
from mindlab.teach.attempt import Attempt
from mindlab.teach.composition import Made, made_of
from mindlab.teach.lesson import WHOLE
from mindlab.teach.parity import gap, limits
from mindlab.teach.spending import over_budget
from mindlab.teach.words import ranks_named, say

_FRAMES = 144
"""What a message costs at most beside its payload, in bytes: 96 at its sender and 48 for the answer."""

Finding = Callable[[Attempt], str]


def find(attempt: Attempt, was_right: bool) -> str:
    """The first finding, or "" for a right answer. `was_right`: the same ranks were right at a length that
    they divide."""
    own = attempt.exercise.look
    for finding in (_library, *([own] if own else []), _silent, _kind, wrong_value, _strangers, _record):
        sentence = finding(attempt)
        if sentence:
            if finding is not wrong_value:
                return sentence
            return sentence + _unwaited(attempt) + (_divided(attempt) if was_right else "")
    return over_budget(attempt)


def _unwaited(attempt: Attempt) -> str:
    """What the run says of a message that nobody waited for: wrong values then come and go."""
    note = next((note for note in attempt.run.notes if "nobody waited" in note), "")
    return say("unwaited", note=note) if note else ""


def _library(attempt: Attempt) -> str:
    allowed = attempt.exercise.calls
    used = {event.op for event in attempt.run.events}
    foreign = sorted(op for op in used if op not in allowed)
    if not allowed or not foreign:
        return ""
    return say("forbidden", ops=", ".join(foreign), allowed=_listed(allowed))


def _silent(attempt: Attempt) -> str:
    return "" if attempt.run.events or attempt.trial.ranks == 1 else say("silent")


def _kind(attempt: Attempt) -> str:
    import torch

    for rank, value in enumerate(attempt.values):
        if value is None:
            return say("no_value", who=say("rank", rank=rank))
        if not isinstance(value, torch.Tensor):
            return say("no_tensor", who=say("rank", rank=rank), kind=type(value).__name__)
    return ""


def wrong_value(attempt: Attempt) -> str:
    """Which rank's result is wrong, and what it is made of; "" if all are right."""
    wrong = wrong_ranks(attempt)
    if not wrong:
        return ""
    right = [rank for rank in range(attempt.trial.ranks) if rank not in wrong]
    if right:
        agreeing = say("is_right" if len(right) == 1 else "are_right", ranks=ranks_named(right).capitalize())
        return _complaint(attempt, wrong[0]) + agreeing
    return _complaint(attempt, wrong[0]) + say("all_wrong")


def wrong(attempt: Attempt) -> bool:
    """Whether a rank did not return what one card computes."""
    return bool(_kind(attempt) or wrong_ranks(attempt))


def wrong_ranks(attempt: Attempt) -> list[int]:
    """The ranks that returned a tensor which is not that of one card."""
    return [rank for rank in range(attempt.trial.ranks) if _complaint(attempt, rank)]


def _complaint(attempt: Attempt, rank: int) -> str:
    seen, wanted, who = attempt.values[rank], attempt.wanted[rank], say("rank", rank=rank)
    if seen.shape != wanted.shape:
        return say("shape", who=who, seen=tuple(seen.shape), wanted=tuple(wanted.shape))
    if seen.dtype != wanted.dtype:
        return say("dtype", who=who, seen=_dtype(seen), wanted=_dtype(wanted))
    if not gap(seen, wanted, limits(wanted)).complaint:
        return ""
    return _composition(attempt, rank) or _element(who, seen, wanted)


def _element(who: str, seen: Any, wanted: Any) -> str:
    bad = ~((seen - wanted).abs() <= limits(wanted))  # so that NaN is wrong, too
    at = [int(i) for i in bad.nonzero()[0]]
    place = at[0] if len(at) == 1 else at
    return say(
        "values", who=who, at=place, seen=f"{seen[tuple(at)].item():g}",
        wanted=f"{wanted[tuple(at)].item():g}", count=f"{int(bad.sum()):,}", numel=f"{seen.numel():,}",
    )  # fmt: skip


def _composition(attempt: Attempt, rank: int) -> str:
    """What the first wrong chunk of this rank's result is made of, if it is made of the inputs at all."""
    if attempt.exercise.chunks is None:
        return ""
    ranks = attempt.trial.ranks
    numbers = attempt.exercise.chunks(rank, ranks)
    uncut = list(numbers) == [WHOLE]
    inputs = [[parts[0]] if uncut else list(parts[0].tensor_split(ranks)) for parts in attempt.given]
    lengths = [len(inputs[0][number]) for number in numbers]
    pieces = attempt.values[rank].split(lengths)
    wanted = attempt.wanted[rank].split(lengths)
    for number, piece, goal in zip(numbers, pieces, wanted, strict=True):
        if piece.equal(goal):
            continue
        made, meant = made_of(piece, inputs, number), made_of(goal, inputs, number)
        if made is None or meant is None:
            return ""
        place = say("its_result") if uncut else say("chunk", number=meant.chunk)
        return _told(say("rank", rank=rank), place, made, meant)
    return ""


def _told(who: str, place: str, made: Made, meant: Made) -> str:
    have, want = made.factors, meant.factors
    present = [rank for rank, factor in enumerate(have) if factor]
    if not present:
        return say("empty", who=who, place=place)
    if made.chunk != meant.chunk:
        only = say("only", parts=_parts(present)) if have != want else ""
        return say("other_chunk", who=who, wanted=meant.chunk, seen=made.chunk, composition=only)
    missing = [rank for rank, factor in enumerate(want) if factor and not have[rank]]
    extra = [rank for rank, factor in enumerate(want) if have[rank] and not factor]
    if missing and extra:
        return say("wrong_part", who=who, place=place, seen=_parts(extra), wanted=_parts(missing))
    often = [rank for rank in present if want[rank] and have[rank] != want[rank]]
    if missing:
        doubled = say("also_often", rank=often[0], times=have[often[0]]) if often else ""
        return say("missing", who=who, place=place, parts=_parts(missing)) + doubled
    if extra:
        return say("extra", who=who, place=place, parts=_parts(extra))
    return say("too_often", who=who, place=place, rank=often[0], times=have[often[0]])


def _parts(ranks: list[int]) -> str:
    return say("part" if len(ranks) == 1 else "parts", ranks=ranks_named(ranks))


def _strangers(attempt: Attempt) -> str:
    edges = attempt.exercise.edges
    if edges is None:
        return ""
    allowed = set(edges(attempt.trial.ranks))
    found = pattern.strangers(attempt.run, allowed)
    if not found:
        return ""
    source, target, nbytes = found[0]
    targets = sorted(to for one, to in allowed if one == source)
    return say(
        "strangers", source=source, target=target, size=units.size(nbytes), allowed=ranks_named(targets)
    )


def _record(attempt: Attempt) -> str:
    """Bytes on the wire that no recorded call accounts for: the answer found a way around the record."""
    wire = attempt.run.wire
    if wire is None or not attempt.exercise.calls:
        return ""
    counted = attempt.run.traffic.tolist()
    # Without a payload the recorded calls do not explain the bytes: then all that went over the wire speaks.
    exact = wire.payload is not None
    moved = wire.payload if wire.payload is not None else wire.total
    for source, row in enumerate(moved.tolist()):
        for target, seen in enumerate(row):
            said = counted[source][target]
            if seen != said if exact else seen > said + _FRAMES * (1 + len(attempt.run.events)):
                return say(
                    "off_the_record", seen=units.size(seen), source=source, target=target,
                    counted=units.size(said),
                )  # fmt: skip
    return ""


def _divided(attempt: Attempt) -> str:
    even = attempt.trial.numel // attempt.trial.ranks * attempt.trial.ranks
    return say("was_right", numel=f"{even:,}", ranks=attempt.trial.ranks)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
