"""What a replay does with a record that lacks something, orders no machine could keep, and unknown calls."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace

import pytest
import replay_runs as made
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.parallel import ring
from mindlab.planning import topologies

STEP = 1e-5 + 4000 / 1e9


def machine(cards=8, shape="mesh"):
    return topologies.uniform(cards, alpha=1e-5, bandwidth=1e9, rate=1e9, shape=shape)


def close(expected):
    """Equal but for the rounding of sums of floats."""
    return pytest.approx(float(expected), rel=1e-9, abs=1e-15)


def test_sends_that_were_buffered_do_not_stop_the_replay():
    """Would catch ranks that wait in a circle for ever: both send first, as a backend with buffers allows."""
    both = made.scripts(2)
    for script in both:
        script.call("send", 4000, 1 - script.rank)
        script.call("recv", 4000, 1 - script.rank)
    on = ml.replay(made.run_of(*both), machine())
    # The first message is let go. When rank 0's send has ended, it receives, and the other one may begin.
    assert float(on.seconds) == close(2 * STEP)
    assert any(line.startswith("1 messages began before their receive was posted") for line in on.assumptions)


def test_in_a_circle_the_send_that_waited_longest_is_let_go():
    """Would catch the later send let go: rank 1 would be through before rank 0 has computed.

    Rank 0 sends at 2 s, rank 1 at 5 s: then nothing goes on. Rank 0's message takes 5 to 14, its work lasts
    to 114, and only then does it take the other message, to 127.
    """
    early, later = made.scripts(2)
    early.compute(2)
    early.call("send", 8, 1)
    early.compute(100)
    early.call("recv", 12, 1)
    later.compute(5)
    later.call("send", 12, 0)
    later.call("recv", 8, 0)
    on = ml.replay(made.run_of(early, later), topologies.uniform(2, alpha=1.0, bandwidth=1.0, rate=1.0))
    assert list(on.by_rank) == [close(127), close(127)]


def test_a_collective_that_one_rank_joins_late_does_not_stop_the_replay():
    """Would catch a broadcast whose root may go on in a library, and stands in a circle here."""
    root, late, last = made.scripts(3)
    for script in (root, last):
        script.call("broadcast", 4000, root=0)
    root.call("send", 4000, 1)
    late.call("recv", 4000, 0)
    late.call("broadcast", 4000, root=0)
    on = ml.replay(made.run_of(root, late, last), machine())
    assert 2 * STEP < float(on.seconds) * (1 + 1e-9) <= 4 * STEP
    assert any("began before their receive was posted" in line for line in on.assumptions)


@pytest.mark.parametrize("seed", range(20))
def test_every_order_that_real_ranks_can_keep_comes_to_an_end(seed):
    """Would catch a replay that stands still, or pairs messages of other tags."""
    draws = random.Random(seed)
    ranks = draws.randint(2, 6)
    programs = made.scripts(ranks)
    pending: list[tuple[made.Script, int]] = []
    volume = 0
    for _ in range(40):
        source, target = draws.sample(range(ranks), 2)
        nbytes, tag = 4 * draws.randint(1, 1000), draws.randint(0, 2)
        volume += nbytes
        for rank, op, peer in ((source, "send", target), (target, "recv", source)):
            blocking = draws.random() < 0.5
            call = programs[rank].call(op if blocking else f"i{op}", nbytes, peer, tag=tag)
            if not blocking:
                pending.append((programs[rank], call))
        if draws.random() < 0.3:
            programs[draws.randrange(ranks)].compute(draws.randint(1, 10_000))
        if draws.random() < 0.2:
            for script, call in pending:
                script.wait(call)
            pending.clear()
    for script, call in pending:
        script.wait(call)
    on = ml.replay(made.run_of(*programs), machine(shape=draws.choice(["mesh", "switch"])))
    assert not any("circle" in line for line in on.assumptions)
    assert sum(on.link_bytes.values()) >= volume
    slowest = sum(row.end - row.start for row in on.rows if row.kind in ("send", "compute"))
    assert 0 < float(on.seconds) <= slowest * (1 + 1e-9)


def test_a_wait_that_nobody_saw_comes_at_the_end():
    """Would catch a transfer that is forgotten, or waited for at once, where a future was taken."""
    first, second = made.scripts(2)
    first.call("isend", 4000, 1)
    first.compute(5000)
    second.call("recv", 4000, 0)
    run = made.run_of(first, second)
    on = ml.replay(run, machine())
    assert list(on.by_rank) == [close(STEP), close(STEP)] and on.exposed[0] == close(STEP - 5e-6)
    assert any("Of 1 asynchronous calls nobody saw the wait" in line for line in on.assumptions)
    unended = replace(run, events=[replace(e, end=None) if e.op == "isend" else e for e in run.events])
    assert list(ml.replay(unended, machine()).exposed) == [0, close(STEP)]


def test_a_message_without_its_other_end_moves_nothing_and_is_said():
    """Would catch a replay that waits for a receive which is not in the record."""
    first, second = made.scripts(2)
    first.call("isend", 4000, 1)
    first.call("send", 4000, 1, tag=3)
    second.call("recv", 4000, 0)
    on = ml.replay(made.run_of(first, second), machine())
    assert float(on.seconds) == close(STEP)
    assert any(line.startswith("1 calls have no other end") for line in on.assumptions)


def _everything():
    warnings.simplefilter("ignore")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, parts = torch.ones(2), [torch.ones(2) for _ in range(ranks)]
    dist.reduce(x, dst=1)
    dist.gather(x, list(parts) if rank == 0 else None)
    dist.scatter(x, list(parts) if rank == 1 else None, src=1)
    dist.reduce_scatter(x, list(parts))
    dist.all_to_all([torch.empty(2) for _ in parts], parts)
    dist.all_to_all_single(torch.zeros(rank * ranks), torch.ones(3), [rank] * ranks, [0, 1, 2])
    dist.all_reduce_coalesced([x, torch.ones(3)])
    dist.all_gather_coalesced([[torch.zeros(2), torch.zeros(3)] for _ in parts], [x, torch.ones(3)])
    dist.barrier()
    dist.monitored_barrier()
    objects = [None] * ranks
    dist.all_gather_object(objects, "a")
    dist.broadcast_object_list(objects, src=0)
    dist.gather_object("a", objects if rank == 0 else None)
    dist.send_object_list([1], 1) if rank == 0 else rank == 1 and dist.recv_object_list([None], 0)
    dist.all_reduce(torch.ones(0))


def test_every_call_that_is_recorded_can_be_replayed():
    """Would catch an operation that the recorder knows and the replay does not."""
    on = ml.replay(ml.launch(_everything, ranks=3), machine())
    assert float(on.seconds) > 0
    assert {row.what for row in on.rows} >= {"reduce", "gather", "scatter", "all_to_all", "all_gather_object"}
    assert not any("no other end" in line or "circle" in line for line in on.assumptions)


def test_uneven_all_to_all_takes_as_long_as_its_largest_round():
    """Would catch an average in place of what each pair really sends.

    Rank r gets r rows of 4 bytes from each: pairwise, round k sends r+k rows from r. A rank goes on when its
    own messages of the round have ended.
    """

    def uneven():
        rank, ranks = dist.get_rank(), dist.get_world_size()
        dist.all_to_all_single(torch.zeros(rank * ranks), torch.ones(3), [rank] * ranks, [0, 1, 2])

    on = ml.replay(ml.launch(uneven, ranks=3), machine())
    assert on.link_bytes == {"link 0 → 1": 4, "link 0 → 2": 8, "link 1 → 2": 8, "link 2 → 1": 4}
    # Rank 2 ends its first round with 8 B from rank 1; only then may rank 0 send it 8 B in the second.
    assert float(on.seconds) == close(2 * (1e-5 + 8 / 1e9))


def test_overlap_of_ring_attention_is_in_the_record():
    """Would catch a strategy whose overlap is lost between the program and the replay."""

    def attend(overlap):
        q = torch.randn(1, 16, 2, 8)
        return ring.ring_attention(q, q, q, overlap=overlap, sizes=[16] * dist.get_world_size())

    runs = [ml.launch(attend, overlap, ranks=4) for overlap in (True, False)]
    assert all(run.work for run in runs)
    rate = sum(work.flop for work in runs[0].work if work.rank == 0) / 4 / STEP  # as long as a transfer
    over, apart = (ml.replay(run, machine(), rate=rate) for run in runs)
    assert over.seconds < 0.8 * apart.seconds
    assert list(over.computing) == [close(value) for value in apart.computing]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda events: events[:-1], r"all_reduce number 1 .* no call of rank 1: the run is not whole"),
        (lambda events: events[1:], r"rank 0 has calls \[1\].*not 0 to 0: the run is not whole"),
        (lambda events: [replace(e, op="all_scatter") for e in events], "all_scatter cannot be replayed"),
        (
            lambda events: [*events[:-1], replace(events[-1], op="barrier")],
            "call 1 of group .* is all_reduce on rank 0 and barrier on another",
        ),
        (lambda events: [replace(e, asynchronous=True, waited=9) for e in events], "was waited for at 9"),
        (lambda events: [replace(e, asynchronous=True, waited=0) for e in events], "was waited for at 0"),
    ],
)
def test_a_run_that_is_not_whole_is_refused(change, said):
    """Would catch a replay of a half-recorded run that looks like a whole one."""
    programs = made.scripts(2)
    for script in programs:
        for _ in range(2):
            script.call("all_reduce", 4000)
    run = made.run_of(*programs)
    with pytest.raises(MindlabError, match=said):
        ml.replay(replace(run, events=change(run.events)), machine())


def test_choices_that_cannot_be_are_refused():
    """Would catch a misspelt algorithm or machine that falls back to another one."""
    run = made.run_of(*made.scripts(9))
    with pytest.raises(ValueError, match="9 ranks do not fit on atlas-a2, which has 8 cards"):
        ml.replay(run, "atlas-a2")
    with pytest.raises(ValueError, match=r"algorithms\['all_reduce'\]='rings': choose ring or mesh or tree"):
        ml.replay(run, "two-atlas-a2", algorithms={"all_reduce": "rings"})
    with pytest.raises(ValueError, match="algorithms names 'allreduce'; it can name all_reduce"):
        ml.replay(run, "two-atlas-a2", algorithms={"allreduce": "ring"})
    with pytest.raises(MindlabError, match="unknown topology"):
        ml.replay(run, "atlas")
    assert float(ml.replay(run, "two-atlas-a2").seconds) == 0
