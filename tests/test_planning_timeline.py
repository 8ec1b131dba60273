"""A recorded run on another machine: closed forms, contention, overlap as recorded, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import replay_runs as made
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.planning import topologies
from mindlab.trace import recorder

ALPHA, RATE, SPEED = 1e-5, 1e9, 1e9
LINK = {"alpha": ALPHA, "beta": 1 / RATE}
STEP = ALPHA + 4000 / RATE


def machine(cards=8, shape="mesh", **more):
    given = {"alpha": ALPHA, "bandwidth": RATE, "rate": SPEED, **more}
    return topologies.uniform(cards, shape=shape, **given)


def close(expected):
    """Equal but for the rounding of sums of floats."""
    return pytest.approx(float(expected), rel=1e-9, abs=1e-15)


PROGRAMS = {
    "ring_all_reduce": (lambda x: dist.all_reduce(x), {}),
    "mesh_all_reduce": (lambda x: dist.all_reduce(x), {"all_reduce": "mesh"}),
    "ring_all_gather": (lambda x: dist.all_gather([*torch.empty_like(x).chunk(_p())], x.chunk(_p())[0]), {}),
    "mesh_all_gather": (
        lambda x: dist.all_gather_into_tensor(torch.empty_like(x), x.chunk(_p())[0]), {"all_gather": "mesh"}
    ),
    "ring_reduce_scatter": (lambda x: dist.reduce_scatter_tensor(x.chunk(_p())[0].clone(), x), {}),
    "direct_all_to_all": (lambda x: dist.all_to_all_single(torch.empty_like(x), x), {}),
    "tree_broadcast": (lambda x: dist.broadcast(x, _p() - 1), {}),
}  # fmt: skip


def _p():
    return dist.get_world_size()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_collective_takes_as_long_as_its_closed_form(name, ranks):
    """Would catch D taken for a shard, a root that is mixed up, a group of one that takes time."""
    call, algorithms = PROGRAMS[name]
    run = ml.launch(lambda: call(torch.ones(1200)), ranks=ranks)
    on = ml.replay(run, machine(), algorithms=algorithms)
    assert float(on.seconds) == close(getattr(ml.seconds, name)(4800, ranks, **LINK))
    assert sum(on.link_bytes.values()) == close(ranks * getattr(ml.volume, name)(4800, ranks).value)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_our_own_algorithms_take_as_long_as_their_closed_forms(ranks):
    """Would catch a send that ends without its receive, and rounds of real messages that overlap wrongly."""
    for name in ("ring_all_reduce", "ring_all_gather", "halving_doubling_all_reduce", "tree_broadcast"):
        x = 1200 // ranks if name == "ring_all_gather" else 1200
        run = ml.launch(lambda name, x: getattr(ml.collectives, name)(torch.ones(x)), name, x, ranks=ranks)
        expected = getattr(ml.seconds, name)(4800, ranks, **LINK)
        assert float(ml.replay(run, machine()).seconds) == close(expected), name


def test_the_bytes_on_the_links_are_those_of_the_run():
    """Would catch messages that are lost or counted twice: on a mesh a link is a pair of ranks."""
    run = ml.launch(lambda: ml.collectives.ring_all_reduce(torch.ones(1001)), ranks=3)
    on = ml.replay(run, machine(), bytes_times=3)
    found = np.zeros((3, 3))
    for name, nbytes in on.link_bytes.items():
        source, target = name.removeprefix("link ").split(" → ")
        found[int(source), int(target)] = nbytes
    assert (found == 3 * np.asarray(run.traffic)).all()


@pytest.mark.parametrize("flop", [1000, 14_000, 50_000])  # shorter than a transfer, as long, longer
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_what_was_overlapped_in_the_program_is_overlapped_here(flop, ranks):
    """Would catch overlap that is assumed, or lost: max(compute, transfer) a step, against their sum."""
    work = flop / SPEED
    for overlap in (True, False):
        run = ml.launch(made.attention_ring, overlap, flop, ranks=ranks)
        on = ml.replay(run, machine())
        step = max(work, STEP) if overlap else work + STEP
        assert float(on.seconds) == close((ranks - 1) * step + work)
        exposed = (ranks - 1) * (max(0.0, STEP - work) if overlap else STEP)
        assert list(on.exposed) == [close(exposed)] * ranks
        assert list(on.computing) == [close(ranks * work)] * ranks
        assert list(on.busy) == [close(ranks * work / float(on.seconds))] * ranks


def test_two_messages_of_one_pair_and_two_tags():
    """Would catch a channel whose messages overtake each other, and tags that wait for each other."""
    for tags, expected in (((0, 0), 2 * STEP), ((0, 1), ALPHA + 8000 / RATE)):
        first, second = made.scripts(2)
        for script, op, peer in ((first, "isend", 1), (second, "irecv", 0)):
            calls = [script.call(op, 4000, peer, tag=tag) for tag in tags]
            for call in calls:
                script.wait(call)
        assert float(ml.replay(made.run_of(first, second), machine()).seconds) == close(expected)


def test_a_message_begins_when_both_ends_are_posted_and_the_wait_is_seen():
    """Would catch a receive that ends before its late sender sent, and waiting that nobody sees."""
    first, second = made.scripts(2)
    first.compute(50_000)
    first.call("send", 4000, 1)
    second.call("recv", 4000, 0)
    second.compute(1000)
    on = ml.replay(made.run_of(first, second), machine())
    begin, end = 5e-5, 5e-5 + STEP
    rows = {(row.rank, row.kind): (row.start, row.end) for row in on.rows if row.kind != "compute"}
    assert rows[0, "send"] == rows[1, "recv"] == (close(begin), close(end))
    assert rows[1, "wait"] == (0, close(end)) and rows[0, "wait"] == (close(begin), close(end))
    assert list(on.by_rank) == [close(end), close(end + 1e-6)]


def test_a_collective_waits_for_a_member_that_comes_late():
    """Would catch bytes that are sent to a rank which is not there yet."""
    root, late = made.scripts(2)
    root.call("broadcast", 4000, root=0)
    late.compute(50_000)
    late.call("broadcast", 4000, root=0)
    on = ml.replay(made.run_of(root, late), machine())
    assert list(on.by_rank) == [close(5e-5 + STEP)] * 2 and list(on.exposed) == [
        close(5e-5 + STEP),
        close(STEP),
    ]


def test_groups_beside_each_other_do_not_disturb_each_other_on_a_mesh():
    """Would catch calls of one group that are paired with another's, or one clock for all groups."""

    def halves():
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        if dist.get_rank() < 2:
            dist.all_reduce(torch.ones(1200), group=groups[0])
        else:
            for _ in range(2):
                dist.all_reduce(torch.ones(1200), group=groups[1])
        dist.barrier()

    on = ml.replay(ml.launch(halves, ranks=4), machine())
    one = float(ml.seconds.ring_all_reduce(4800, 2, **LINK))
    assert float(on.seconds) == close(2 * one + 2 * ALPHA)  # a barrier of four: two rounds
    assert list(on.exposed) == [close(2 * one + 2 * ALPHA)] * 4
    ends = {row.rank: row.end for row in on.rows if row.what == "all_reduce" and row.kind == "collective"}
    assert ends == {0: close(one), 1: close(one), 2: close(2 * one), 3: close(2 * one)}


