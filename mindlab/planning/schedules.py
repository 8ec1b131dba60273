"""The boxes of a pipeline as a model has them: when each stage would work on what. Nothing is timed."""

from __future__ import annotations

from collections.abc import Sequence

from mindlab.predict.shapes import check_whole
from mindlab.trace.slots import Slot


def schedule(stages: Sequence[float], microbatches: int, *, tokens: int = 1, hop: float = 0.0) -> list[Slot]:
    """The Slots of `microbatches` through stages that take so many seconds each, forward only.

    A box begins when its stage is free and its input is there, `hop` seconds after the stage before was done.
    With `tokens` above 1 they are requests that decode: their passes take turns, and the first stage begins
    a request's next token a hop after the last stage had the one before. All passes take alike. Raises
    ValueError for times below 0, no stage that takes time, or no micro-batches. Huang et al. 2019.

    >>> [(slot.stage, slot.microbatch, slot.start) for slot in schedule([1, 2], 2)]
    [(0, 0, 0.0), (1, 0, 1.0), (0, 1, 1.0), (1, 1, 3.0)]
    >>> [slot.start for slot in schedule([1, 2], 1, tokens=2)]  # one request: a token after the other
    [0.0, 1.0, 3.0, 4.0]
    """
    check_whole(1, microbatches=microbatches, tokens=tokens)
    stages = [float(seconds) for seconds in stages]
    if not all(0 <= seconds < float("inf") for seconds in [*stages, hop]) or not any(stages):
        raise ValueError(f"stages={list(stages)!r}, hop={hop!r}: give seconds from 0 on, one stage above 0")
    free, done = [0.0] * len(stages), [0.0] * microbatches
    slots = []
    for step in range(tokens):
        for index in range(microbatches):
            ready = done[index] + (hop if step and len(stages) > 1 else 0.0)
            for stage, seconds in enumerate(stages):
                start = max(free[stage], ready)
                free[stage] = start + seconds
                slots.append(Slot(stage, stage, index, start, free[stage], step))
                ready = free[stage] + hop
            done[index] = free[-1]
    return slots
