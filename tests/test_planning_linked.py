"""Collectives on a topology: the closed forms against the event simulation, and against Huawei's formulas."""

import math
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.planning import linked, moves, timeline, topologies

SWITCH = topologies.uniform(16, alpha=5e-6, bandwidth=10e9, shape="switch")
MESH = topologies.uniform(8, alpha=5e-6, bandwidth=10e9, shape="mesh")


def spent(*args: object, **more: object) -> float:
    return float(ml.seconds.collective(*args, **more).value)  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", [SWITCH, MESH], ids=["switch", "mesh"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("op", "algorithm", "made"),
    [
        ("all_reduce", "ring", moves.ring_all_reduce),
        ("all_gather", "ring", moves.ring_all_gather),
        ("reduce_scatter", "ring", moves.ring_reduce_scatter),
        ("all_reduce", "mesh", moves.mesh_all_reduce),
    ],
)
def test_closed_forms_are_what_the_simulation_gives(machine, ranks, op, algorithm, made) -> None:
    """A round too many, a port that is shared as a link of its own or the other way round."""
    nbytes = 960_000
    simulated = timeline.simulate(made([nbytes // ranks] * ranks), machine).seconds
    formula = spent(op, nbytes, machine, cards=range(ranks), algorithm=algorithm)
    assert formula == pytest.approx(float(simulated), rel=1e-6)


def test_the_mesh_beats_the_ring_by_the_links() -> None:
    """One link of a mesh used where seven are there: Huawei's formulas differ by p-1 at all sizes."""
    for nbytes in (2**20, 2**26, 335_000_000):
        ring = spent("all_reduce", nbytes, MESH, algorithm="ring")
        mesh = spent("all_reduce", nbytes, MESH, algorithm="mesh")
        assert ring / mesh == pytest.approx(7.0)
        alone = ml.seconds.mesh_all_reduce(nbytes, 8, alpha=5e-6, beta=1 / 10e9).value
        assert mesh == pytest.approx(float(alone))


def test_a_group_inside_a_host_does_not_pay_for_the_network() -> None:
    """Groups judged by the outermost level of the machine, not by their own."""
    two = ml.topology("two-atlas-a2")
    inside = spent("all_to_all", 2**26, two, cards=range(8))
    assert inside == spent("all_to_all", 2**26, "atlas-a2")
    across = spent("all_to_all", 2**26, two, cards=range(4, 12))
    assert across > 2 * inside


def test_two_levels_pay_when_hosts_are_many() -> None:
    """Hierarchical algorithms that send everything over the network."""
    two = ml.topology("two-atlas-a2")
    best = ml.seconds.collective("all_reduce", 2**26, two)
    assert best.name == "hierarchical_all_reduce"
    share = 2**26 / 8
    within = 2 * (20e-6 + share / 28e9)
    across = 2 * (20e-6 + share / 2 / 25e9)
    assert float(best.value) == pytest.approx(within + across)


def test_the_quickest_is_chosen() -> None:
    """Ring for all sizes, or an algorithm that does not fit: 3 cards have no halves."""
    small = ml.seconds.collective("all_reduce", 64, SWITCH)
    assert small.value == min(
        spent("all_reduce", 64, SWITCH, algorithm=name) for name in ("ring", "mesh", "halving_doubling")
    )
    three = ml.seconds.collective("all_gather", 300, SWITCH, cards=[0, 1, 2])
    assert three.name in ("ring_all_gather", "mesh_all_gather")
    with pytest.raises(ValueError, match="power of two"):
        ml.seconds.collective("all_gather", 300, SWITCH, cards=[0, 1, 2], algorithm="halving_doubling")
    with pytest.raises(ValueError, match="several domains"):
        ml.seconds.collective("all_gather", 300, SWITCH, algorithm="hierarchical")


def test_nothing_to_say_takes_no_time() -> None:
    """One card, or no bytes, that cost a latency."""
    assert spent("all_reduce", 100, SWITCH, cards=[3]) == 0
    assert spent("all_to_all", 0, SWITCH) == 0


def test_a_message_takes_the_rate_of_its_size() -> None:
    """Short messages at the rate of long ones: a ring of 8 sends eighths."""
    level = SWITCH.levels[0]
    slow = replace(SWITCH, levels=(replace(level, by_size=((1000.0, 1e9), (1e6, 10e9))),))
    assert level.at(5) == 10e9
    assert slow.levels[0].at(10) == 1e9 and slow.levels[0].at(1e9) == 10e9
    assert slow.levels[0].at(math.sqrt(1e3 * 1e6)) == pytest.approx(5.5e9)
    eighth = spent("all_gather", 8000, slow, cards=range(8), algorithm="ring")
    assert eighth == pytest.approx(7 * (5e-6 + 1000 / 1e9))
    simulated = timeline.simulate(moves.ring_all_gather([1000] * 8), slow).seconds
    assert float(simulated) == pytest.approx(eighth)
    link = next(iter(timeline.simulate(moves.ring_all_gather([1000] * 8), slow).link_bytes.values()))
    assert link == 7000  # the bytes that were sent, not those that took as long


def test_what_is_not_known_is_refused() -> None:
    """A typing mistake that becomes the default, a group of cards that are not there."""
    for args, more, words in (
        (("all_sum", 8, SWITCH), {}, "op='all_sum' is unknown: choose all_reduce"),
        (("all_reduce", 8, SWITCH), {"algorithm": "tree"}, "algorithm='tree' of all_reduce: choose ring"),
        (("all_reduce", -1, SWITCH), {}, "nbytes=-1"),
        (("all_reduce", 1.5, SWITCH), {}, "nbytes=1.5"),
        (("send", 8, SWITCH), {}, "a send has two cards"),
        (("all_reduce", 8, SWITCH), {"cards": [0, 99]}, "no card 99"),
        (("all_reduce", 8, SWITCH), {"cards": 8}, "cards=8: name the group's cards, such as range"),
        (("all_reduce", 8, SWITCH), {"cards": []}, r"cards=\[\] names no card"),
    ):
        with pytest.raises(ValueError, match=words):
            ml.seconds.collective(*args, **more)
    assert set(linked.ALGORITHMS) == {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send",
    }  # fmt: skip


def test_every_time_shows_its_formula() -> None:
    """No formula at all, or that of the ring's D/p where the whole tensor is passed on."""
    two = ml.topology("two-atlas-a2")
    shown = {
        (op, name): ml.seconds.collective(
            op, 2**20, two, cards=[0, 8] if op == "send" else None, algorithm=name
        )
        for op, forms in linked.ALGORITHMS.items()
        for name in forms
    }
    assert all(time.formula and time.source and time.value for time in shown.values())
    assert shown["broadcast", "ring"].formula == r"(p-1)\,(\alpha + D\,\beta)"
    assert float(shown["broadcast", "ring"].value) == pytest.approx(15 * (20e-6 + 2**20 / 25e9))
    assert shown["all_reduce", "mesh"].formula.startswith("2")
    assert shown["all_reduce", "hierarchical"].formula.count("T^") == 3


def test_two_levels_replayed_are_the_closed_form() -> None:
    """Groups of equal places that are not the ones of the closed form, or phases that overlap."""
    two = ml.topology("two-atlas-a2")
    nbytes = 16 * 4096
    made = moves.hierarchical_all_reduce(nbytes, two.domains(range(16)))
    simulated = float(timeline.simulate(made, two).seconds)
    within = 2 * (20e-6 + nbytes / 8 / 28e9)
    across = 2 * (20e-6 + nbytes / 16 / 25e9)
    assert simulated == pytest.approx(within + across, rel=1e-6)
    assert simulated == pytest.approx(spent("all_reduce", nbytes, two, algorithm="hierarchical"), rel=1e-6)
    run = ml.launch(lambda: dist.all_reduce(torch.ones(1024)), ranks=4)
    placed = ml.replay(run, two, cards=[0, 1, 8, 9], algorithms={"all_reduce": "hierarchical"})
    flat = ml.replay(run, two, cards=[0, 1, 8, 9])
    assert float(placed.seconds) < float(flat.seconds)
    with pytest.raises(ValueError, match="hierarchical needs equal ones"):
        moves.hierarchical_all_reduce(64, [[0, 1], [2]])
