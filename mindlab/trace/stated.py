"""Work that the ranks' code states: what was computed, and at which place of the program.

A record holds no time for it: FLOP and bytes are the program's, how long they take is a card's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mindlab.trace.calls import CREATIONS

if TYPE_CHECKING:
    from mindlab.trace.entry import Entry

Mark = tuple[int, int]
"""A place in a rank's program while it is recorded: entries, and rows of work, before it."""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of computing that a rank's code stated with `recorder.compute`."""

    rank: int
    """The rank that did it."""
    index: int
    """How many events this rank had before it: the work stands before the event of this index."""
    flop: float
    """Floating-point operations; a multiplication and an addition are two."""
    nbytes: float = 0
    """Bytes read from and written to memory; 0 where they were not stated."""
    what: str = ""
    """What was computed: "attention", "linear"…"""
    label: str = ""
    """The last `ml.step("…")` before it."""


def amount(given: Any) -> float | None:
    """The number, whole where it is whole; None for what is no finite number from 0 on."""
    if type(given) is int:
        return given if given >= 0 else None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def events_before(entries: Sequence[Entry]) -> list[int]:
    """Entry by entry, how many events came before it; and one number more, for the end.

    A call that raised and the creation of a group are entries, and no events.
    """
    return list(accumulate((not e.failed and e.op not in CREATIONS for e in entries), initial=0))
