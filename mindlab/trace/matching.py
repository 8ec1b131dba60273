"""Do the ranks fit together? Pure functions over the rows of all ranks, while they run and afterwards.

`find_fault` reads a snapshot that may be torn between ranks (one was read a moment before another). That is
safe: a call is only judged where both sides are on the board, a rank is only called absent when its function
is over, and "stuck" needs every living rank to stand in a call that nothing on the board can end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mindlab.trace import compare, words
from mindlab.trace.calls import CREATIONS
from mindlab.trace.ledger import Channel, Ledger
from mindlab.trace.record import Record
from mindlab.trace.row import Row, State
from mindlab.trace.standing import awaited, dropped, stuck


@dataclass(frozen=True)
class Fault:
    """Why the ranks cannot go on together, or did not do what they seem to have done."""

    kind: str
    """"mismatch" or "stuck"."""
    message: str
    """Several short lines: who calls what where, the rule, the smallest change that works."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Review:
    """What all calls of an experiment, side by side, say: faults in time order, and notes."""

    faults: list[Fault]
    notes: list[str]


def find_fault(rows: Sequence[Sequence[Row]], states: Sequence[State]) -> Fault | None:
    """The first fault on the board, or None. `rows` and `states` are by rank.

    "mismatch": two sides of one call differ, or a rank that has returned is awaited. "stuck": no living
    rank can go on. Ranks of an older job count as not begun; with no rank running there is no fault.
    """
    ledger = Ledger(rows, states)
    if not any(ledger.running(rank) for rank in range(len(states))):
        return None
    found = min(_differences(ledger), key=lambda item: item[0], default=None)
    message_and_ranks = found[1:] if found else dropped(ledger) or awaited(ledger)
    if message_and_ranks:
        message, ranks = message_and_ranks
        others = [line for rank, line in enumerate(where(rows, states)) if rank not in ranks]
        return Fault("mismatch", "\n".join([message, *others]), ranks)
    stand = stuck(ledger)
    return Fault("stuck", *stand) if stand else None


def where(rows: Sequence[Sequence[Row]], states: Sequence[State]) -> list[str]:
    """One line a rank: "rank 2 waits in recv from rank 1 (its call 5; ring.py, line 41) for 3.1 s"."""
    job = max((state.job for state in states), default=0)
    return [
        words.standing(rank, mine, state, job)
        for rank, (mine, state) in enumerate(zip(rows, states, strict=True))
    ]


def review(records: Sequence[Record]) -> Review:
    """What went wrong in silence in an experiment that ended: `records` by rank.

    Faults: calls that differ and that the backend accepted all the same. Notes: messages that nobody took,
    tensors sent in one order and received in another.
    """
    rows = [record.rows for record in records]
    states = [State("done", 0.0, 1, len(mine) - 1) for mine in rows]
    ledger = Ledger(rows, states)
    found = sorted(_differences(ledger), key=lambda item: item[0])
    faults = [Fault("mismatch", message, ranks) for _, message, ranks in found]
    unmet = awaited(ledger, every=True)
    if unmet and not faults:
        faults.append(Fault("mismatch", *unmet))
    return Review(faults, [*_untaken(ledger), *_swapped(ledger, records)])


def _differences(ledger: Ledger) -> Iterator[tuple[float, str, tuple[int, ...]]]:
    """(when, message, ranks) of every call whose sides differ; groups first: they explain the rest."""
    for rows in ledger.meetings.values():
        message = compare.collective(rows)
        if message:
            creation = all(row.op in CREATIONS for row in rows.values())
            when = 0.0 if creation else max(row.start for row in rows.values())
            yield when, message, tuple(sorted(rows))
    for channel, sent, taken in ledger.messages():
        message = compare.message(channel, sent, taken)
        if message:
            yield max(sent.start, taken.start), message, (channel.source, channel.to)


def _untaken(ledger: Ledger) -> list[str]:
    """A note for every message that was sent and never received."""
    notes = []
    for channel, sent in ledger.sends.items():
        for number, row in sent.items():
            if ledger.received(channel, number) is False:
                notes.append(f"nobody received what {words.full(channel.source, row)} sent")
    return notes


def _swapped(ledger: Ledger, records: Sequence[Record]) -> list[str]:
    """A note for every pair of ranks that sends its tensors in one order and receives them in another."""
    named = [record.arguments for record in records]
    notes = []
    for channel, sent in ledger.sends.items():
        taken = ledger.receives.get(channel, {})
        gone = [named[channel.source][row.index] for _, row in sorted(sent.items())]
        come = [named[channel.to][row.index] for _, row in sorted(taken.items())]
        if compare.swapped(channel, gone, come):
            notes.append(_swap_note(channel, sent, taken, gone, come))
    return notes


def _swap_note(
    channel: Channel, sent: dict[int, Row], taken: dict[int, Row], gone: list[str], come: list[str]
) -> str:
    at = next(number for number, pair in enumerate(zip(gone, come, strict=True)) if pair[0] != pair[1])
    there, here = ", ".join(gone[:6]), ", ".join(come[:6])
    return (
        f"rank {channel.source} sends {there}; rank {channel.to} receives {here}: "
        f"message {at} carries {gone[at]} ({sent[at].line}) into {come[at]} ({taken[at].line}). "
        "Messages between two ranks arrive in the order in which they were sent; receive them in that order, "
        "or give each its own tag."
    )
