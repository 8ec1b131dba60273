"""Volumes and rounds: closed forms, exact bytes, and a network on paper that agrees with both."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

import network
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindlab.predict import gloo, rounds, seconds, volume
from mindlab.predict.quantity import Quantity

SEVEN = [
    "ring_reduce_scatter",
    "ring_all_gather",
    "ring_all_reduce",
    "halving_doubling_all_reduce",
    "tree_broadcast",
    "direct_all_to_all",
    "bruck_all_to_all",
]
NAIVE = ["unchunked_ring_all_reduce", "root_all_reduce", "root_all_gather", "one_shot_all_reduce"]
MESH = ["mesh_reduce_scatter", "mesh_all_gather", "mesh_all_reduce"]
STRATEGIES = ["tensor_parallel", "sequence_parallel", "ring_attention", "ulysses_attention"]
GLOO = [name for name in dir(gloo) if name.startswith("gloo_")]
ALL_RANKS = [*range(1, 9), 16]


def sizes(ranks: int) -> list[int]:
    """Elements: none, one, fewer than ranks, not divisible, a prime, divisible."""
    return [0, 1, ranks - 1, ranks + 1, 31, 24 * ranks]


def simulated(name: str, elements: int, ranks: int) -> network.Network:
    """The network after the algorithm, its values checked."""
    xs = [np.arange(elements) + 1000 * rank for rank in range(ranks)]
    total = sum(xs)
    if name in ("ring_reduce_scatter", "ring_all_gather"):
        net, chunks = network.ring_reduce_scatter_parts(xs)
        if name == "ring_all_gather":
            net = network.Network(ranks)
            network.ring_gather(net, chunks)
        assert all(np.array_equal(c[r], np.array_split(total, ranks)[r]) for r, c in enumerate(chunks))
        return net
    net, got = getattr(network, name)(xs)
    if name.endswith("all_reduce"):
        wanted = [total] * ranks
    elif name == "tree_broadcast":
        wanted = [xs[0]] * ranks
    else:
        wanted = [np.concatenate([np.array_split(x, ranks)[rank] for x in xs]) for rank in range(ranks)]
    assert all(np.array_equal(one, other) for one, other in zip(got, wanted, strict=True))
    return net


@pytest.mark.parametrize("ranks", ALL_RANKS)
@pytest.mark.parametrize("name", SEVEN)
def test_bytes_and_rounds_agree_with_the_network(name: str, ranks: int) -> None:
    """Would catch a wrong closed form, a wrong cut of a rest, or an empty round that is counted."""
    for elements in sizes(ranks):
        net = simulated(name, elements, ranks)
        exact = getattr(volume, name)(elements * 4, ranks, itemsize=4)
        assert exact.per_rank == tuple(4 * sent for sent in net.sent), elements
        assert getattr(rounds, name)(elements * 4, ranks).value == net.rounds, elements
        assert exact.value * ranks == pytest.approx(sum(exact.per_rank))


@pytest.mark.parametrize("ranks", [*range(2, 9), 16])
@pytest.mark.parametrize("name", SEVEN)
def test_seconds_agree_with_the_network(name: str, ranks: int) -> None:
    """Would catch a term of the time that is missing, doubled or on the wrong constant."""
    elements = 5040 * 16  # every p up to 8 and 16 divides it
    net = simulated(name, elements, ranks)
    formula = getattr(seconds, name)
    time = formula(elements, ranks, alpha=network.ALPHA, beta=network.BETA, gamma=network.GAMMA)
    assert time.value == pytest.approx(net.seconds, rel=1e-12)


@pytest.mark.parametrize("name", [*SEVEN, *NAIVE, *MESH, *GLOO])
def test_every_volume_is_whole(name: str) -> None:
    """Would catch a quantity without unit, formula or source, or whose exact bytes miss its closed form."""
    for ranks in ALL_RANKS:
        closed = getattr(volume, name)(48 * ranks, ranks)
        exact = getattr(volume, name)(48 * ranks, ranks, itemsize=4)
        assert (closed.unit, closed.name, closed.ranks) == ("B", name, ranks)
        assert closed.formula and closed.source
        assert "$" not in closed.formula
        assert len(exact.per_rank) == ranks
        assert all(isinstance(value, int) for value in exact.per_rank)
        assert exact.value == closed.value == pytest.approx(float(Fraction(sum(exact.per_rank), ranks)))
        assert getattr(volume, name)(48, 1).value == 0


@given(st.integers(0, 500), st.integers(1, 17), st.sampled_from([1, 2, 4, 8]), st.sampled_from(SEVEN))
@settings(deadline=None, max_examples=150)
def test_the_mean_of_the_exact_bytes_is_the_closed_form(items: int, ranks: int, size: int, name: str) -> None:
    """Would catch bytes that appear or vanish when ranks do not divide the tensor."""
    exact = getattr(volume, name)(items * size, ranks, itemsize=size)
    closed = getattr(volume, name)(items * size, ranks)
    assert sum(exact.per_rank) == pytest.approx(float(closed.value) * ranks)
    assert all(value % size == 0 for value in exact.per_rank)


@pytest.mark.parametrize(
    ("bytes_sent", "known"),
    [
        (volume.ring_all_reduce(4096, 4).value, 6144),
        (volume.bruck_all_to_all(4096, 8).value, 4096 // 2 * 3),  # D/2 lg p
        (volume.halving_doubling_all_reduce(6144, 3).per_rank, (12288, 6144, 6144)),
        (volume.tree_broadcast(1, 8).per_rank, (3, 2, 1, 1, 0, 0, 0, 0)),
        (volume.ring_all_reduce(40, 4, itemsize=4).per_rank, (56, 60, 64, 60)),
        (volume.gloo_reduce_scatter(4096, 4).value, 2 * volume.ring_reduce_scatter(4096, 4).value),
        (volume.unchunked_ring_all_reduce(99, 2).value, volume.ring_all_reduce(99, 2).value),
        (volume.unchunked_ring_all_reduce(4096, 8).value, 4 * volume.ring_all_reduce(4096, 8).value),
    ],
)
def test_known_values(bytes_sent: Any, known: Any) -> None:
    """Would catch a formula changed together with the simulator: these were worked out by hand."""
    assert bytes_sent == known


@pytest.mark.parametrize(
    ("algbw", "busbw"),
    [(0.75, 1.31), (20.68, 36.18), (134.22, 234.89)],
)
def test_the_published_bus_factor(algbw: float, busbw: float) -> None:
    """Would catch a factor other than the one nccl-tests multiplies by.

    Rows of 8 x A100 are in stas00/ml-engineering @744d01e, network/README.md; there bus = alg x 2(p-1)/p.
    """
    factor = volume.ring_all_reduce(2**34, 8).value / 2**34
    assert algbw * factor == pytest.approx(busbw, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nbytes": -4, "ranks": 4}, "nbytes=-4"),
        ({"nbytes": 4.5, "ranks": 4}, "nbytes=4.5"),
        ({"nbytes": True, "ranks": 4}, "nbytes=True"),
        ({"nbytes": 4, "ranks": 0}, "ranks=0"),
        ({"nbytes": 4, "ranks": 2.0}, "ranks=2.0"),
        ({"nbytes": 10, "ranks": 4, "itemsize": 4}, "use 8 or 12"),
        ({"nbytes": 8, "ranks": 4, "itemsize": 0}, "itemsize=0"),
    ],
)
@pytest.mark.parametrize("name", [*SEVEN, *NAIVE, *MESH, *GLOO])
def test_wrong_sizes_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    """Would catch a size that cannot be and gives a number all the same."""
    with pytest.raises(ValueError, match=message):
        getattr(volume, name)(**arguments)


def test_unequal_shards_are_refused_where_gloo_refuses_them() -> None:
    """Would catch a volume for a call that gloo does not take."""
    with pytest.raises(ValueError, match="such as 16"):
        volume.gloo_all_gather(12, 4, itemsize=4)


def test_the_three_modules_have_the_same_names() -> None:
    """Would catch an algorithm whose bytes are known and whose time or rounds are not."""
    for module in (rounds, seconds):
        own = [item for item in vars(module).values() if inspect.isfunction(item)]
        names = {item.__name__ for item in own if item.__module__ == module.__name__}
        public = {name for name in names if not name.startswith("_")}
        assert public == {*SEVEN, *NAIVE, *MESH, *(STRATEGIES if module is rounds else [])}


def test_volume_has_two_families() -> None:
    """Would catch a collective with other arguments than its family's, or a function that no test covers."""
    # own tests: test_predict_experts, …_hybrid, …_pipelines, …_decoding, …_tiles;
    # test_parallel_cfg, test_parallel_combined
    later = ("gloo_", "expert_", "hybrid_", "cfg_", "pipeline", "decode_", "halo_", "norm_", "guided_")
    own = {name for name in volume.__all__ if not name.startswith(later) and "received" not in name}
    assert own == {*SEVEN, *NAIVE, *MESH, *STRATEGIES}
    assert {name for name in volume.__all__ if name.startswith("gloo_")} == {
        *GLOO, "gloo_tensor_parallel", "gloo_sequence_parallel"
    }  # fmt: skip
    for name in [*SEVEN, *NAIVE, *MESH, *GLOO]:
        assert [*inspect.signature(getattr(volume, name)).parameters] == ["nbytes", "ranks", "itemsize"]


def test_docstrings_say_which_tensor() -> None:
    """Would catch the unit trap left unsaid: D is the full tensor, not one rank's share."""
    assert "full tensor" in (volume.__doc__ or "").lower()
    traps = ["ring_all_gather", "ring_reduce_scatter", "mesh_all_gather", "gloo_all_gather", "gloo_scatter"]
    for name in traps:
        assert "D is the" in (getattr(volume, name).__doc__ or ""), name


def test_rounds_is_reached_through_volume() -> None:
    """Would catch `ml.volume.rounds` gone: chapters use it."""
    assert isinstance(volume.rounds.ring_all_reduce(4096, 4), Quantity)
    assert volume.rounds.ring_all_reduce(0, 4).value == 0
