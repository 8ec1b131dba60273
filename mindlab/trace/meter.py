"""From the socket counts of all ranks to the bytes between them, payload and framing apart. Pure.

A socket of one rank belongs to the socket of another whose two addresses are the same in the other order; a
socket without such a partner (a store, a web page) is left out. What went from one to the other is what the
receiver's kernel got, less what the sender had sent before the experiment; both ends are only trusted once
they agree (`settled`), so nothing waits for delayed acknowledgements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mindlab.trace import explained, frames
from mindlab.trace.measured import Measured
from mindlab.trace.record import Record
from mindlab.trace.sockets import SocketCount
from mindlab.trace.wire import Wire

Counts = Sequence[Sequence[SocketCount]]
Pair = tuple[int, int]

_SOURCE = "TCP_INFO of gloo's sockets"
_MANY = 6  # notes of one kind


class Edge(NamedTuple):
    """One direction of one connection between two ranks."""

    source: int
    to: int
    sent: SocketCount
    received: SocketCount


def edges(counts: Counts) -> list[Edge]:
    """Every direction of every connection between two ranks; `counts` is by rank."""
    ends = {(count.local, count.remote): (rank, count) for rank, mine in enumerate(counts) for count in mine}
    found = []
    for (local, remote), (rank, count) in ends.items():
        other = ends.get((remote, local))
        if other is not None and other[0] != rank:
            found.append(Edge(rank, other[0], count, other[1]))
    return found


def settled(before: Counts, after: Counts) -> bool:
    """True once every byte that a rank sent has reached its peer: then `after` can be counted."""
    start = {count.inode: count for mine in before for count in mine}
    return all(_agree(edge, start) for edge in edges(after))


def wire_between(before: Counts, after: Counts, records: Sequence[Record]) -> tuple[Wire | None, str]:
    """(wire, "") or (None, why): the bytes between each two ranks from `before` to `after`.

    `before` and `after` are by rank, from `read_counters`; `records` say which calls were made, from
    which the number of messages follows. Where that cannot be told, only the total is given, and the note
    says for which ranks and calls.
    """
    if len(records) > 1 and not edges(after):
        return None, _unseen(after)
    total, greetings = _totals(before, after, len(records))
    messages, unknown = frames.of_experiment([record.rows for record in records])
    notes = _closed(before, after)
    framing, doubts = _framing(total, greetings, messages, unknown)
    notes += doubts
    if framing is not None:
        strange = _unexplained(total - framing, explained.by_pair(records))
        notes, framing = notes + strange, (None if strange else framing)
    note = "; ".join(notes)
    if framing is None:
        return Wire(_measured(total, note), None, None, _SOURCE, note), ""
    return Wire(_measured(total), _measured(framing), _measured(total - framing), _SOURCE, note), ""


def _unseen(after: Counts) -> str:
    if not any(after):
        return "this host's kernel gives no socket counters (TCP_INFO), or the ranks use no TCP"
    return "no TCP connection between two ranks was found: they run on other hosts or talk another way"


def _agree(edge: Edge, start: Mapping[int, SocketCount]) -> bool:
    if edge.sent.sent == edge.received.received:
        return True
    sent, received = start.get(edge.sent.inode), start.get(edge.received.inode)
    if sent is None or received is None:
        return False
    return edge.sent.sent - sent.sent == edge.received.received - received.received


def _totals(before: Counts, after: Counts, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, bytes that only opened connections) by (from, to)."""
    start = {count.inode: count for mine in before for count in mine}
    total = np.zeros((ranks, ranks), dtype=np.int64)
    greetings = np.zeros((ranks, ranks), dtype=np.int64)
    for edge in edges(after):
        known = start.get(edge.sent.inode)
        total[edge.source, edge.to] += edge.received.received - (known.sent if known else 0)
        if known is None and not edge.sent.accepted:
            greetings[edge.source, edge.to] += frames.GREETING
    return total, greetings


def _closed(before: Counts, after: Counts) -> list[str]:
    """A note if connections between ranks were closed meanwhile: what they carried is lost."""
    left = {count.inode for mine in after for count in mine}
    gone = [edge for edge in edges(before) if edge.sent.inode not in left or edge.received.inode not in left]
    if not gone:
        return []
    return [
        f"{len(gone) // 2} connections were closed during the experiment; what they carried is not counted"
    ]


def _framing(
    total: np.ndarray, greetings: np.ndarray, messages: frames.Messages, unknown: Mapping[Pair, set[str]]
) -> tuple[np.ndarray | None, list[str]]:
    """(framing by pair, notes); framing is None if the messages of a pair cannot be told."""
    ranks = len(total)
    framing = greetings.copy()
    notes: list[str] = []
    for a in range(ranks):
        for b in range(a + 1, ranks):
            ops = unknown.get((a, b), set()) | unknown.get((b, a), set())
            if ops:
                notes.append(f"ranks {a} and {b}: the messages of {', '.join(sorted(ops))} are not known")
                continue
            rest = (int(total[a, b] - greetings[a, b]), int(total[b, a] - greetings[b, a]))
            counts, doubt = _counts(rest, messages[a, b], messages[b, a])
            if doubt or counts is None:
                notes.append(f"ranks {a} and {b}: {doubt}")
                continue
            framing[a, b] += frames.HEADER * counts[0] + frames.ANSWER * counts[1]
            framing[b, a] += frames.HEADER * counts[1] + frames.ANSWER * counts[0]
    return (None if notes else framing), notes


def _counts(rest: Pair, there: int, back: int) -> tuple[Pair | None, str]:
    """How many messages went each way over one pair, and why not, if that cannot be told.

    `rest` are the bytes each way. Where messages went one way only, the other way carries nothing but
    answers of 48 bytes: they are counted, and no table is needed.
    """
    if not there and not back:
        return ((0, 0), "") if rest == (0, 0) else (None, f"{sum(rest)} bytes that no recorded call explains")
    if there and back:
        low = (frames.HEADER * there + frames.ANSWER * back, frames.HEADER * back + frames.ANSWER * there)
        if rest[0] < low[0] or rest[1] < low[1]:
            return None, "fewer bytes than the messages of the recorded calls need"
        return (there, back), ""
    answers = rest[1] if there else rest[0]
    if answers % frames.ANSWER:
        return None, "bytes against the direction of all recorded messages"
    count = answers // frames.ANSWER
    if count < there + back:
        return None, f"{there + back - count} messages were announced and not received"
    return ((count, 0) if there else (0, count)), ""


def _unexplained(payload: np.ndarray, calls: explained.Bytes) -> list[str]:
    """A note for every pair whose payload is not what the recorded calls moved; of many, the first few."""
    found = [
        f"ranks {a} and {b}: the wire carried {payload[a, b]} bytes from {a} to {b}, the recorded calls "
        f"explain {calls[a, b]}"
        for a, b in np.ndindex(payload.shape)
        if a != b and payload[a, b] != calls[a, b]
    ]
    return found if len(found) <= _MANY else [*found[:_MANY], f"so between {len(found) - _MANY} more"]


def _measured(matrix: np.ndarray, note: str = "") -> Measured:
    return Measured(matrix, unit="B", provenance="wire", source=_SOURCE, note=note)
