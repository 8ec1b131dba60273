"""Machines on paper: cards, the links between them, and where each number comes from.

A topology is a nest of levels, the innermost first: a level joins the cards of a domain (a host, a
supernode). Two cards talk over the innermost level that both are in. Shapes of a level:

- mesh: each pair of cards has a link of its own;
- switch: each card has a port of its own, and the switch itself is never the bottleneck;
- trunk: all cards of a domain inside share one link out of it, reached by their inner ports.

All links are full duplex: the bandwidth holds in each direction.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mindlab.errors import MindlabError, UnknownName
from mindlab.planning.facts import Card as Card
from mindlab.planning.facts import Fact as Fact
from mindlab.planning.facts import Level as Level

SHAPES = ("mesh", "switch", "trunk")
_DATA = Path(__file__).parent / "data"


_UNITS = {"bandwidth": "B/s", "alpha": "s", "rate": "FLOP/s", "memory_rate": "B/s", "memory": "B"}

Link = tuple[Any, ...]
"""(level, kind, …): kind "pair" with two cards, "out" and "in" with a card, or with a domain inside."""


@dataclass(frozen=True)
class Topology:
    """Cards and links. `.levels` go from the innermost outwards; cards are numbered domain by domain."""

    name: str
    titles: tuple[str, str]
    """In English and Chinese."""
    cards: int
    card: Card
    levels: tuple[Level, ...]

    @property
    def title(self) -> str:
        """The English title."""
        return self.titles[0]

    def path(self, source: int, target: int) -> tuple[tuple[Link, ...], Level]:
        """The links from one card to another, in order, and the level that they meet on.

        Raises ValueError for a card that is none, or for twice the same.
        """
        for card in (source, target):
            if not 0 <= card < self.cards:
                raise ValueError(f"card {card} of {self.name}: choose 0 to {self.cards - 1}")
        if source == target:
            raise ValueError(f"a path from card {source} to itself: no link is needed")
        at = next(i for i, level in enumerate(self.levels) if source // level.size == target // level.size)
        level = self.levels[at]
        if level.shape == "mesh":
            return ((at, "pair", source, target),), level
        if level.shape == "switch":
            return ((at, "out", source), (at, "in", target)), level
        inner = self.levels[at - 1].size
        trunk = (at, "out", source // inner), (at, "in", target // inner)
        return ((at - 1, "out", source), *trunk, (at - 1, "in", target)), level

    def domains(self, cards: Sequence[int]) -> list[list[int]]:
        """Places in `cards`, by the domain just inside the level that all meet on; one list if innermost.

        >>> ml.topology("two-atlas-a2").domains([0, 8, 1, 9])
        [[0, 2], [1, 3]]
        """
        at = self.meeting(cards)
        found: dict[int, list[int]] = {}
        for place, card in enumerate(cards):
            found.setdefault(card // self.levels[at - 1].size if at else 0, []).append(place)
        return list(found.values())

    def meeting(self, cards: Sequence[int]) -> int:
        """The number of the innermost level that all these cards are in one domain of."""
        first, last = min(cards), max(cards)
        return next(i for i, level in enumerate(self.levels) if first // level.size == last // level.size)

    def rate(self, level: Level, nbytes: float) -> float:
        """Bytes a second of a link of a level, for messages of that size. MindlabError where unknown."""
        return level.at(nbytes) or _known(self, level, "bandwidth")

    def bandwidth(self, link: Link) -> float:
        """Bytes a second of a link. Raises MindlabError where that is unknown."""
        return _known(self, self.levels[link[0]], "bandwidth")

    def alpha(self, level: Level) -> float:
        """Seconds a message on a level. Raises MindlabError where that is unknown."""
        return _known(self, level, "alpha")

    def named(self, link: Link) -> str:
        """A link in words: "HCCS 0 → 1", "RoCE port of card 3, out"."""
        level, kind, *ends = link
        name = self.levels[level].name
        if kind == "pair":
            return f"{name} {ends[0]} → {ends[1]}"
        whose = f"card {ends[0]}"
        if self.levels[level].shape == "trunk":
            whose = f"{self.levels[level - 1].domain} {ends[0]}"
        return f"{name} of {whose}, {kind}"

    def assume(
        self,
        level: str | None = None,
        *,
        bandwidth: float | None = None,
        alpha: float | None = None,
        rate: float | None = None,
        memory_rate: float | None = None,
        memory: float | None = None,
        why: str = "assumed by the caller",
    ) -> Topology:
        """This topology with other numbers, marked as assumed: of one level, or of all where None is named.

        `rate` is FLOP/s of a card, `memory_rate` B/s and `memory` bytes of its memory. With `bandwidth` no
        table by size is left. Raises ValueError for an unknown level or for what is no such number.

        >>> ml.topology("atlas-a2").assume(alpha=5e-6).levels[0].alpha.value
        5e-06
        """
        names = [one.name for one in self.levels]
        if level is not None and level not in names:
            raise ValueError(f"{self.name} has no level {level!r}; it has {', '.join(names)}")
        of_card = {"rate": rate, "memory_rate": memory_rate, "memory": memory}
        given = {"bandwidth": bandwidth, "alpha": alpha, **of_card}
        for name, value in given.items():
            if value is not None and not (0 < value < float("inf") or (name == "alpha" and value == 0)):
                raise ValueError(f"{name}={value!r}: give a number above 0")
        facts: dict[str, Any] = {
            name: Fact(value, _UNITS[name], why, assumed=True)
            for name, value in given.items()
            if value is not None
        }
        card = replace(self.card, **{name: facts.pop(name) for name in of_card if name in facts})
        if "bandwidth" in facts:
            facts |= {"by_size": (), "sizes_source": "", "sizes_date": ""}
        levels = tuple(replace(one, **facts) if level in (None, one.name) else one for one in self.levels)
        return replace(self, card=card, levels=levels)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The numbers that no source vouches for, in words."""
        listed: list[tuple[str, Fact]] = [
            ("the rate of a card", self.card.rate),
            ("the rate of its memory", self.card.memory_rate),
            ("its memory", self.card.memory),
        ]
        for level in self.levels:
            listed.append((f"the bandwidth of {level.name}", level.bandwidth))
            listed.append((f"alpha of {level.name}", level.alpha))
        return tuple(f"{name} is {fact}" for name, fact in listed if fact.assumed)

    def rows(self) -> list[tuple[str, str]]:
        """What is known of it, line by line, with sources."""
        rows = [(self.name, f"{self.title}; {self.cards} cards")]
        for level in self.levels:
            many = self.cards // level.size
            rows += [
                (level.name, f"{level.shape} of {level.size} cards, {many} x {level.domain}"),
                ("bandwidth", level.speed),
                ("alpha", str(level.alpha)),
            ]
        facts = {"peak": self.card.peak, "rate": self.card.rate, "memory": self.card.memory}
        facts["memory rate"] = self.card.memory_rate
        return [*rows, ("card", self.card.name), *((name, str(fact)) for name, fact in facts.items())]

    def __repr__(self) -> str:
        return "\n".join(f"{head}: {text}" for head, text in self.rows())

    def _repr_html_(self) -> str:
        style = 'style="text-align:left"'
        rows = (
            f"<tr><th {style}>{html.escape(head)}</th><td {style}>{html.escape(text)}</td></tr>"
            for head, text in self.rows()
        )
        return f"<table>{''.join(rows)}</table>"


