"""Every call of torch.distributed that moves data becomes one row, on real ranks."""

from __future__ import annotations

import contextlib
import itertools
import time
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed import all_reduce as imported_all_reduce

import mindlab as ml

warnings.simplefilter("ignore", FutureWarning)


def _tensors(count, size=2):
    return [torch.zeros(size) for _ in range(count)]


def _collectives():
    warnings.simplefilter("ignore")
    me, p = dist.get_rank(), dist.get_world_size()
    x, whole = torch.ones(2), torch.ones(2 * p)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    dist.reduce(x, dst=1)
    dist.broadcast(tensor=x, group_src=2)
    dist.all_gather(_tensors(p), x)
    dist.all_gather_into_tensor(whole, x)
    dist.reduce_scatter(x, _tensors(p))
    dist.reduce_scatter_tensor(x, whole)
    dist.all_to_all(_tensors(p), _tensors(p))
    dist.all_to_all_single(torch.zeros(me * p), torch.ones(3), [me] * p, [0, 1, 2])
    dist.gather(x, _tensors(p) if me == 0 else None)
    dist.scatter(x, _tensors(p) if me == 1 else None, src=1)
    dist.barrier()
    dist.monitored_barrier()
    dist.all_reduce_coalesced([x, torch.ones(3)])
    dist.all_gather_coalesced([[torch.zeros(2), torch.zeros(3)] for _ in range(p)], [x, torch.ones(3)])
    objects = [None] * p
    dist.all_gather_object(objects, "a")
    dist.gather_object("a", objects if me == 0 else None)
    dist.broadcast_object_list(objects, src=0)
    dist.scatter_object_list([None], objects if me == 0 else None, src=0)
    if hasattr(dist, "all_gather_single"):
        dist.all_gather_single(whole, x)
        dist.reduce_scatter_single(x, whole)


@pytest.fixture(scope="module")
def collectives():
    return ml.launch(_collectives, ranks=3)


def _of(run, rank=0):
    return [event for event in run.events if event.rank == rank]


def test_each_collective_is_one_row(collectives):
    """Would catch a function that is not wrapped, and the calls inside one recorded a second time."""
    expected = [
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "all_gather_into_tensor",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "all_to_all",
        "all_to_all_single",
        "gather",
        "scatter",
        "barrier",
        "monitored_barrier",
        "all_reduce_coalesced",
        "all_gather_coalesced",
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
    ]
    if hasattr(dist, "all_gather_single"):
        expected += ["all_gather_single", "reduce_scatter_single"]
    for rank in range(3):
        mine = _of(collectives, rank)
        assert [event.op for event in mine] == expected
        assert [event.index for event in mine] == list(range(len(expected)))
        assert all(event.end >= event.start >= 0 and event.group == (0, 1, 2) for event in mine)
    assert collectives.notes == []


def test_the_arguments_are_read_in_every_spelling(collectives):
    """Would catch roots given by place, by keyword, within the group, or left to their default."""
    rows = {event.op: event for event in _of(collectives)}
    assert (rows["all_reduce"].reduction, rows["reduce"].reduction) == ("max", "sum")
    assert [rows[op].root for op in ("reduce", "broadcast", "gather", "scatter")] == [1, 2, 0, 1]
    assert rows["all_reduce"].nbytes == 8 and rows["all_reduce"].dtype == "float32"
    assert rows["all_reduce_coalesced"].nbytes == 20 and rows["reduce_scatter"].nbytes == 24
    assert rows["all_to_all_single"].sends == ((1, 4), (2, 8)) and rows["all_to_all_single"].receives == ()
    assert rows["all_gather"].sends == ((1, 8), (2, 8)) == rows["all_gather"].receives
    assert rows["broadcast"].receives == ((2, 8),) and rows["all_reduce"].sends == ()
    assert rows["all_reduce"].line.startswith("test_trace_recorder.py, line ")
    assert rows["all_reduce"].code == "dist.all_reduce(x, dist.ReduceOp.MAX)"


def test_objects_count_the_bytes_that_they_became(collectives):
    """Would catch an object form whose bytes are left out of the traffic without a word."""
    row = next(event for event in _of(collectives) if event.op == "all_gather_object")
    assert row.dtype == "object" and row.nbytes > 8 and dict(row.sends)[1] == row.nbytes


def _messages(box):
    me, p = dist.get_rank(), dist.get_world_size()
    right, left = (me + 1) % p, (me - 1) % p
    x, y = torch.ones(3), torch.zeros(3)
    if me == 0:
        dist.send(x, 1, tag=4)
        dist.send(x, group_dst=1)
        dist.send_object_list(["a"], dst=1)
    if me == 1:
        dist.recv(tensor=y, src=0, tag=4)
        assert dist.recv(y) == 0
        dist.recv_object_list([None], src=0)
    ops = [
        dist.P2POp(dist.isend, x, right),
        dist.P2POp(dist.irecv, y, left),
    ]
    works = dist.batch_isend_irecv(ops)
    assert all(isinstance(work, dist.Work) for work in works)
    for work in works:
        work.wait()
    return y.sum().item()


