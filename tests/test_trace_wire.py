"""Bytes between ranks as the kernel counted them: payload exact to the byte, framing apart."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.trace import frames, meter
from mindlab.trace.record import Record
from mindlab.trace.row import Row
from mindlab.trace.sockets import SocketCount

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is read on Linux only")
warnings.simplefilter("ignore", FutureWarning)


def _payload(run):
    assert run.wire is not None, run.why_no_wire
    assert run.wire.payload is not None, run.wire.note
    assert (run.wire.total == run.wire.framing + run.wire.payload).all() and (run.wire.payload >= 0).all()
    return np.asarray(run.wire.payload)


def _run(fn, ranks, *args):
    return _payload(ml.launch(fn, *args, ranks=ranks))


@on_linux
@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_our_messages_are_exact(ranks, count):
    """Would catch one byte too many or too few, zero-size messages, and p = 2 where left is right."""

    def shift(count):
        me, p = dist.get_rank(), dist.get_world_size()
        works = [dist.isend(torch.ones(count), (me + 1) % p), dist.irecv(torch.ones(count), (me - 1) % p)]
        for work in works:
            work.wait()

    wanted = np.zeros((ranks, ranks), dtype=int)
    for rank in range(ranks):
        wanted[rank, (rank + 1) % ranks] = 4 * count
    run = ml.launch(shift, count, ranks=ranks)
    assert (_payload(run) == wanted).all() and (run.traffic == wanted).all()
    assert run.wire.framing.sum() == 144 * ranks


@on_linux
@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [12, 1001, 60 * 1024])
def test_all_reduce_moves_twice_p_minus_one_over_p(ranks, count):
    """Would catch a payload with gloo's headers in it; also where p does not divide the size."""
    payload = _run(lambda n: dist.all_reduce(torch.ones(n)), ranks, count)
    assert payload.sum() == 2 * (ranks - 1) * 4 * count
    if count % (2 * ranks) == 0:
        assert (payload.sum(axis=1) == 2 * (ranks - 1) * 4 * count // ranks).all()
    towards_left = [payload[rank, (rank - 1) % ranks] for rank in range(ranks)]
    assert sum(towards_left) == payload.sum()


@on_linux
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_library_moves_what_its_algorithm_says(ranks):
    """Would catch a wrong number of messages for any of gloo's patterns, alone and one after the other."""
    p, nbytes = ranks, 4 * 24

    def calls(name):
        warnings.simplefilter("ignore")
        me, p = dist.get_rank(), dist.get_world_size()
        x, whole, parts = torch.ones(24), torch.ones(24 * p), [torch.ones(24) for _ in range(p)]
        todo = {
            "all_gather": lambda: dist.all_gather(parts, x),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, x),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(x, whole),
            "reduce_scatter": lambda: dist.reduce_scatter(x, parts),
            "all_to_all_single": lambda: dist.all_to_all_single(whole, whole.clone()),
            "broadcast": lambda: dist.broadcast(x, p - 1),
            "scatter": lambda: dist.scatter(x, parts if me == 0 else None, 0),
            "gather": lambda: dist.gather(x, parts if me == 1 else None, 1),
            "barrier": lambda: dist.barrier(),
        }
        for call in todo.values() if name == "all" else [todo[name]]:
            call()

    wanted = {
        "all_gather": p * (p - 1) * nbytes,
        "all_gather_into_tensor": p * (p - 1) * nbytes,
        "reduce_scatter_tensor": 2 * (p - 1) * p * nbytes,  # gloo's is an all-reduce of everything
        "reduce_scatter": 2 * (p - 1) * p * nbytes,
        "all_to_all_single": p * (p - 1) * nbytes,
        "broadcast": (p - 1) * nbytes,
        "scatter": (p - 1) * nbytes,
        "gather": (p - 1) * nbytes,
        "barrier": 0,
    }
    for name, total in wanted.items():
        assert _run(calls, ranks, name).sum() == total, name
    assert _run(calls, ranks, "all").sum() == sum(wanted.values())


@on_linux
def test_large_tensors_go_in_segments():
    """Would catch the count of messages above 1 MiB a segment, for all_reduce and for gloo's long reduce."""
    payload = _run(lambda: dist.all_reduce(torch.ones(4 << 20)), 2)
    assert (payload.sum(axis=1) == 16 << 20).all()
    payload = _run(lambda: dist.reduce(torch.ones(4 << 20), 0), 2)
    assert payload[0, 1] == 14 << 20 and payload[1, 0] == (14 << 20) + (8 << 20)


@on_linux
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64, torch.complex64])
def test_elements_of_other_sizes(dtype):
    """Would catch segments rounded to the wrong element: gloo sees a complex number as two."""
    x = torch.ones(7, dtype=dtype)
    payload = _run(lambda: dist.all_reduce(torch.ones(7, dtype=dtype)), 3)
    assert payload.sum() == 2 * 2 * x.nbytes


@on_linux
def test_objects_are_exact():
    """Would catch an object form whose inner calls are not all counted: counted and wire must agree."""

    def objects():
        me, p = dist.get_rank(), dist.get_world_size()
        dist.all_gather_object([None] * p, "a" * 5)
        dist.broadcast_object_list([{"x": me}], src=1)
        dist.scatter_object_list([None], ["b"] * p if me == 0 else None, src=0)
        dist.gather_object("c", [None] * p if me == 0 else None)
        if me == 0:
            dist.send_object_list(["d", 1], dst=2)
        if me == 2:
            dist.recv_object_list([None, None], src=0)

    run = ml.launch(objects, ranks=3)
    assert _payload(run).sum() == run.traffic.sum()