def test_a_group_over_two_hosts_takes_the_slower_links():
    """Would catch a map of ranks to cards that is not used."""
    run = ml.launch(lambda: dist.all_reduce(torch.ones(1 << 18)), ranks=4)
    inside = ml.replay(run, "two-atlas-a2", cards=[4, 5, 6, 7])
    across = ml.replay(run, "two-atlas-a2", cards=[0, 1, 8, 9])
    apart = ml.replay(run, "two-atlas-a2", cards=[0, 8, 1, 9])
    fast, slow = ({"alpha": 20e-6, "beta": 1 / rate} for rate in (28e9, 25e9))
    assert float(inside.seconds) == close(ml.seconds.ring_all_reduce(1 << 20, 4, **fast))
    assert float(apart.seconds) == close(ml.seconds.ring_all_reduce(1 << 20, 4, **slow))
    assert inside.seconds < across.seconds <= apart.seconds
    assert "cards 0, 1, 8, 9" in across.provenance and "two-atlas-a2" in across.provenance


def test_a_larger_case_than_the_one_recorded():
    """Would catch factors that are swapped, left out for collectives, or not said."""

    def block():
        ml.step("layer")
        recorder.compute(4000, what="linear")
        recorder.compute(1000, what="attention")
        dist.all_reduce(torch.ones(1200))

    run = ml.launch(block, ranks=4)
    on = ml.replay(run, machine(), bytes_times=10, flop_times={"linear": 2, "attention": 9})
    expected = (8000 + 9000) / SPEED + float(ml.seconds.ring_all_reduce(48_000, 4, **LINK))
    assert float(on.seconds) == close(expected)
    assert {row.nbytes for row in on.rows if row.kind == "collective"} == {48_000}
    assert "bytes x 10, FLOP x (linear: 2, attention: 9)" in on.provenance
    assert any("Scaled from what was run" in line for line in on.assumptions)
    assert float(ml.replay(run, machine(), bytes_times={"layer": 10}, rate=SPEED).seconds) == close(
        5000 / SPEED + float(ml.seconds.ring_all_reduce(48_000, 4, **LINK))
    )
    with pytest.raises(ValueError, match=r"flop_times names \['linear'\].*are \['attention', 'linear'\]"):
        ml.replay(run, machine(), flop_times={"linear": 2})
    with pytest.raises(ValueError, match="factors are numbers above 0"):
        ml.replay(run, machine(), bytes_times=0)


