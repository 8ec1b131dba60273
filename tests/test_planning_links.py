"""Groups over two levels against the event simulation: uneven groups, and trunks that a domain shares."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import mindlab as ml
from mindlab.planning import moves, timeline, topologies
from mindlab.planning.moves import Moves
from mindlab.planning.topologies import Topology

HOSTS = ml.topology("two-atlas-a2")


def trunked(hosts: int, trunk: float) -> Topology:
    """Invented: hosts of four cards on a switch of 10 GB/s, and one way of `trunk` B/s out of each host."""
    level = replace(
        topologies.uniform(4, alpha=5e-6, bandwidth=10e9, shape="switch").levels[0], domain="host"
    )
    shared = replace(level, name="trunk", domain="cluster", shape="trunk", size=4 * hosts)
    inside = topologies.uniform(4 * hosts, alpha=5e-6, bandwidth=10e9, shape="switch")
    return replace(inside, levels=(level, shared)).assume("trunk", bandwidth=trunk, alpha=9e-6)


def formula(op: str, nbytes: int, machine: Topology, cards: Sequence[int], algorithm: str) -> float:
    return float(ml.seconds.collective(op, nbytes, machine, cards=cards, algorithm=algorithm).value)


def simulated(made: Moves, machine: Topology, cards: Sequence[int]) -> float:
    return float(timeline.simulate(made, machine, cards=cards).seconds)


def shifts(sizes: Sequence[tuple[int, float]], ranks: int) -> Moves:
    """A round for each (distance, bytes): every rank sends to the one so far to its right."""
    turn, source = np.divmod(np.arange(len(sizes) * ranks), ranks)
    steps, nbytes = (np.array(column)[turn] for column in zip(*sizes, strict=True))
    return Moves(ranks, turn, source, (source + steps) % ranks, nbytes.astype(float))


def beside(form: Moves, groups: Sequence[Sequence[int]], ranks: int) -> Moves:
    """The same moves in several groups at once."""
    ends = [(np.array(group)[form.source], np.array(group)[form.target]) for group in groups]
    source, target = (np.concatenate(column) for column in zip(*ends, strict=True))
    count = len(groups)
    return Moves(ranks, np.tile(form.round, count), source, target, np.tile(form.nbytes, count))


def even(ranks: int, nbytes: float) -> Moves:
    """Each rank sends as much to each other one, all at once."""
    return moves.all_at_once(np.full((ranks, ranks), nbytes))


def two_levels(op: str, nbytes: int, domains: Sequence[Sequence[int]]) -> Moves:
    each, hosts = len(domains[0]), len(domains)
    ranks = each * hosts
    places = list(zip(*domains, strict=True))
    within = beside(even(each, nbytes / each), domains, ranks)
    across = beside(even(hosts, nbytes / ranks), places, ranks)
    whole = beside(even(hosts, nbytes / hosts), places, ranks)
    return {
        "all_reduce": within.then(across).then(across).then(within),
        "all_gather": across.then(within),
        "reduce_scatter": within.then(across),
        "all_to_all": within.then(whole),
    }[op]


FLAT: dict[tuple[str, str], Callable[[list[int]], Moves]] = {
    ("all_reduce", "ring"): moves.ring_all_reduce,
    ("all_reduce", "mesh"): moves.mesh_all_reduce,
    ("all_gather", "mesh"): moves.mesh_all_gather,
    ("all_to_all", "pairwise"): lambda each: moves.pairwise_all_to_all([each] * len(each)),
    ("all_to_all", "mesh"): lambda each: moves.all_at_once([each] * len(each)),
}
GROUPS = [[0, 1, 8], [8, 0, 1], [0, 1, 2, 3, 4, 5, 6, 8], [6, 7, 8, 9, 10, 11], list(range(5, 16)), [0, 8]]
TRUNK_GROUPS = [[0, 1, 4], [4, 0, 1, 2], [0, 1, 2, 3, 4], [0, 4], [0, 4, 1, 5], list(range(8))]


@pytest.mark.parametrize("cards", GROUPS, ids=str)
@pytest.mark.parametrize("op_algorithm", FLAT, ids=" ".join)
def test_uneven_groups_on_two_hosts(op_algorithm: tuple[str, str], cards: list[int]) -> None:
    """Counts taken from the first card's host: a card that is alone on its host has all others outside."""
    each = [840_000] * len(cards)
    found = formula(op_algorithm[0], sum(each), HOSTS, cards, op_algorithm[1])
    # equal messages: the sum of the same terms, in another order
    assert found == pytest.approx(simulated(FLAT[op_algorithm](each), HOSTS, cards), rel=1e-6)


def test_the_order_of_cards_does_not_count_at_once() -> None:
    """A time that depends on which host the first card is on."""
    orders = ([0, 1, 2, 8], [8, 0, 1, 2], [0, 8, 1, 2])
    assert len({formula("all_reduce", 2**26, HOSTS, cards, "mesh") for cards in orders}) == 1


