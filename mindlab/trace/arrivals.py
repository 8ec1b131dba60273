"""Which message a receive takes: told by counting only where receives cannot overtake each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindlab.trace.board import Slot
    from mindlab.trace.entry import Entry

UNNUMBERED = -1
"""The number of a receive of which nobody can say how-many-th message it took."""

_Place = tuple[str, int]


class Arrivals:
    """One rank's receives that are posted and not over, by communicator and tag.

    Receives from named ranks take messages in the order in which they were posted. One from any rank that
    stands beside another receive may take what that one would have: then none of them has a number. The
    count of messages from each rank is right again when all of them are over.
    """

    def __init__(self, counts: Counter[tuple[Any, ...]]) -> None:
        self._counts = counts
        self._open: defaultdict[_Place, dict[int, Entry]] = defaultdict(dict)
        self._from_any: Counter[_Place] = Counter()

    def post(self, entry: Entry, slot: Slot | None) -> None:
        """A receive that is about to be made; its number is already given."""
        place = (entry.communicator, entry.call.tag)
        beside = self._open[place]
        entry.from_any = entry.call.peer is None
        if beside and (entry.from_any or self._from_any[place]):
            for other in (*beside.values(), entry):
                if other.number != UNNUMBERED:
                    other.number = UNNUMBERED
                    if slot is not None and other.index >= 0:
                        slot.unnumber(other.index)
        beside[id(entry)] = entry
        self._from_any[place] += entry.from_any

    def over(self, entry: Entry) -> None:
        """The receive has returned. One whose sender is not known stays: from then on nothing is numbered."""
        place = (entry.communicator, entry.call.tag)
        if entry.call.peer is None or self._open[place].pop(id(entry), None) is None:
            return
        self._from_any[place] -= entry.from_any

    def failed(self, entry: Entry) -> None:
        """The receive raised: it took nothing."""
        place = (entry.communicator, entry.call.tag)
        if self._open[place].pop(id(entry), None) is not None:
            self._from_any[place] -= entry.from_any

    def learn(self, entry: Entry, peer: int) -> None:
        """A receive from any rank: now its sender is known, and (with a number) which of its messages."""
        entry.call.peer = peer
        entry.key = (entry.communicator, "r", peer, entry.call.tag)
        number = self._counts[entry.key]
        self._counts[entry.key] = number + 1
        if entry.number != UNNUMBERED:
            entry.number = number
