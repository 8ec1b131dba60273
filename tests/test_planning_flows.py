"""Events over shared links, by hand: who gets how much of a link, and what waits for what."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab
from mindlab.planning import flows, moves, timeline, topologies
from mindlab.planning.graphs import Builder
from mindlab.predict import seconds, volume

LINK = {"alpha": 10e-6, "beta": 1 / 28e9}


def machine(cards, shape="mesh", bandwidth=28e9, alpha=10e-6):
    return topologies.uniform(cards, alpha=alpha, bandwidth=bandwidth, shape=shape)


def ended(builder):
    return flows.run(builder.graph())


def messages(topology, rows, begins=None):
    """When each message (source, target, bytes) ends, if it begins at its time in `begins`."""
    builder = Builder(topology)
    works = [builder.work(begin) for begin in begins or [0.0] * len(rows)]
    tasks = [int(builder.messages([s], [t], [n])[0]) for s, t, n in rows]
    builder.edge(works, tasks)
    return ended(builder).end[tasks].tolist()


def test_two_messages_over_one_link_take_twice_as_long():
    """Would catch links without a limit, and ones that are shared by messages that do not touch them."""
    one = machine(4, bandwidth=1000.0, alpha=0.5)
    assert messages(one, [(0, 1, 1000)]) == [1.5]
    assert messages(one, [(0, 1, 1000), (0, 1, 1000)]) == [2.5, 2.5]
    assert messages(one, [(0, 1, 1000), (1, 0, 1000), (0, 2, 1000)]) == [1.5, 1.5, 1.5]


def test_ports_of_a_switch_are_shared_and_pairs_of_a_mesh_are_not():
    """Would catch a switch that lets three cards send to one at full rate, or a mesh that does not."""
    rows = [(1, 0, 1000), (2, 0, 1000), (3, 0, 1000)]
    assert messages(machine(4, "switch", 1000.0, 0), rows) == [3.0, 3.0, 3.0]
    assert messages(machine(4, "mesh", 1000.0, 0), rows) == [1.0, 1.0, 1.0]
    # The way out of 0 and the way into 2 are each shared by two messages.
    assert messages(machine(4, "switch", 1000.0, 0), [(0, 1, 1000), (0, 2, 1000), (3, 2, 1000)]) == [2.0] * 3


def test_a_message_that_comes_later_takes_its_share_from_then_on():
    """Would catch rates that stay as they were when a message began.

    1000 B at 1000 B/s: the first one is alone until 0.5 s, then both have half. It ends at 1.5 s; the other
    one has 500 B left and the link to itself.
    """
    assert messages(machine(2, bandwidth=1000.0, alpha=0), [(0, 1, 1000)] * 2, [0, 0.5]) == [1.5, 2.0]


def test_rates_are_max_min_fair():
    """Would catch shares that leave a part of a link unused.

    Links of 1 and 2 B/s; messages over the first, both, the second: 1/2, 1/2, 3/2.
    """
    bandwidth = np.array([np.inf, 1.0, 2.0])
    paths = np.array([[1, 0], [1, 2], [2, 0]])
    assert flows.fair_rates(paths, bandwidth).tolist() == [0.5, 0.5, 1.5]


def test_shares_fill_links_and_never_more(seed=5):
    """Would catch a link that carries more than it can, or a message that could have more for nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        bandwidth = np.concatenate([[np.inf], rng.uniform(0.5, 3, 6)])
        paths = rng.integers(1, 7, (12, 2))
        paths[paths[:, 0] == paths[:, 1], 1] = flows.NO_LINK
        rates = flows.fair_rates(paths, bandwidth)
        load = np.bincount(paths.ravel(), weights=np.repeat(rates, 2), minlength=7)[1:]
        full = load >= bandwidth[1:] * (1 - 1e-9)
        assert (load <= bandwidth[1:] * (1 + 1e-9)).all() and (rates > 0).all()
        for row, rate in zip(paths, rates, strict=True):  # a full link on its path, where nobody has more
            tight = [link for link in row if link and full[link - 1]]
            assert any(rate >= rates[(paths == link).any(axis=1)].max() * (1 - 1e-9) for link in tight)


def test_a_task_begins_when_all_before_it_have_ended():
    """Would catch a graph in which the first of two is enough, and tasks of no time that stop it."""
    builder = Builder(machine(2))
    short, long = builder.work(1.0), builder.work(3.0)
    met, after = int(builder.meetings(1)[0]), builder.work(2.0)
    builder.edge([short, long], met)
    builder.edge(met, after)
    result = ended(builder)
    assert result.start.tolist() == [0, 0, 3, 3] and result.end.tolist() == [1, 3, 3, 5]


