"""All ranks' rows laid side by side: which calls belong together, and which one will never come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mindlab.trace.calls import RECEIVES, SENDS
from mindlab.trace.row import Row, State


class Channel(NamedTuple):
    """One direction between two ranks on one communicator with one tag: messages keep their order in it."""

    communicator: str
    source: int
    to: int
    tag: int


class Ledger:
    """The rows of the newest job, by meeting (collective) and by channel (point to point)."""

    def __init__(self, rows: Sequence[Sequence[Row]], states: Sequence[State]) -> None:
        self.job = max((state.job for state in states), default=0)
        self.states = list(states)
        self.rows = [
            [row for row in mine if not row.failed] if state.job == self.job else []
            for mine, state in zip(rows, states, strict=True)
        ]
        self.cut = [bool(mine) and mine[0].index > 0 for mine in rows]
        """The rank's first rows are not on the board any more."""
        self.last = [mine[-1].index if mine else -1 for mine in rows]
        self.meetings: dict[tuple[str, int], dict[int, Row]] = defaultdict(dict)
        self.sends: dict[Channel, dict[int, Row]] = defaultdict(dict)
        self.receives: dict[Channel, dict[int, Row]] = defaultdict(dict)
        self.from_any: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
        """(communicator, receiver, tag) -> receives of which nobody knows which message they take."""
        for rank, mine in enumerate(self.rows):
            for row in mine:
                self._enter(rank, row)

    def _enter(self, rank: int, row: Row) -> None:
        if row.op in SENDS and row.peer is not None:
            self.sends[Channel(row.communicator, rank, row.peer, row.tag)][row.number] = row
        elif row.op in RECEIVES and row.peer is not None and row.number >= 0:
            self.receives[Channel(row.communicator, row.peer, rank, row.tag)][row.number] = row
        elif row.op in RECEIVES:
            self.from_any[row.communicator, rank, row.tag].append(row)
        else:
            self.meetings[row.communicator, row.number][rank] = row

    def messages(self) -> Iterator[tuple[Channel, Row, Row]]:
        """Each send with the receive that takes it."""
        for channel, sent in self.sends.items():
            taken = self.receives.get(channel, {})
            for number in sent.keys() & taken.keys():
                yield channel, sent[number], taken[number]

    def running(self, rank: int) -> bool:
        """The rank takes part and has not ended; one that has not begun yet counts, too."""
        state = self.states[rank]
        return state.job != self.job or state.phase in ("running", "idle", "ready")

    def blocked(self, rank: int) -> list[Row]:
        """The calls that the rank stands inside (more than one only with threads)."""
        return [row for row in self.rows[rank] if row.blocking]

    def stands(self, rank: int) -> bool:
        """Every thread of the rank stands inside a call: one that runs may still make the missing one."""
        rows = self.blocked(rank)
        return bool(rows) and len(rows) > max(row.threads for row in rows)

    def returned(self, rank: int) -> bool:
        """The rank's function is over."""
        return self.states[rank].job == self.job and self.states[rank].phase == "done"

    def met(self, rank: int, communicator: str, number: int) -> bool | None:
        """Whether the rank has made this collective call; None if it may have, out of sight."""
        if rank in self.meetings.get((communicator, number), {}):
            return True
        known = [row.number for row in self.rows[rank] if row.communicator == communicator and _meets(row)]
        return self._seen(rank, known, number)

    def sent(self, channel: Channel, number: int) -> bool | None:
        """Whether this message was sent; None if it may have been, out of sight."""
        if number < 0:
            return None
        known = self.sends.get(channel, {})
        return True if number in known else self._seen(channel.source, list(known), number)

    def received(self, channel: Channel, number: int) -> bool | None:
        """Whether a receive for this message was posted; None if it may have been."""
        known = self.receives.get(channel, {})
        if number in known:
            return True
        if self.from_any.get((channel.communicator, channel.to, channel.tag)):
            return None
        return self._seen(channel.to, list(known), number)

    def _seen(self, rank: int, known: list[int], number: int) -> bool | None:
        """False if `number` is surely not among the rank's calls, given those that are in sight."""
        if not 0 <= rank < len(self.states):
            return None  # there is no such rank: the backend says so where the call stands
        state = self.states[rank]
        if state.job == self.job and state.phase == "done" and self.last[rank] < state.last_index:
            return None  # the rows were read before the rank ended
        if self.cut[rank] and (not known or max(known) >= number):
            return None
        return False

    def waiting_for_any(self, communicator: str, rank: int, tag: int) -> list[tuple[Channel, Row]]:
        """Messages on their way to this rank and tag that no receive has taken yet."""
        found = []
        for channel, sent in self.sends.items():
            if (channel.communicator, channel.to, channel.tag) == (communicator, rank, tag):
                taken = self.receives.get(channel, {})
                found += [(channel, row) for number, row in sent.items() if number not in taken]
        return found


def channel_of(rank: int, row: Row) -> Channel:
    """The channel of a point-to-point row whose peer is known."""
    assert row.peer is not None, f"{row.op} without a peer"
    source, to = (rank, row.peer) if row.op in SENDS else (row.peer, rank)
    return Channel(row.communicator, source, to, row.tag)


def _meets(row: Row) -> bool:
    return row.op not in SENDS and row.op not in RECEIVES
