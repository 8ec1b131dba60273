"""How long a collective takes on the links that its group has; reached as `ml.seconds.collective`.

The group's cards meet on one level of the topology, or on several: then the outer one is the narrow one. On
a mesh each pair has its own link; on a switch a card's port is shared by all it sends at once; a trunk is
shared by all cards of a domain. Nothing else is on the links meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from mindlab.planning.topologies import Level, Topology, check_cards
from mindlab.predict.quantity import Quantity
from mindlab.predict.sources import COUNTED_BY_HAND, HCCL_MESH, THAKUR


@dataclass(frozen=True)
class _Links:
    """What a group of cards has between them."""

    machine: Topology
    cards: tuple[int, ...]

    @property
    def ranks(self) -> int:
        return len(self.cards)

    @cached_property
    def at(self) -> int:
        """The outermost level that the group needs."""
        return self.machine.meeting(self.cards)

    @property
    def level(self) -> Level:
        return self.machine.levels[self.at]

    @property
    def alpha(self) -> float:
        return self.machine.alpha(self.level)

    def beta(self, nbytes: float, at_once: int = 1) -> float:
        """Seconds a byte of one message, while a card sends to `at_once` others."""
        return self._beta(self.at, nbytes, at_once)

    def inner_beta(self, nbytes: float, at_once: int = 1) -> float:
        """The same between cards of one inner domain."""
        return self._beta(self.at - 1, nbytes, at_once)

    def _beta(self, at: int, nbytes: float, at_once: int) -> float:
        level = self.machine.levels[at]
        one = 1 / self.machine.rate(level, nbytes)
        if level.shape == "mesh":
            return one
        if level.shape == "switch":
            return one * at_once
        return max(one * at_once * self._inside, self._beta(at - 1, nbytes, at_once))

    @property
    def _inside(self) -> int:
        """Cards of the group in one inner domain: they share its trunk."""
        return max(map(len, self.domains))

    @cached_property
    def domains(self) -> list[list[int]]:
        """The group's cards by the domain just inside the level on which all meet, or each by itself."""
        if self.at == 0:
            return [[card] for card in self.cards]
        return [[self.cards[place] for place in places] for places in self.machine.domains(self.cards)]


def collective(
    op: str,
    nbytes: int,
    topology: Topology | str,
    *,
    cards: Sequence[int] | None = None,
    algorithm: str | None = None,
) -> Quantity:
    """Seconds of a collective of some cards of a topology, by an algorithm or by the quickest one.

    `nbytes` as in `volume`: the full tensor; of an all-to-all what one rank hands in; of "send" the message,
    from the first to the second card. `cards` are the group's, all by default. The name says which algorithm
    it is; `linked.ALGORITHMS` lists them for each op. Raises ValueError for an op, an algorithm or cards that
    are not known or do not fit; MindlabError for a number that the topology does not know.

    >>> ml.seconds.collective("all_reduce", 2**20, "atlas-a2").name
    'mesh_all_reduce'
    >>> ml.seconds.collective("all_reduce", 2**26, "atlas-a2", algorithm="ring")
    ring_all_reduce: 4.474 ms (0.00447429 s)
    """
    from mindlab.planning.topologies import topology as named

    machine = named(topology) if isinstance(topology, str) else topology
    group = tuple(range(machine.cards)) if cards is None else tuple(cards)
    check_cards(machine, len(group), group)
    if op not in ALGORITHMS:
        raise ValueError(f"op={op!r} is unknown: choose {', '.join(ALGORITHMS)}")
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
        raise ValueError(f"nbytes={nbytes!r}: give whole bytes, from 0 on")
    if op == "send" and len(group) != 2:
        raise ValueError(f"a send has two cards, {list(group)} are {len(group)}")
    forms = ALGORITHMS[op]
    if algorithm is not None and algorithm not in forms:
        raise ValueError(f"algorithm={algorithm!r} of {op}: choose {', '.join(forms)}")
    if len(group) == 1 or nbytes == 0:
        return _quantity(algorithm or next(iter(forms)), op, 0.0, len(group))
    return _quickest(op, nbytes, _Links(machine, group), algorithm)


def _quickest(op: str, nbytes: int, links: _Links, algorithm: str | None) -> Quantity:
    chosen = {algorithm: ALGORITHMS[op][algorithm]} if algorithm else ALGORITHMS[op]
    times = {name: form(float(nbytes), links) for name, form in chosen.items()}
    fitting = {name: time for name, time in times.items() if time is not None}
    if not fitting:
        raise ValueError(
            f"{algorithm} does not fit {links.ranks} cards on {links.machine.name}: {_WHY[str(algorithm)]}"
        )
    best = min(fitting, key=lambda name: fitting[name])
    return _quantity(best, op, fitting[best], links.ranks)


def _quantity(algorithm: str, op: str, value: float, ranks: int) -> Quantity:
    name = op if op == "send" else f"{algorithm}_{op}"
    source = {"mesh": HCCL_MESH, "hierarchical": COUNTED_BY_HAND}.get(algorithm, THAKUR)
    return Quantity(value, "s", _FORMULAS.get(algorithm, ""), source, name=name, ranks=ranks)


