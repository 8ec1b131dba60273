"""Who waits for whom: ranks awaited in vain, and standstills. Pure."""

from __future__ import annotations

from mindlab.trace import words
from mindlab.trace.calls import CREATIONS, RECEIVES, SENDS
from mindlab.trace.ledger import Ledger, channel_of
from mindlab.trace.row import Row

_FROM_ROOT = frozenset({"broadcast", "scatter", "broadcast_object_list", "scatter_object_list"})
_TO_ROOT = frozenset({"gather", "gather_object", "reduce", "monitored_barrier"})


def dropped(ledger: Ledger) -> tuple[str, tuple[int, ...]] | None:
    """(message, ranks) of the first message that one end gave up unasked while the other one stands in it."""
    for channel, sent, taken in ledger.messages():
        if sent.dropped and taken.blocking:
            return _dropped_message(channel.source, sent, channel.to, taken)
        if taken.dropped and sent.blocking:
            return _dropped_message(channel.to, taken, channel.source, sent)
    return None


def awaited(ledger: Ledger, every: bool = False) -> tuple[str, tuple[int, ...]] | None:
    """(message, ranks) of the first call that waits for a rank which has returned without it.

    `every`: also calls that nobody stands in (an experiment that is over).
    """
    for rank, mine in enumerate(ledger.rows):
        for row in mine:
            missing = _missing_for_ever(ledger, rank, row) if row.blocking or every else ()
            if missing:
                return _awaited_message(rank, row, missing), tuple(sorted({rank, *missing}))
    return None


def stuck(ledger: Ledger) -> tuple[str, tuple[int, ...]] | None:
    """(message, ranks) if every living rank stands in a call that nothing on the board can end."""
    living = [rank for rank in range(len(ledger.states)) if ledger.running(rank)]
    if not living or not all(ledger.stands(rank) for rank in living):
        return None
    stands = {rank: ledger.blocked(rank) for rank in living}
    if any(_may_end(ledger, rank, row) for rank, rows in stands.items() for row in rows):
        return None
    lines = [f"    {_stand(ledger, rank, rows[-1])}" for rank, rows in stands.items()]
    done = [rank for rank in range(len(ledger.states)) if rank not in living]
    if done:
        lines.append(f"    {words.ranks(done)} {'has' if len(done) == 1 else 'have'} returned")
    advice = _advice([rows[-1] for rows in stands.values()])
    return "\n".join(["no rank can go on: each waits for another.", *lines, advice]), tuple(living)


def _dropped_message(rank: int, row: Row, other: int, its: Row) -> tuple[str, tuple[int, ...]]:
    done = "sends" if row.op in SENDS else "receives"
    return (
        f"{words.full(rank, row)} was never waited for:\n"
        f"    what {row.op} returned is gone, and then the backend never {done} it.\n"
        f"    {words.full(other, its)} stands there.\n"
        f"Keep what {row.op} returns, and call its wait()."
    ), tuple(sorted((rank, other)))


def missing(ledger: Ledger, rank: int, row: Row) -> tuple[int, ...]:
    """The ranks that have surely not made their side of this call yet."""
    if row.op in SENDS or row.op in RECEIVES:
        return _partners(row, rank) if _posted(ledger, rank, row) is False else ()
    return tuple(m for m in row.group if ledger.met(m, row.communicator, row.number) is False)


def _missing_for_ever(ledger: Ledger, rank: int, row: Row) -> tuple[int, ...]:
    """The ranks that have returned and never made their side of this call."""
    if not row.blocking and (row.op in SENDS or row.op in RECEIVES):
        return ()
    absent = missing(ledger, rank, row)
    if row.op in RECEIVES and row.peer is None:  # one that still runs may send
        return absent if all(ledger.returned(member) for member in absent) else ()
    return tuple(member for member in absent if ledger.returned(member))


def _may_end(ledger: Ledger, rank: int, row: Row) -> bool:
    """False only if this call surely cannot end with what is on the board."""
    absent = missing(ledger, rank, row)
    if not absent:
        return True
    others = [member for member in row.group if member != rank]
    root = row.root if row.root is not None else row.group[0]
    if row.op in _FROM_ROOT:  # a tree: a child needs its root, a root needs children, not all at once
        return any(member not in absent for member in others) if rank == root else root not in absent
    if row.op in _TO_ROOT:
        return rank != root and any(member not in absent for member in others)
    return False


def _posted(ledger: Ledger, rank: int, row: Row) -> bool | None:
    """Whether the other side of a send or receive is there; None if it may be."""
    if row.peer is None:
        if ledger.waiting_for_any(row.communicator, rank, row.tag):
            return True
        return None if any(ledger.cut[member] for member in row.group) else False
    channel = channel_of(rank, row)
    return ledger.received(channel, row.number) if row.op in SENDS else ledger.sent(channel, row.number)


def _partners(row: Row, rank: int) -> tuple[int, ...]:
    return (row.peer,) if row.peer is not None else tuple(m for m in row.group if m != rank)


def _stand(ledger: Ledger, rank: int, row: Row) -> str:
    absent = missing(ledger, rank, row)
    what = {True: "to receive", False: "to send"}.get(row.op in SENDS, "") if _is_pair(row) else "to join"
    verb = "wait() of " if row.asynchronous else ""
    return (
        f"rank {rank} waits in {verb}{words.call(row)} (its call {row.index}; {row.line}) "
        f"for {words.ranks(absent)} {what}"
    )


def _is_pair(row: Row) -> bool:
    return row.op in SENDS or row.op in RECEIVES


def _advice(rows: list[Row]) -> str:
    if all(row.op in SENDS for row in rows):
        return (
            "All send first. Let one receive first, or use isend (or batch_isend_irecv) and wait afterwards."
        )
    if all(row.op in RECEIVES for row in rows):
        return (
            "All receive first. Let one send first, or use irecv (or batch_isend_irecv) and wait afterwards."
        )
    if all(not _is_pair(row) for row in rows):
        return "Every rank of a group must make the same calls in the same order."
    return (
        "Compare the order of the calls: what one rank waits for must come before the other one's own wait."
    )


def _awaited_message(rank: int, row: Row, missing: tuple[int, ...]) -> str:
    verb = "has" if len(missing) == 1 else "have"
    who = words.ranks(missing)
    if row.op in SENDS:
        rule = f"{who} {verb} returned and never received it."
        advice = "Add the receive, or leave out the send."
    elif row.op in RECEIVES:
        rule = f"{who} {verb} returned and never sent it."
        advice = "Add the send, or leave out the receive."
    else:
        rule = f"{who} {verb} returned and never called it."
        every = "Every rank" if row.op in CREATIONS else "Every rank of the group"
        advice = f"{every} must make this call: is it inside an if, or in a loop that is shorter there?"
    return f"{words.full(rank, row)} is waiting in vain:\n    {rule}\n{advice}"