def topology(name: str | os.PathLike[str]) -> Topology:
    """The Topology of that name, or in that YAML file: cards, links, and the source of every number.

    `topologies.names()` lists the shipped ones. A file is a path that ends in .yaml or .yml; how it looks
    stands in `mindlab.planning.topology_file`. Raises UnknownName; MindlabError with line and field for a
    file that is not right.

        >>> eight = ml.topology("atlas-a2")
        >>> eight.cards, eight.levels[0].name, eight.levels[0].bandwidth.value
        (8, 'HCCS', 28000000000.0)
    """
    from mindlab.planning import topology_file  # which needs the classes above

    given = os.fspath(name)
    if given.endswith((".yaml", ".yml")):
        return topology_file.read(Path(given))
    if given not in names():
        raise UnknownName("topology", given, [*names(), "or a path to a .yaml file"])
    return topology_file.read(_DATA / f"{given}.yaml")


def names() -> list[str]:
    """The names of the shipped topologies."""
    return sorted(path.stem for path in _DATA.glob("*.yaml"))


def uniform(
    cards: int, *, alpha: float, bandwidth: float, shape: str = "mesh", rate: float | None = None
) -> Topology:
    """A topology of one level in which all links are alike: the one that the closed forms stand for.

    Raises ValueError for a number or a shape that cannot be.

    >>> uniform(4, alpha=1e-6, bandwidth=1e9).path(0, 3)[0]
    ((0, 'pair', 0, 3),)
    """
    if shape not in ("mesh", "switch"):
        raise ValueError(f"shape={shape!r}: choose mesh or switch")
    if cards < 1:
        raise ValueError(f"cards={cards!r}: give a whole number from 1 on")
    unknown = Fact(None, "")
    level = Level("link", "machine", shape, cards, replace(unknown, unit="B/s"), replace(unknown, unit="s"))
    card = Card("card", *(replace(unknown, unit=unit) for unit in ("FLOP/s", "FLOP/s", "B", "B/s")))
    title = (f"{cards} cards, all links alike", f"{cards} 张卡,链路全部相同")
    made = Topology("uniform", title, cards, card, (level,))
    return made.assume(alpha=alpha, bandwidth=bandwidth, rate=rate, why="given by the caller")


def _known(topology: Topology, level: Level, what: str) -> float:
    fact: Fact = getattr(level, what)
    if fact.value is None:
        raise MindlabError(
            f"the {what} of {level.name} in {topology.name} is unknown ({fact.source}): give one with "
            f".assume({level.name!r}, {what}=…)"
        )
    return fact.value


def check_cards(topology: Topology, ranks: int, cards: Iterable[int] | None) -> tuple[int, ...]:
    """The card of each rank. Raises ValueError where ranks and cards do not fit together."""
    chosen = tuple(range(ranks)) if cards is None else tuple(cards)
    if len(chosen) != ranks:
        raise ValueError(f"cards={list(chosen)} names {len(chosen)} cards for {ranks} ranks: name one a rank")
    if cards is None and ranks > topology.cards:
        raise ValueError(f"{ranks} ranks do not fit on {topology.name}, which has {topology.cards} cards")
    wrong = [card for card in chosen if type(card) is not int or not 0 <= card < topology.cards]
    if wrong:
        known = f"{topology.name} has the cards 0 to {topology.cards - 1}"
        raise ValueError(f"cards={list(chosen)}: no card {wrong[0]!r}; {known}")
    if len(set(chosen)) != ranks:
        raise ValueError(f"cards={list(chosen)}: two ranks on one card; name {ranks} different ones")
    return chosen