def _rounds(count: int, share: float) -> Callable[[float, _Links], float]:
    """`count` phases of p-1 messages of D/p, one after the other."""

    def seconds(nbytes: float, links: _Links) -> float:
        one = nbytes / links.ranks * share
        return count * (links.ranks - 1) * (links.alpha + one * links.beta(one))

    return seconds


def _doubling(count: int) -> Callable[[float, _Links], float | None]:
    """`count` phases of lg p rounds; none where p is no power of two. Partners of all sizes are far apart."""

    def seconds(nbytes: float, links: _Links) -> float | None:
        steps = links.ranks.bit_length() - 1
        if links.ranks != 2**steps:
            return None
        halves = [float(nbytes / 2**step) for step in range(1, steps + 1)]
        return count * sum(links.alpha + half * links.beta(half) for half in halves)

    return seconds


def _at_once(count: int) -> Callable[[float, _Links], float]:
    """`count` phases in which each card sends D/p to each other one at once."""

    def seconds(nbytes: float, links: _Links) -> float:
        one = nbytes / links.ranks
        outer = links.ranks - (len(links.domains[0]) if links.at else 1)
        spent = one * links.beta(one, outer)
        if links.at:
            inside = len(links.domains[0]) - 1
            spent = max(spent, one * links.inner_beta(one, inside) if inside else 0.0)
        return count * (links.alpha + spent)

    return seconds


def _hierarchical(op: str) -> Callable[[float, _Links], float | None]:
    """Inside each domain first, then between equal places of all domains; None where domains differ."""

    def seconds(nbytes: float, links: _Links) -> float | None:
        sizes = {len(domain) for domain in links.domains}
        if not links.at or len(sizes) != 1 or 1 in sizes:
            return None
        within = _Links(links.machine, tuple(links.domains[0]))
        across = _Links(links.machine, tuple(domain[0] for domain in links.domains))
        share = nbytes / within.ranks
        parts = {
            "all_reduce": [
                ("reduce_scatter", nbytes, within), ("all_reduce", share, across),
                ("all_gather", nbytes, within),
            ],
            "all_gather": [("all_gather", share, across), ("all_gather", nbytes, within)],
            "reduce_scatter": [("reduce_scatter", nbytes, within), ("reduce_scatter", share, across)],
            "all_to_all": [("all_to_all", nbytes, within), ("all_to_all", nbytes, across)],
        }  # fmt: skip
        return sum(
            float(_quickest(part, math.ceil(size), where, None).value) for part, size, where in parts[op]
        )

    return seconds


def _send(nbytes: float, links: _Links) -> float:
    return links.alpha + nbytes * links.beta(nbytes)


def _tree(nbytes: float, links: _Links) -> float:
    return math.ceil(math.log2(links.ranks)) * (links.alpha + nbytes * links.beta(nbytes))


def _chain(nbytes: float, links: _Links) -> float:
    return (links.ranks - 1) * (links.alpha + nbytes * links.beta(nbytes))


_Forms = dict[str, Callable[[float, _Links], "float | None"]]
ALGORITHMS: dict[str, _Forms] = {
    "all_reduce": {
        "ring": _rounds(2, 1),
        "mesh": _at_once(2),
        "halving_doubling": _doubling(2),
        "hierarchical": _hierarchical("all_reduce"),
    },
    "all_gather": {
        "ring": _rounds(1, 1),
        "mesh": _at_once(1),
        "halving_doubling": _doubling(1),
        "hierarchical": _hierarchical("all_gather"),
    },
    "reduce_scatter": {
        "ring": _rounds(1, 1),
        "mesh": _at_once(1),
        "halving_doubling": _doubling(1),
        "hierarchical": _hierarchical("reduce_scatter"),
    },
    "all_to_all": {
        "pairwise": _rounds(1, 1),
        "mesh": _at_once(1),
        "hierarchical": _hierarchical("all_to_all"),
    },
    "broadcast": {"tree": _tree, "ring": _chain, "mesh": _at_once(2)},
    "send": {"send": _send},
}
"""By op: the algorithms whose time is known, each with its closed form."""

_FORMULAS = {
    "ring": r"n(p-1)\left(\alpha + \frac{D}{p}\,\beta\right)",
    "pairwise": r"(p-1)\left(\alpha + \frac{D}{p}\,\beta\right)",
    "mesh": r"n\left(\alpha + \frac{D}{p}\,\beta_{\mathrm{shared}}\right)",
    "halving_doubling": r"n\left(\log_2 p\,\alpha + \frac{p-1}{p}\,D\,\beta\right)",
    "send": r"\alpha + D\,\beta",
    "tree": r"\lceil\log_2 p\rceil\,(\alpha + D\,\beta)",
}
_WHY = {
    "halving_doubling": "it needs a power of two",
    "hierarchical": "it needs a group on several domains, equally many cards on each",
}