@pytest.mark.parametrize("trunk", [4e9, 15e9, 90e9])
@pytest.mark.parametrize("cards", TRUNK_GROUPS, ids=str)
def test_a_trunk_is_shared_by_what_crosses_it(cards: list[int], trunk: float) -> None:
    """All cards of a host charged for a round in which one crosses, or one where several do.

    At 4 GB/s the trunk decides, at 90 GB/s the ports, at 15 GB/s now one and now the other.
    """
    machine, each = trunked(2, trunk), [840_000] * len(cards)
    for (op, algorithm), made in FLAT.items():
        found = formula(op, sum(each), machine, cards, algorithm)
        told = simulated(made(each), machine, cards)
        if algorithm == "mesh":  # messages inside begin 4 µs before the others, in each of two phases at most
            assert found * (1 - 1e-6) - 8e-6 <= told <= found * (1 + 1e-6), op
        elif cards == [0, 4, 1, 5] and algorithm == "pairwise":  # a round inside hosts counts as one between
            assert told < found < 1.2 * told
        else:
            assert found == pytest.approx(told, rel=1e-6), (op, algorithm)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize(
    ("machine", "cards"),
    [
        (HOSTS, range(16)),
        (HOSTS, [0, 8, 1, 9]),
        (trunked(2, 15e9), range(8)),
        (trunked(3, 15e9), [0, 1, 4, 5, 8, 9]),
        (trunked(3, 4e9), range(12)),
    ],
    ids=["two hosts", "interleaved", "trunk", "three pairs", "three hosts"],
)
def test_two_levels_share_the_way_between_them(machine: Topology, cards: Sequence[int], op: str) -> None:
    """Groups between hosts timed alone although all of them are on one trunk; parts of a wrong size."""
    nbytes = 840_000 * len(cards)
    made = two_levels(op, nbytes, machine.domains(cards))
    found = formula(op, nbytes, machine, cards, "hierarchical")
    assert found == pytest.approx(simulated(made, machine, cards), rel=1e-6)


def test_the_order_of_two_levels_spares_the_network() -> None:
    """A gather inside hosts first sends each card all of the other host's shards: eight times the bytes."""
    nbytes, part = 2**26, 2**26 // 16
    found = formula("all_gather", nbytes, HOSTS, range(16), "hierarchical")
    assert found == pytest.approx(20e-6 + part / 25e9 + 20e-6 + 2 * part / 28e9)
    assert found == formula("reduce_scatter", nbytes, HOSTS, range(16), "hierarchical")
    domains = HOSTS.domains(range(16))
    inside = beside(even(8, part), domains, 16)
    outside = beside(even(2, 8 * part), list(zip(*domains, strict=True)), 16)
    assert simulated(inside.then(outside), HOSTS, range(16)) > 2.9 * found


@pytest.mark.parametrize("ranks", [2, 3, 5, 6, 7, 8])
def test_nhr_moves_each_chunk_home(ranks: int) -> None:
    """Rounds too short or too long for some p: every part of a sum has to come to its owner, once."""
    steps = [2**k for k in range((ranks - 1).bit_length())]
    counts = [(ranks - 1 + step) // (2 * step) for step in steps]
    left = set(range(1, ranks))  # how far the chunks that a rank still has are from home
    for step, count in zip(steps, counts, strict=True):
        sent = {far for far in left if far & step}
        assert len(sent) == count
        left = (left - sent) | {far - step for far in sent} - {0}
    assert not left - {0} and sum(counts) == ranks - 1
    nbytes, rates = 840_000, {"alpha": 5e-6, "beta": 1 / 10e9}
    one = topologies.uniform(8, alpha=5e-6, bandwidth=10e9, shape="switch")
    for op, form in (
        ("reduce_scatter", ml.seconds.nhr_reduce_scatter),
        ("all_reduce", ml.seconds.nhr_all_reduce),
        ("all_gather", ml.seconds.nhr_reduce_scatter),
    ):
        published = float(form(nbytes, ranks, **rates).value)
        assert formula(op, nbytes, one, range(ranks), "nhr") == pytest.approx(published)
    made = shifts([(step, nbytes / ranks * count) for step, count in zip(steps, counts, strict=True)], ranks)
    for machine in (one, trunked(2, 15e9)):
        found = formula("reduce_scatter", nbytes, machine, range(ranks), "nhr")
        assert found == pytest.approx(simulated(made, machine, range(ranks)), rel=1e-6)


def test_broadcasts_and_halves_are_never_too_quick() -> None:
    """A bound that is none: rounds inside hosts are counted as if they crossed."""
    for machine, cards in ((HOSTS, range(16)), (trunked(2, 15e9), range(8)), (trunked(2, 4e9), range(7))):
        ranks = len(cards)
        told = simulated(moves.tree_broadcast(840_000, ranks), machine, cards)
        assert told <= formula("broadcast", 840_000, machine, cards, "tree") * (1 + 1e-9)
    halves = [(step - 1, rank, rank ^ (8 >> step)) for step in (1, 2, 3) for rank in range(8)]
    turn, source, target = np.array(halves).T
    for trunk in (4e9, 15e9):
        machine = trunked(2, trunk)
        told = simulated(Moves(8, turn, source, target, 840_000 / 2.0 ** (turn + 1)), machine, range(8))
        found = formula("reduce_scatter", 840_000, machine, range(8), "halving_doubling")
        assert told <= found < 1.2 * told