@on_linux
def test_sub_groups_that_connect_meanwhile_are_counted_from_nothing():
    """Would catch the bytes of a new connection's greeting in the payload, or the new sockets left out."""

    def work():
        group = dist.new_group([0, 2])
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(10), group=group)

    run = ml.launch(work, ranks=3)
    payload = _payload(run)
    assert payload[0, 2] == payload[2, 0] == 40 and payload.sum() == 80


@on_linux
def test_asynchronous_and_batched_calls_are_exact():
    """Would catch counters that are read while something is still on its way."""

    def work():
        me, p = dist.get_rank(), dist.get_world_size()
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]
        ops = [dist.P2POp(dist.isend, torch.ones(50), peer) for peer in range(p) if peer != me]
        ops += [dist.P2POp(dist.irecv, torch.ones(50), peer) for peer in range(p) if peer != me]
        for item in [*works, *dist.batch_isend_irecv(ops)]:
            item.wait()

    payload = _run(work, 3)
    assert payload.sum() == 3 * 2 * 2 * 4000 + 6 * 200


@on_linux
def test_bytes_that_no_recorded_call_explains_are_not_called_payload():
    """Would catch a functional collective, which nobody records, passed off as framing or as nothing."""

    def hidden():
        import torch.distributed._functional_collectives as functional

        return functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item()

    run = ml.launch(hidden, ranks=3)
    assert run.wire.payload is None and "no recorded call explains" in run.wire.note
    assert run.wire.total.sum() > 0 and "with framing" in repr(run)


@on_linux
def test_a_message_that_nobody_received_is_no_payload():
    """Would catch the announcement of an isend without a receive counted as 48 bytes of data."""

    def lost():
        if dist.get_rank() == 0:
            work = dist.isend(torch.ones(2), 1)
            return work is not None
        return True

    run = ml.launch(lost, ranks=2)
    assert run.wire.payload is None and "not received" in run.wire.note


def test_one_rank_sends_nothing():
    """Would catch a lone rank that is told it has no connections."""
    run = ml.launch(lambda: dist.all_reduce(torch.ones(3)), ranks=1)
    assert run.wire is None or run.wire.total.tolist() == [[0]]


def _ends(sent=0, received=0, back=0, inode=1, accepted=False):
    here, there = ("127.0.0.1", 1000 + inode), ("127.0.0.1", 2000 + inode)
    return (
        SocketCount(here, there, back, sent, inode, accepted),
        SocketCount(there, here, received, back, inode + 100, not accepted),
    )


def test_counters_are_settled_when_both_ends_agree():
    """Would catch a count that is taken while bytes are still on their way."""
    mine, other = _ends(sent=100, received=60)
    assert not meter.settled([[], []], [[mine], [other]])
    mine, other = _ends(sent=100, received=100)
    assert meter.settled([[], []], [[mine], [other]])


def test_sockets_to_the_outside_are_left_out():
    """Would catch a store's or a web page's bytes in the traffic between ranks."""
    mine, other = _ends()
    store = SocketCount(("127.0.0.1", 5), ("127.0.0.1", 6), 999, 999, 77)
    assert len(meter.edges([[mine, store], [other]])) == 2


def test_bytes_sent_before_the_peer_looked_still_count():
    """Would catch traffic lost because the receiver read its first counters late."""
    row = Row(index=0, op="send", group=(0, 1), number=0, nbytes=4, dtype="float32", peer=1)
    calls = [(*(getattr(row, name) for name in Row.__dataclass_fields__), "", "", "", ())]
    before_mine, _ = _ends(sent=0)
    _, before_other = _ends(received=100)  # the message is there already
    mine, other = _ends(sent=100, received=100, back=48)
    wire, _ = meter.wire_between(
        [[before_mine], [before_other]], [[mine], [other]], [Record(0, calls), Record(1)]
    )
    assert wire.payload.tolist() == [[0, 4], [0, 0]] and wire.framing.tolist() == [[0, 96], [48, 0]]


def test_closed_connections_are_said():
    """Would catch a group destroyed in the experiment, whose bytes are gone, passed over in silence."""
    old, kept = _ends(inode=1), _ends(inode=2)
    before = [[old[0], kept[0]], [old[1], kept[1]]]
    wire, _ = meter.wire_between(before, [[kept[0]], [kept[1]]], [Record(0), Record(1)])
    assert "1 connections were closed" in wire.note


def test_an_unknown_call_leaves_the_payload_open():
    """Would catch a guess for a collective whose messages nobody has measured."""
    row = Row(index=0, op="some_new_collective", group=(0, 1), number=0, communicator="0")
    assert frames.messages(row) is None
    calls = [(*(getattr(row, name) for name in Row.__dataclass_fields__), "", "", "", ())]
    mine, other = _ends(sent=500, received=500)
    wire, _ = meter.wire_between([[], []], [[mine], [other]], [Record(0, calls), Record(1)])
    assert wire.payload is None and "some_new_collective" in wire.note