def test_nothing_of_the_runs_own_times_is_used_and_every_replay_is_the_same():
    """Would catch a laptop's seconds in a card's timeline, and an order that comes by chance."""
    run = ml.launch(made.attention_ring, True, 5000, ranks=4)
    first = ml.replay(run, "atlas-a2")
    shaken = [replace(event, start=-event.start, end=event.start + 99.0) for event in reversed(run.events)]
    again = ml.replay(replace(run, events=shaken), "atlas-a2")
    assert again.rows == first.rows and again.assumptions == first.assumptions
    assert list(again.ends) == list(first.ends) and again.link_bytes == first.link_bytes


def test_the_rate_of_a_card_is_chosen_and_said():
    """Would catch work that takes no time where a rate is unknown, and a peak taken for a rate."""
    script = made.Script(0, 1)
    script.compute(317e12)
    run = made.run_of(script)
    assert float(ml.replay(run, "hgx-h100").seconds) == close(1.0)
    assert float(ml.replay(run, "hgx-h100", efficiency=0.5).seconds) == close(317 / 494.5)
    assert float(ml.replay(run, "hgx-h100", rate=317e9).seconds) == close(1000.0)
    assert any("317 TFLOP/s a card (HunyuanVideo" in line for line in ml.replay(run, "hgx-h100").assumptions)
    with pytest.raises(MindlabError, match=r"how fast Ascend 910C.*is unknown.*rate="):
        ml.replay(run, "cloudmatrix-384")
    with pytest.raises(MindlabError, match=r"peak of Ascend 910B is unknown.*give rate"):
        ml.replay(run, "atlas-a2", efficiency=0.4)
    with pytest.raises(ValueError, match="both given"):
        ml.replay(run, "hgx-h100", rate=1, efficiency=1)
    with pytest.raises(ValueError, match="rate=0: give a number above 0"):
        ml.replay(run, "hgx-h100", rate=0)
    idle = ml.launch(lambda: dist.barrier(), ranks=2)  # states no work: the argument is as wrong
    with pytest.raises(ValueError, match="rate=nan: give a number above 0"):
        ml.replay(idle, "hgx-h100", rate=float("nan"))
    with pytest.raises(ValueError, match="both given"):
        ml.replay(idle, "hgx-h100", rate=1, efficiency=1)


def test_a_run_that_states_no_work_says_so():
    """Would catch a picture of communication alone that looks like the whole."""
    run = ml.launch(lambda: dist.all_reduce(torch.ones(8)), ranks=2)
    on = ml.replay(run, "cloudmatrix-384")  # whose rate is unknown, and not needed here
    assert "The run states no work: only communication is modelled." in on.assumptions
    assert list(on.busy) == [0, 0] and on.ends.provenance == on.exposed.provenance == "modelled"
    assert "modelled on cloudmatrix-384" in repr(on) and "all_reduce: ring" in on._repr_html_()
