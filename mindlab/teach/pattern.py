"""Who talked to whom, and in how many rounds. Pure functions of a run's events."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mindlab.draw.rounds import matched
from mindlab.trace.events import Event
from mindlab.trace.run import Run


def rounds_of(events: Iterable[Event]) -> int:
    """How many rounds the messages need if every rank sends at most one in a round.

    A send comes one round after the rank's send before it, and one round after every message that the rank
    had waited for before it began (happens-before). Receives that are posted ahead change nothing, and luck
    with times neither. Collectives are not looked at.
    """
    arriving = [(send, receive) for send, receive in matched(events)]
    number: dict[tuple[int, int], int] = {}
    for send, _ in sorted(arriving, key=lambda pair: pair[0].start):
        before = [number[one.rank, one.index] for one, _ in arriving if _comes_before(one, send, number)]
        heard = [
            number[one.rank, one.index] for one, taken in arriving if _was_heard(taken, send, one, number)
        ]
        number[send.rank, send.index] = 1 + max([*before, *heard], default=0)
    return max(number.values(), default=0)


def strangers(run: Run, allowed: Collection[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(from, to, bytes) of each pair that sent something and is not in `allowed`, the first rank first."""
    matrix = run.traffic.tolist()
    return [
        (source, target, nbytes)
        for source, row in enumerate(matrix)
        for target, nbytes in enumerate(row)
        if nbytes and source != target and (source, target) not in allowed
    ]


def _comes_before(one: Event, send: Event, known: dict[tuple[int, int], int]) -> bool:
    return one.rank == send.rank and one.index < send.index and (one.rank, one.index) in known


def _was_heard(taken: Event | None, send: Event, one: Event, known: dict[tuple[int, int], int]) -> bool:
    if taken is None or taken.rank != send.rank or taken.end is None or (one.rank, one.index) not in known:
        return False
    return taken.end <= send.start
