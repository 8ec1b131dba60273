"""What gloo gets wrong in silence ends the experiment with the line, or is noted."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import Mismatch, RankFailed
from mindlab.trace import guards


def _column():
    return torch.ones(2, 2)[:, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: dist.all_reduce(_column()),
        lambda: dist.broadcast(_column(), 0),
        lambda: dist.reduce(_column(), 0),
        lambda: dist.scatter(_column(), [torch.ones(2)] * 2 if dist.get_rank() == 0 else None, 0),
        lambda: dist.all_gather([torch.ones(2), _column()], torch.ones(2)),
        lambda: dist.reduce_scatter(_column(), [torch.ones(2)] * 2),
        lambda: dist.send(_column(), 1) if dist.get_rank() == 0 else dist.recv(torch.ones(2), 0),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, _column(), 1 - dist.get_rank())]),
    ],
)
def test_a_strided_tensor_is_refused_before_the_call(call):
    """Would catch sums over the wrong elements: gloo reads a column as if it were a row."""
    with pytest.raises(RankFailed, match="not contiguous") as caught:
        ml.launch(call, ranks=2, timeout=20)
    assert caught.value.kind == "UnsafeCall" and "contiguous()" in str(caught.value)
    assert "test_trace_guards.py, line" in str(caught.value)


def _changed(how):
    me = dist.get_rank()
    x, y = torch.arange(8.0), torch.zeros(4)
    if me == 0:
        work = dist.isend(x[:4], 1)
        how(x)
        work.wait()
    else:
        dist.recv(y, 0)
    return y.tolist()


def test_a_send_buffer_changed_before_wait_is_refused():
    """Would catch a receiver that gets the values of the next step."""

    def change(x):
        x[1] = -9

    with pytest.raises(RankFailed, match="changed before wait") as caught:
        ml.launch(_changed, change, ranks=2, timeout=20)
    assert caught.value.rank == 0 and "clone()" in str(caught.value)


def test_another_part_of_the_same_storage_may_be_changed():
    """Would catch a false alarm on double buffering: two halves of one tensor."""

    def change(x):
        x[4:] = -9

    assert ml.launch(_changed, change, ranks=2, timeout=20).values[1] == [0.0, 1.0, 2.0, 3.0]


def test_an_asynchronous_all_reduce_changed_before_wait_is_refused():
    """Would catch a race that shows only sometimes: the tensor is the sum's input and its output."""

    def race():
        x = torch.ones(4)
        work = dist.all_reduce(x, async_op=True)
        x.add_(1)
        work.wait()

    with pytest.raises(RankFailed, match=r"all_reduce .* was changed before wait"):
        ml.launch(race, ranks=2, timeout=20)


def test_untouched_buffers_pass():
    """Would catch an alarm from the backend's own writing."""

    def work():
        me, p = dist.get_rank(), dist.get_world_size()
        x, out = torch.full((3,), float(me)), [torch.zeros(3) for _ in range(p)]
        for call in (
            lambda: dist.all_reduce(x, async_op=True),
            lambda: dist.broadcast(x, 0, async_op=True),
            lambda: dist.all_gather(out, x, async_op=True),
            lambda: dist.reduce(x, 0, async_op=True),
            lambda: dist.all_reduce_coalesced([x, x.clone()], async_op=True),
            lambda: dist.all_to_all_single(torch.zeros(2), torch.ones(2), async_op=True),
        ):
            call().wait()
        return True

    assert ml.launch(work, ranks=2, timeout=20).values == [True, True]


@pytest.mark.parametrize("size", [1, 10_000, 1_000_000])
def test_the_checksum_sees_a_filled_buffer(size):
    """Would catch a sample that skips what changed, at sizes that are compared whole and in part."""
    x = torch.ones(size)
    buffer = guards.Buffer(x, in_place=False)
    assert not buffer.changed()
    x.fill_(2)
    assert buffer.changed()
    x.fill_(1)
    assert not buffer.changed()


def test_sizes_that_differ_are_found_although_gloo_returns():
    """Would catch the stale tail of a receive of 5 from a send of 3, and sums over unequal shards."""

    def short():
        if dist.get_rank() == 0:
            dist.send(torch.ones(3), 1)
        else:
            dist.recv(torch.zeros(5), 0)

    with pytest.raises(Mismatch, match="sends 12 B, rank 1 has room for 20 B"):
        ml.launch(short, ranks=2, timeout=20)
    with pytest.raises(Mismatch, match="other shapes"):
        ml.launch(lambda: dist.all_reduce(torch.ones(5 - 2 * dist.get_rank())), ranks=2, timeout=20)


def test_groups_created_in_another_order_are_found():
    """Would catch 9, 6, 6, 9 where 3, 3, 12, 12 is right: groups of other ranks under one name."""

    def mixed():
        pairs = [[0, 1], [2, 3]] if dist.get_rank() % 2 == 0 else [[2, 3], [0, 1]]
        groups = {tuple(pair): dist.new_group(pair) for pair in pairs}
        x = torch.tensor([2.0 ** dist.get_rank()])
        dist.all_reduce(x, group=groups[(0, 1) if dist.get_rank() < 2 else (2, 3)])
        return x.item()

    with pytest.raises(Mismatch, match="create their groups in another order"):
        ml.launch(mixed, ranks=4, timeout=20)


def test_tensors_taken_in_another_order_are_noted():
    """Would catch k and v exchanged: same sizes, same tag, no error."""

    def swap():
        k, v = torch.full((2,), 10.0), torch.full((2,), 20.0)
        if dist.get_rank() == 0:
            dist.send(k, 1)
            dist.send(v, 1)
        else:
            dist.recv(v, 0)
            dist.recv(k, 0)

    (note,) = ml.launch(swap, ranks=2, timeout=20).notes
    assert "carries k" in note and "into v" in note and "test_trace_guards.py, line" in note


def test_guards_can_be_left_out():
    """Would catch a guard that a timing cannot switch off."""
    with ml.timing():
        run = ml.launch(lambda: dist.all_reduce(_column()), ranks=2, timeout=20)
    assert "guards were off" in run.notes