def test_a_circle_stays_open_and_can_be_let_go():
    """Would catch a simulation that never ends, or hides tasks that never began."""
    builder = Builder(machine(2))
    first, second = builder.work(1.0), builder.work(2.0)
    builder.edge([first, second], [second, first])
    assert np.isnan(ended(builder).end).all()
    result = flows.run(builder.graph(), lambda stuck, end: stuck[:1])
    assert result.end.tolist() == [1.0, 3.0] and result.released.tolist() == [0]


FORMS = {
    "ring_all_reduce": moves.ring_all_reduce,
    "ring_reduce_scatter": moves.ring_reduce_scatter,
    "ring_all_gather": moves.ring_all_gather,
    "mesh_all_reduce": moves.mesh_all_reduce,
    "mesh_reduce_scatter": moves.mesh_reduce_scatter,
    "mesh_all_gather": moves.mesh_all_gather,
}


def planned(name, nbytes, ranks, itemsize=1):
    if name == "direct_all_to_all":
        return moves.pairwise_all_to_all(np.full((ranks, ranks), nbytes / ranks))
    if name == "tree_broadcast":
        return moves.tree_broadcast(nbytes, ranks)
    return FORMS[name](moves.chunks(nbytes, ranks, itemsize))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", [*FORMS, "direct_all_to_all", "tree_broadcast"])
def test_an_algorithm_takes_as_long_as_its_closed_form(name, ranks):
    """Would catch a round too many, rounds that do not wait for each other, a mesh that goes one by one."""
    nbytes = 840 * 1024
    on = timeline.simulate(planned(name, nbytes, ranks), machine(ranks))
    expected = getattr(seconds, name)(nbytes, ranks, **LINK)
    assert float(on.seconds) == pytest.approx(float(expected), rel=1e-9)
    assert on.rows == [] and on.ranks == ranks


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("name", [*FORMS, "tree_broadcast"])
@pytest.mark.parametrize("numel", [1, 10, 1009])
def test_an_algorithm_moves_the_bytes_of_its_volume(name, ranks, numel):
    """Would catch chunks given to the wrong rank, visible only where p does not divide."""
    made = planned(name, numel * 4, ranks, 4)
    sent = np.bincount(made.source, weights=made.nbytes, minlength=ranks)
    expected = getattr(volume, name)(numel * 4, ranks, itemsize=4)
    assert sent.tolist() == list(expected.by_rank(ranks))
    assert (made.nbytes > 0).all() and (made.source != made.target).all()


def test_trees_and_barriers_reach_everyone():
    """Would catch a tree that leaves a rank out, or a barrier that lets one go early."""
    for ranks in (1, 2, 3, 5, 8, 13):
        for root in {0, ranks - 1}:
            knows = {root}
            made = moves.tree_broadcast(8, ranks, root)
            for row in sorted(zip(made.round, made.source, made.target, strict=True)):
                assert row[1] in knows and row[2] not in knows
                knows.add(int(row[2]))
            assert len(knows) == ranks
            up = moves.tree_reduce(8, ranks, root)
            assert sorted(zip(up.target, up.source, strict=True)) == sorted(
                zip(made.source, made.target, strict=True)
            )
        heard = {rank: {rank} for rank in range(ranks)}
        barrier = moves.dissemination_barrier(ranks)
        for number in sorted(set(barrier.round.tolist())):
            before = {rank: set(heard[rank]) for rank in heard}
            for k in np.flatnonzero(barrier.round == number):
                heard[int(barrier.target[k])] |= before[int(barrier.source[k])]
        assert all(len(known) == ranks for known in heard.values())


def test_many_ranks_take_as_long_as_the_formula_says():
    """Would catch rounding that grows with the number of messages: 130 560 of them here."""
    on = timeline.simulate(moves.ring_all_reduce([4096] * 256), machine(256))
    assert float(on.seconds) == pytest.approx(
        float(seconds.ring_all_reduce(4096 * 256, 256, **LINK)), rel=1e-9
    )
    assert set(on.link_bytes.values()) == {510 * 4096.0} and len(on.link_bytes) == 256


@pytest.mark.parametrize("module", [moves, timeline, topologies], ids=lambda module: module.__name__)
def test_the_examples_run(module):
    """Would catch an example that was right once."""
    scope = {"ml": mindlab, "torch": torch, "dist": dist}
    found = doctest.testmod(module, extraglobs=scope)
    assert found.attempted and not found.failed
