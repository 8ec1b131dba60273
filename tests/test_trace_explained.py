"""The wire's payload against the recorded calls: what nobody recorded is never passed off as theirs."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.trace import explained, frames
from mindlab.trace.row import Row

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is read on Linux only")
warnings.simplefilter("ignore", FutureWarning)


def _functional():
    import torch.distributed._functional_collectives as functional

    dist.all_to_all_single(torch.zeros(4), torch.ones(4))
    return functional.all_to_all_single(torch.ones(4), None, None, dist.group.WORLD).sum().item()


def _method():
    dist.barrier()
    dist.group.WORLD.allreduce([torch.ones(3000)]).wait()
    dist.barrier()


def _sparse():
    dist.barrier()
    dist.all_reduce(torch.sparse_coo_tensor([[0, 1]], torch.ones(2), (4,), check_invariants=False))
    dist.barrier()


def _destroyed():
    group = dist.new_group([0, 1])
    dist.all_to_all_single(torch.zeros(1000), torch.ones(1000), group=group)
    dist.barrier(group=group)
    dist.destroy_process_group(group)
    dist.all_to_all_single(torch.zeros(3000), torch.ones(3000))


@on_linux
@pytest.mark.parametrize("work", [_functional, _method, _sparse, _destroyed])
def test_what_the_calls_do_not_explain_is_no_payload(work):
    """Would catch an "exact" payload with gloo's headers in it, or without what a destroyed group carried."""
    run = ml.launch(work, ranks=2, timeout=30)
    assert run.wire.payload is None and run.wire.total.sum() > 0
    assert (
        "ranks 0 and 1: the wire carried" in run.wire.note and "the recorded calls explain" in run.wire.note
    )


@on_linux
def test_a_socket_of_the_persons_own_is_no_payload():
    """Would catch bytes of another connection between the ranks counted as gloo's."""

    def work():
        import socket

        ports = [None, None]
        if dist.get_rank() == 0:
            server = socket.create_server(("127.0.0.1", 0))
            dist.all_gather_object(ports, server.getsockname()[1])
            other = server.accept()[0]
            other.sendall(b"x" * 5000)
        else:
            dist.all_gather_object(ports, 0)
            other = socket.create_connection(("127.0.0.1", ports[0]))
            other.recv(5000, socket.MSG_WAITALL)
        globals()["kept"] = other  # open when the counters are read
        dist.all_to_all_single(torch.zeros(2), torch.ones(2))
        dist.all_to_all_single(torch.zeros(2), torch.ones(2))

    run = ml.launch(work, ranks=2, timeout=30)
    assert run.wire.payload is None or run.wire.payload.sum() < 200


@on_linux
def test_every_recorded_kind_of_call_explains_its_bytes():
    """Would catch a right payload withheld: each kind of call is compared with the kernel's counters."""

    def work():
        me, p = dist.get_rank(), dist.get_world_size()
        x, root = torch.ones(61), 1
        every = [torch.ones(61) for _ in range(p)]
        dist.reduce(x, root)
        dist.reduce_scatter(x, every)
        dist.all_gather(every, x)
        dist.gather(x, every if me == root else None, dst=root)
        dist.scatter(x, every if me == root else None, src=root)
        dist.all_to_all(every, [torch.ones(61) for _ in range(p)])
        dist.gather_object("a" * me, [None] * p if me == root else None, dst=root)
        dist.scatter_object_list([None], ["b" * n for n in range(p)] if me == root else None, src=root)
        dist.broadcast_object_list(["c" * 50, 1], src=root)
        dist.all_gather_object([None] * p, "d" * 30 * me)
        dist.monitored_barrier()
        dist.all_reduce_coalesced([x, x.double().float()])

    for ranks in (2, 3, 5):
        wire = ml.launch(work, ranks=ranks, timeout=30).wire
        assert wire.payload is not None, wire.note


_OPS = ["all_reduce", "reduce", "all_gather", "broadcast", "gather", "all_to_all", "monitored_barrier"]


@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_bytes_are_explained_exactly_where_messages_go(op, size):
    """Would catch two tables of one pattern that drift apart: bytes on an edge without a message."""
    group = tuple(range(10, 10 + size))
    out = (20,) * size if op == "all_to_all" else ()
    row = Row(0, op, group, 0, nbytes=4000, dtype="float32", root=11, out_sizes=out)
    bytes_ = {(me, to): n for me in group for to, n in explained.outgoing(row, me).items() if n}
    assert bytes_.keys() == {pair for pair, count in frames.messages(row).items() if count}
    if op == "all_reduce":
        assert sum(bytes_.values()) == 2 * (size - 1) * 4000
    assert np.all([n > 0 for n in bytes_.values()])
