"""How long a collective takes on the links that its group has; reached as `ml.seconds.collective`.

Each algorithm is rounds of equal messages; what a byte costs in a round is said by `links`. Nothing else is
on the links meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mindlab.planning.links import Links, shifted
from mindlab.planning.topologies import Topology, check_cards
from mindlab.planning.topologies import topology as named
from mindlab.predict.quantity import Quantity
from mindlab.predict.sources import COUNTED_BY_HAND, HCCL_MESH, HCCL_NHR, HCCL_RING, THAKUR
from mindlab.predict.trees import ceil_log2, floor_log2

Seconds = Callable[[float, Links], "float | None"]


@dataclass(frozen=True)
class Form:
    """An algorithm of a collective: its time, or None where it does not fit the group, and its formula."""

    seconds: Seconds
    formula: str
    source: str = THAKUR
    needs: str = ""
    """What the group must be."""


def collective(
    op: str,
    nbytes: int,
    topology: Topology | str,
    *,
    cards: Sequence[int] | None = None,
    algorithm: str | None = None,
) -> Quantity:
    r"""Seconds of a collective of some cards of a topology, by an algorithm or by the quickest one.

    `nbytes` as in `volume`: the full tensor; of an all-to-all what one rank hands in; of "send" the message,
    from the first to the second card. `cards` are the group's, all by default, in the order of its ranks. The
    name says which algorithm it is; `linked.ALGORITHMS` lists them for each op. In the formulas \beta is a
    byte's time on the links as the messages of a round share them.

    On several levels every round counts as one between domains. Where some stay inside, that is an upper
    bound: in a broadcast, in "halving_doubling", in "nhr" and "pairwise" if cards do not go domain by domain.

    "hierarchical" is T_in inside each domain of d cards, and T_out between equal places of the domains, each
    by its quickest algorithm. An all-gather goes between domains first, a reduce-scatter inside first: so the
    narrow links carry each byte once for a whole domain. HCCL's guide (hicann/hccl 09300b7, coll_algo_intro)
    gives A2 the other order for both: then each card takes in all that is outside by itself, d times as much.

    Raises ValueError for an op, an algorithm or cards that are not known or do not fit; MindlabError for a
    number that the topology does not know.

    >>> ml.seconds.collective("all_reduce", 2**20, "atlas-a2").name
    'mesh_all_reduce'
    >>> ml.seconds.collective("all_reduce", 2**26, "atlas-a2", algorithm="ring")
    ring_all_reduce: 4.474 ms (0.00447429 s)
    """
    machine = named(topology) if isinstance(topology, str) else topology
    if cards is not None and not isinstance(cards, Sequence):
        raise ValueError(f"cards={cards!r}: name the group's cards, such as range({machine.cards})")
    group = check_cards(machine, machine.cards if cards is None else len(cards), cards)
    names = _names(op, nbytes, group, algorithm)
    if len(group) == 1 or nbytes == 0:
        return _quantity(op, len(group), names[0], 0.0)
    return _quantity(op, len(group), *_quickest(op, nbytes, Links(machine, group), names))


def _names(op: str, nbytes: int, group: tuple[int, ...], algorithm: str | None) -> list[str]:
    """The algorithms to choose from, after a look at what was asked for."""
    if op not in ALGORITHMS:
        raise ValueError(f"op={op!r} is unknown: choose {', '.join(ALGORITHMS)}")
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
        raise ValueError(f"nbytes={nbytes!r}: give whole bytes, from 0 on")
    if not group:
        raise ValueError("cards=[] names no card: name at least one")
    if op == "send" and len(group) != 2:
        raise ValueError(f"a send has two cards, {list(group)} are {len(group)}")
    if algorithm is not None and algorithm not in ALGORITHMS[op]:
        raise ValueError(f"algorithm={algorithm!r} of {op}: choose {', '.join(ALGORITHMS[op])}")
    return [algorithm] if algorithm else list(ALGORITHMS[op])


def _quickest(op: str, nbytes: float, links: Links, names: Sequence[str]) -> tuple[str, float]:
    """The name and the seconds of the quickest of these algorithms that fits the group."""
    times = {name: ALGORITHMS[op][name].seconds(float(nbytes), links) for name in names}
    fitting = {name: time for name, time in times.items() if time is not None}
    if not fitting:
        why = ALGORITHMS[op][names[0]].needs
        raise ValueError(f"{names[0]} does not fit {links.ranks} cards on {links.machine.name}: {why}")
    best = min(fitting, key=lambda name: fitting[name])
    return best, fitting[best]


def _quantity(op: str, ranks: int, algorithm: str, value: float) -> Quantity:
    name = op if op == "send" else f"{algorithm}_{op}"
    form = ALGORITHMS[op][algorithm]
    return Quantity(value, "s", form.formula, form.source, name=name, ranks=ranks)


def _ring(times: int) -> Form:
    """`times` phases of p-1 rounds of D/p, all to the right neighbour."""

    def seconds(nbytes: float, links: Links) -> float:
        return times * (links.ranks - 1) * links.round(nbytes / links.ranks, shifted(links.ranks, 1))

    return Form(seconds, _many(times) + r"(p-1)\left(\alpha + \frac{D}{p}\,\beta\right)")


def _pairwise() -> Form:
    """In round k each rank sends D/p to the one k to its right."""

    def seconds(nbytes: float, links: Links) -> float:
        ranks = links.ranks
        return sum(links.round(nbytes / ranks, shifted(ranks, by)) for by in range(1, ranks))

    return Form(seconds, r"(p-1)\,\alpha + \frac{D}{p}\sum_{k=1}^{p-1}\beta_k")


def _halving_doubling(times: int) -> Form:
    """`times` phases of lg p rounds: half the tensor with the rank p/2 off, a quarter with that p/4 off."""

    def seconds(nbytes: float, links: Links) -> float | None:
        ranks, steps = links.ranks, floor_log2(links.ranks)
        if ranks != 2**steps:
            return None
        parts = [2**step for step in range(1, steps + 1)]
        return times * sum(
            links.round(nbytes / part, ((rank, rank ^ (ranks // part)) for rank in range(ranks)))
            for part in parts
        )

    formula = r"\log_2 p\,\alpha + \frac{p-1}{p}\,D\,\beta"
    return Form(seconds, _bracketed(times, formula), needs="it needs a power of two")


def _nhr(times: int) -> Form:
    """`times` phases of ceil(lg p) rounds: in round k each rank sends chunks to the one 2^k off.

    A chunk that has j places to go moves in the rounds k in which j has the bit k; so those of one round are
    the j below p of the form 2^k + a multiple of 2^(k+1), and together they are p-1, as the guide has it.
    """

    def seconds(nbytes: float, links: Links) -> float:
        ranks = links.ranks
        steps = [2**k for k in range(ceil_log2(ranks))]
        return times * sum(
            links.round(nbytes / ranks * ((ranks - 1 + step) // (2 * step)), shifted(ranks, step))
            for step in steps
        )

    return Form(
        seconds, _bracketed(times, r"\lceil\log_2 p\rceil\,\alpha + \frac{p-1}{p}\,D\,\beta"), HCCL_NHR
    )


def _mesh(times: int) -> Form:
    """`times` phases in which each card sends D/p to each other one at once."""

    def seconds(nbytes: float, links: Links) -> float:
        return times * (links.alpha + links.all_at_once(nbytes / links.ranks))

    return Form(seconds, _many(times) + r"\left(\alpha + \frac{D}{p}\,\beta\right)", HCCL_MESH)


def _hierarchical(*phases: tuple[str, str, bool]) -> Form:
    """Phases one after the other: (op, "in" domains or "out", whether of the whole tensor or of D/d)."""

    def seconds(nbytes: float, links: Links) -> float | None:
        sizes = {len(domain) for domain in links.domains}
        if not links.at or len(sizes) != 1 or 1 in sizes:
            return None
        each = sizes.pop()
        places = tuple(domain[0] for domain in links.domains)
        groups = {"in": links.inner, "out": [Links(links.machine, places, beside=each)]}
        return sum(
            max(
                _quickest(op, nbytes if whole else nbytes / each, group, list(ALGORITHMS[op]))[1]
                for group in groups[where]
            )
            for op, where, whole in phases
        )

    short = {"all_reduce": "AR", "all_gather": "AG", "reduce_scatter": "RS", "all_to_all": "A2A"}
    terms = (
        rf"T^{{\mathrm{{{where}}}}}_{{\mathrm{{{short[op]}}}}}"
        + ("(D)" if whole else r"\left(\frac{D}{d}\right)")
        for op, where, whole in phases
    )
    needs = "it needs a group on several domains, equally many cards on each, two or more"
    return Form(seconds, " + ".join(terms), COUNTED_BY_HAND, needs)


def _send(nbytes: float, links: Links) -> float:
    return links.round(nbytes, [(0, 1)])


def _tree(nbytes: float, links: Links) -> float:
    """In round k the first 2^k ranks send the whole tensor 2^k places on."""
    steps = [2**k for k in range(ceil_log2(links.ranks))]
    return sum(
        links.round(nbytes, ((rank, rank + step) for rank in range(min(step, links.ranks - step))))
        for step in steps
    )


def _chain(nbytes: float, links: Links) -> float:
    return (links.ranks - 1) * (links.alpha + nbytes * links.beta(nbytes))


def _many(times: int) -> str:
    return "" if times == 1 else str(times)


def _bracketed(times: int, formula: str) -> str:
    return formula if times == 1 else rf"{times}\left({formula}\right)"


ALGORITHMS: dict[str, dict[str, Form]] = {
    "all_reduce": {
        "ring": _ring(2),
        "mesh": _mesh(2),
        "halving_doubling": _halving_doubling(2),
        "nhr": _nhr(2),
        "hierarchical": _hierarchical(
            ("reduce_scatter", "in", True), ("all_reduce", "out", False), ("all_gather", "in", True)
        ),
    },
    "all_gather": {
        "ring": _ring(1),
        "mesh": _mesh(1),
        "halving_doubling": _halving_doubling(1),
        "nhr": _nhr(1),
        "hierarchical": _hierarchical(("all_gather", "out", False), ("all_gather", "in", True)),
    },
    "reduce_scatter": {
        "ring": _ring(1),
        "mesh": _mesh(1),
        "halving_doubling": _halving_doubling(1),
        "nhr": _nhr(1),
        "hierarchical": _hierarchical(("reduce_scatter", "in", True), ("reduce_scatter", "out", False)),
    },
    "all_to_all": {
        "pairwise": _pairwise(),
        "mesh": _mesh(1),
        "hierarchical": _hierarchical(("all_to_all", "in", True), ("all_to_all", "out", True)),
    },
    "broadcast": {
        "tree": Form(_tree, r"\lceil\log_2 p\rceil\,(\alpha + D\,\beta)"),
        "ring": Form(_chain, r"(p-1)\,(\alpha + D\,\beta)", HCCL_RING),
        "mesh": _mesh(2),
    },
    "send": {"send": Form(_send, r"\alpha + D\,\beta")},
}
"""By op: the algorithms whose time is known, each with its closed form."""
