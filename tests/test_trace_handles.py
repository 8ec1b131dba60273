"""Handles of asynchronous messages: dropped, waited for twice; and buffers changed behind torch's back."""

from __future__ import annotations

import dataclasses
import time

import pytest
import torch
import torch.distributed as dist
from trace_rows import Script, look

import mindlab as ml
from mindlab.errors import Mismatch, RankFailed
from mindlab.trace import guards
from mindlab.trace.matching import find_fault


@pytest.mark.parametrize("stays", [False, True])
def test_an_isend_that_nobody_waits_for_is_named(stays):
    """Would catch a whole timeout spent on a message that the backend gave up with its handle."""

    def drop():
        if dist.get_rank() == 0:
            dist.isend(torch.ones(4), 1)
            time.sleep(2.0 * stays)
        else:
            time.sleep(0.3)
            dist.recv(torch.ones(4), 0)

    with pytest.raises(Mismatch, match=r"rank 0: isend to rank 1.* was never waited for") as caught:
        ml.launch(drop, ranks=2, timeout=60)
    assert "test_trace_handles.py, line" in str(caught.value) and "wait()" in str(caught.value)


def test_a_dropped_handle_is_no_fault_by_itself():
    """Would catch an alarm for a message that arrived all the same, or that nobody stands in yet."""
    sender = Script(0).call("isend", peer=1, asynchronous=True)
    sender.rows[0] = dataclasses.replace(sender.rows[0], dropped=True)
    assert find_fault(*look(sender, Script(1).call("recv", peer=0))) is None
    assert find_fault(*look(sender, Script(1))) is None
    assert find_fault(*look(sender, Script(1).call("recv", peer=0, inside=True))).kind == "mismatch"
    taker = Script(1).call("irecv", peer=0, asynchronous=True)
    taker.rows[0] = dataclasses.replace(taker.rows[0], dropped=True)
    fault = find_fault(*look(Script(0).call("send", peer=1, inside=True), taker))
    assert "rank 1: irecv from rank 0" in fault.message and fault.ranks == (0, 1)


def test_a_second_wait_on_a_message_returns_and_is_noted():
    """Would catch ranks that stand in gloo for ever, without a row that says where."""

    def twice():
        x = torch.ones(4)
        work = dist.isend(x, 1) if dist.get_rank() == 0 else dist.irecv(x, 0)
        return work.wait() == work.wait() == work.wait()

    run = ml.launch(twice, ranks=2, timeout=10)
    assert run.values == [True, True]
    assert [note for note in run.notes if "waited for twice" in note and "isend" in note]
    assert len([note for note in run.notes if "irecv" in note]) == 1


@pytest.mark.parametrize("way", ["data", "numpy"])
def test_a_buffer_changed_without_a_new_version_is_refused(way):
    """Would catch a write that torch does not count, before the message left."""

    def work(way):
        x = torch.ones(1000)
        if dist.get_rank() == 0:
            sent = dist.isend(x, 1)
            (x.data if way == "data" else x.numpy())[3] = -9
            sent.wait()
        else:
            time.sleep(0.1)
            dist.recv(x, 0)

    with pytest.raises(RankFailed, match="changed before wait"):
        ml.launch(work, way, ranks=2, timeout=20)


def test_a_call_that_fills_its_own_input_is_none_of_them():
    """Would catch an alarm for an asynchronous gather into the block that the input is a view of."""
    whole = torch.zeros(8)
    assert guards.watch("reduce_scatter_tensor", [whole], [whole[2:4]]) == []
    assert guards.watch("all_gather_into_tensor", [whole[:4]], [whole]) == []
    assert len(guards.watch("all_gather_into_tensor", [whole[:4]], [whole[4:]])) == 1
