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
        """(communicator, receiver, tag) -> receives whose sender is not known yet."""
        for rank, mine in enumerate(self.rows):
            for row in mine:
                self._enter(rank, row)

    def _enter(self, rank: int, row: Row) -> None:
        if row.op in SENDS and row.peer is not None:
            self.sends[Channel(row.communicator, rank, row.peer, row.tag)][row.number] = row
        elif row.op in RECEIVES and row.peer is not None:
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

    def returned(self, rank: int) -> bool:
        """The rank's function is over, and everything it called is in sight."""
        if not 0 <= rank < len(self.states):
            return False
        state = self.states[rank]
        return state.job == self.job and state.phase == "done" and self.last[rank] >= state.last_index

    def never_met(self, rank: int, communicator: str, number: int) -> bool:
        """True if the rank has returned and surely never made this collective call."""
        if not self.returned(rank) or rank in self.meetings[communicator, number]:
            return False
        if not self.cut[rank]:
            return True
        known = [row.number for row in self.rows[rank] if row.communicator == communicator and _meets(row)]
        return bool(known) and max(known) < number

    def never_sent(self, channel: Channel, number: int) -> bool:
        """True if the channel's sender has returned and surely never sent this message."""
        return self.returned(channel.source) and self._beyond(
            channel.source, self.sends.get(channel, {}), number
        )

    def never_received(self, channel: Channel, number: int) -> bool:
        """True if the channel's receiver has returned and surely never received this message."""
        if self.from_any.get((channel.communicator, channel.to, channel.tag)):
            return False
        return self.returned(channel.to) and self._beyond(channel.to, self.receives.get(channel, {}), number)

    def _beyond(self, rank: int, known: dict[int, Row], number: int) -> bool:
        if number in known:
            return False
        return not self.cut[rank] or (bool(known) and max(known) < number)

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
