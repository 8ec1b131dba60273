"""What a wrong sum is made of: which ranks' parts are in it, how often, and of which chunk.

The inputs are whole numbers drawn at random, so a result that is c_0 x_0 + c_1 x_1 + … has exactly one set of
factors c. They are found by least squares and believed only if they reproduce every element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Made:
    """A piece of a result: chunk number `chunk` of each rank's input, times `factors[rank]`, added."""

    chunk: int
    factors: tuple[int, ...]


def made_of(piece: Any, chunks_by_rank: Sequence[Sequence[Any]], first: int) -> Made | None:
    """How `piece` is made of one chunk of the inputs; None if of none. `first` is the chunk tried first.

    `chunks_by_rank[rank][number]` are the chunks, one-dimensional arrays. All zeros are made of nothing.
    """
    wanted = np.asarray(piece, dtype=np.float64)
    count = len(chunks_by_rank[0])
    for number in dict.fromkeys([first, *range(count)]):
        columns = [np.asarray(chunks[number], dtype=np.float64) for chunks in chunks_by_rank]
        if len(wanted) <= len(columns) or any(len(column) != len(wanted) for column in columns):
            continue
        factors = _whole_factors(np.stack(columns, axis=1), wanted)
        if factors is not None:
            return Made(number, factors)
    return None


def _whole_factors(columns: Any, wanted: Any) -> tuple[int, ...] | None:
    found = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    rounded: Any = np.round(found)
    if not np.array_equal(columns @ rounded, wanted):
        return None
    return tuple(int(factor) for factor in rounded)
