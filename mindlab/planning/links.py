"""A group of cards and the links between them: what a byte costs when several messages share a link.

The cards of a group meet on one level of the topology, or on several: then the outer one is the narrow one.
On a mesh each pair has its own link; on a switch a card's port is shared by all it sends at once; a trunk is
shared by all messages that leave a domain, and each of them needs its card's inner port as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mindlab.planning.topologies import Level, Topology

Pairs = Iterable[tuple[int, int]]
"""Messages of one round: (source, target), as places in the group."""


@dataclass(frozen=True)
class Links:
    """What a group of cards has between them."""

    machine: Topology
    cards: tuple[int, ...]
    beside: int = 1
    """So many groups of the same shape send at once and share their trunks."""

    @property
    def ranks(self) -> int:
        """How many cards the group has."""
        return len(self.cards)

    @cached_property
    def at(self) -> int:
        """The outermost level that the group needs."""
        return self.machine.meeting(self.cards)

    @property
    def level(self) -> Level:
        """That level itself."""
        return self.machine.levels[self.at]

    @property
    def alpha(self) -> float:
        """Seconds a message between its domains."""
        return self.machine.alpha(self.level)

    @cached_property
    def domains(self) -> list[tuple[int, ...]]:
        """The group's cards by the domain just inside the level on which all meet, or each by itself."""
        if self.at == 0:
            return [(card,) for card in self.cards]
        return [tuple(self.cards[place] for place in places) for places in self.machine.domains(self.cards)]

    @cached_property
    def inner(self) -> list[Links]:
        """The domains that have several cards of the group."""
        return [Links(self.machine, domain) for domain in self.domains if len(domain) > 1]

    def beta(self, nbytes: float, *, port: int = 1, trunk: int = 1) -> float:
        """Seconds a byte of a message on the outermost level.

        Meanwhile a card sends `port` messages of that size, and `trunk` of them leave or enter one domain.
        """
        one = 1 / self.machine.rate(self.level, nbytes)
        if self.level.shape == "mesh":
            return one
        if self.level.shape == "switch":
            return one * port
        out_of_card = 1 / self.machine.rate(self.machine.levels[self.at - 1], nbytes)
        return max(one * trunk * self.beside, out_of_card * port)

    def crossing(self, pairs: Pairs) -> int:
        """The most of these messages that leave, or enter, one domain; 1 where no trunk is shared."""
        if self.level.shape != "trunk":
            return 1
        size = self.machine.levels[self.at - 1].size
        home = [card // size for card in self.cards]
        ends = [(home[source], home[target]) for source, target in pairs if home[source] != home[target]]
        ways = [Counter(source for source, _ in ends), Counter(target for _, target in ends)]
        return max((count for way in ways for count in way.values()), default=0)

    def round(self, nbytes: float, pairs: Pairs) -> float:
        """Seconds of a round in which each card sends one message at most, all of `nbytes`."""
        return self.alpha + nbytes * self.beta(nbytes, trunk=self.crossing(pairs))

    def all_at_once(self, nbytes: float) -> float:
        """Seconds, alpha not counted, in which each card sends `nbytes` to each other one, all at once."""
        sizes = [len(domain) for domain in self.domains]
        trunk = max(size * (self.ranks - size) for size in sizes)
        outside = self.ranks - min(sizes)  # a card of the smallest domain has the most cards outside
        port = self.ranks - 1 if self.level.shape == "trunk" else outside
        across = nbytes * self.beta(nbytes, port=port, trunk=trunk)
        return max([across, *(domain.all_at_once(nbytes) for domain in self.inner)])


def shifted(ranks: int, by: int) -> Pairs:
    """Each rank sends to the one `by` places on.

    >>> list(shifted(3, 1))
    [(0, 1), (1, 2), (2, 0)]
    """
    return ((rank, (rank + by) % ranks) for rank in range(ranks))