def test_each_message_is_one_row_with_its_own_line():
    """Would catch a batch that is one row, or whose rows all carry the line of the batch."""
    run = ml.launch(_messages, "box", ranks=3)
    assert run.values == [3.0, 3.0, 3.0]
    zero, one = _of(run, 0), _of(run, 1)
    assert [e.op for e in zero] == ["send", "send", "send_object_list", "isend", "irecv"]
    assert [e.peer for e in zero] == [1, 1, 1, 1, 2] and zero[0].tag == 4
    assert [e.op for e in one] == ["recv", "recv", "recv_object_list", "isend", "irecv"]
    assert [e.peer for e in one] == [0, 0, 0, 2, 0], "a receive from any rank learns its sender"
    assert "dist.isend" in zero[3].code and "dist.irecv" in zero[4].code
    assert run.traffic[0, 1] == 12 * 3 + zero[2].nbytes and run.traffic[1, 2] == 12 == run.traffic[2, 0]
    assert run.received[1] == run.traffic[0, 1]


def test_receives_end_after_their_sends_begin():
    """Would catch clocks of ranks that are not the same one."""

    def ping(times):
        me, x = dist.get_rank(), torch.ones(1)
        for turn in range(times):
            if turn % 2 == me:
                dist.send(x, 1 - me)
            else:
                dist.recv(x, 1 - me)

    run = ml.launch(ping, 40, ranks=2)
    sends = [e for e in run.events if e.op == "send"]
    receives = [e for e in run.events if e.op == "recv"]
    assert len(sends) == 40 and all(r.end >= s.start for s, r in zip(sends, receives, strict=True))
    assert all(b.start >= a.start for a, b in itertools.pairwise(sends))


def test_an_asynchronous_collective_has_its_true_end():
    """Would catch an end that is only when somebody looked: half a second later here."""

    def late():
        work = dist.all_reduce(torch.ones(4), async_op=True)
        time.sleep(0.5)
        work.wait()

    (event, _) = ml.launch(late, ranks=2).events
    assert event.asynchronous and event.end - event.start < 0.4


def test_a_message_ends_when_its_wait_returned():
    """Would catch an end at the call itself, before the data can have moved."""

    def late():
        me = dist.get_rank()
        taken = dist.irecv(torch.zeros(1), 1 - me)
        sent = dist.isend(torch.ones(1), 1 - me)
        time.sleep(0.3)
        sent.wait(), taken.wait()

    assert all(event.end - event.start > 0.25 for event in ml.launch(late, ranks=2).events)


def test_what_nobody_waited_for_is_said():
    """Would catch a made-up end: it is unknown, and the note names the line."""

    def forget():
        me = dist.get_rank()
        works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(2)]
        dist.barrier()
        return me * len(works)

    run = ml.launch(forget, ranks=2)
    assert [event.end is None for event in run.events if event.op == "all_reduce"] == [True] * 4
    assert (
        sum("nobody waited for all_reduce (test_trace_recorder.py, line" in note for note in run.notes) == 2
    )


def test_other_ways_to_wait_close_a_row_too():
    """Would catch a row left open after is_completed(), a future, or the coalesced form's future."""
    warnings.simplefilter("ignore", FutureWarning)

    def wait():
        x = torch.ones(2)
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        dist.all_reduce(x, async_op=True).get_future().wait()
        dist.all_reduce_coalesced([x], async_op=True).wait()
        return x.tolist()

    run = ml.launch(wait, ranks=2)
    assert run.values == [[8.0, 8.0]] * 2 and run.notes == []
    assert all(event.end is not None for event in run.events)


def test_names_imported_from_torch_distributed_are_recorded():
    """Would catch wrappers that stand in one module only: the function travels by its name."""
    run = ml.launch(lambda: imported_all_reduce(torch.ones(1)), ranks=2)
    assert [event.op for event in run.events] == ["all_reduce"] * 2


def test_sub_groups_have_global_ranks_and_creations_are_no_events():
    """Would catch ranks counted within the group, and new_group in the list of transfers."""

    def work():
        halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        me = dist.get_rank()
        mine = halves[me % 2]
        dist.broadcast(torch.ones(2), group=mine, group_src=1)
        if me < 2:
            dist.send(torch.ones(1), group=mine, group_dst=1)
        else:
            dist.recv(torch.ones(1), group=mine, group_src=0)

    run = ml.launch(work, ranks=4)
    assert len(run.events) == 8
    (first, second) = _of(run, 1)
    assert first.group == (1, 3) and first.root == 3 and first.receives == ((3, 8),)
    assert second.op == "send" and second.peer == 3
    assert run.traffic.sum() == 2 * 8 + 2 * 4


def test_a_call_that_torch_refuses_is_no_row():
    """Would catch a transfer in the record that never happened."""

    def work():
        with contextlib.suppress(TypeError):
            dist.all_reduce("not a tensor")
        with contextlib.suppress(ValueError):
            dist.send(torch.ones(1), dst=dist.get_rank())
        dist.barrier()

    run = ml.launch(work, ranks=2)
    assert [event.op for event in run.events] == ["barrier", "barrier"]
