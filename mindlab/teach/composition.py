"""What a wrong sum is made of: which ranks' parts are in it, how often, and of which chunk.

The inputs are whole numbers drawn at random, so a result that is c_0 x_0 + c_1 x_1 + … has exactly one set of
factors c. They are found by least squares and believed only if they reproduce every element. With floats each
element is reproduced up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import WHOLE
from mindlab.teach.parity import near
from mindlab.teach.words import ranks_named, say


@dataclass(frozen=True)
class Made:
    """A piece of a result: chunk number `chunk` of each rank's input, times `factors[rank]`, added."""

    chunk: int
    factors: tuple[int, ...]


def composition(attempt: Attempt, rank: int) -> str:
    """What the first wrong chunk of this rank's result is made of, if it is made of the inputs at all."""
    exercise, ranks = attempt.exercise, attempt.trial.ranks
    if exercise.summands is not None:
        return _summed(attempt, rank)
    if exercise.chunks is None:
        return ""
    numbers = exercise.chunks(rank, ranks)
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


def made_of(
    piece: Any, chunks_by_rank: Sequence[Sequence[Any]], first: int, close: float = 0.0
) -> Made | None:
    """How `piece` is made of one chunk of the inputs; None if of none. `first` is the chunk tried first.

    `chunks_by_rank[rank][number]` are the chunks, one-dimensional arrays. All zeros are made of nothing.
    `close`: how far an element may be off, as a share of the largest.
    """
    wanted = np.asarray(piece, dtype=np.float64)
    count = len(chunks_by_rank[0])
    for number in dict.fromkeys([first, *range(count)]):
        columns = [np.asarray(chunks[number], dtype=np.float64) for chunks in chunks_by_rank]
        if len(wanted) <= len(columns) or any(len(column) != len(wanted) for column in columns):
            continue
        factors = _whole_factors(np.stack(columns, axis=1), wanted, close)
        if factors is not None:
            return Made(number, factors)
    return None


def _whole_factors(columns: Any, wanted: Any, close: float) -> tuple[int, ...] | None:
    found = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    rounded: Any = np.round(found)
    apart = np.abs(columns @ rounded - wanted)
    if not (apart <= close * np.abs(columns).max(initial=0)).all():  # NaN is in no sum
        return None
    return tuple(int(factor) for factor in rounded)


def _summed(attempt: Attempt, rank: int) -> str:
    """Which ranks' parts are in this rank's sum of floats, and how often."""
    exercise, wanted = attempt.exercise, attempt.wanted[rank]
    assert exercise.summands is not None, "asked without summands"
    parts = [[part.double().flatten()] for part in exercise.summands(attempt.given, rank)]
    made = made_of(attempt.values[rank].double().flatten(), parts, 0, near(wanted))
    meant = Made(0, (1,) * len(parts))
    return "" if made in (None, meant) else _told(say("rank", rank=rank), say("its_result"), made, meant)


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
