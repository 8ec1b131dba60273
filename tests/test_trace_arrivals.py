"""Receives from any rank: which message they take is said only where it is sure."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist
from trace_rows import Script, look

import mindlab as ml
from mindlab.errors import Mismatch
from mindlab.trace.matching import find_fault


def _two_sizes(taking):
    x, y = torch.ones(4), torch.full((8,), 2.0)
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.send(y, 1)
        dist.send(x, 1)
    else:
        taking(first := torch.zeros(4), second := torch.zeros(8))
        dist.recv(x, 0)
        return first.sum().item(), second.sum().item()
    return None


def _waited_in_another_order(first, second):
    works = [dist.irecv(first), dist.irecv(second)]
    works[1].wait()
    time.sleep(0.4)
    works[0].wait()


def _beside_a_named_one(first, second):
    work = dist.irecv(first)
    dist.recv(second, 0)
    time.sleep(0.4)
    work.wait()


def _behind_a_named_one(first, second):
    work = dist.irecv(first, 0)
    dist.recv(second)
    time.sleep(0.4)
    work.wait()


@pytest.mark.parametrize("taking", [_waited_in_another_order, _beside_a_named_one, _behind_a_named_one])
def test_receives_beside_one_from_any_rank_are_not_paired_by_count(taking):
    """Would catch a false mismatch: messages numbered in the order of wait() instead of arrival."""
    assert ml.launch(_two_sizes, taking, ranks=2, timeout=20).values[1] == (4.0, 16.0)


def test_lone_receives_from_any_rank_are_still_compared():
    """Would catch a rule that stops looking as soon as any rank may send; also later, named receives."""

    def work(any_size, named_size):
        if dist.get_rank() == 0:
            for _ in range(4):
                dist.send(torch.ones(4), 1)
        else:
            works = [dist.irecv(torch.ones(4)), dist.irecv(torch.ones(4))]
            works[1].wait(), works[0].wait()
            dist.recv(torch.ones(any_size))
            dist.recv(torch.ones(named_size), 0)

    assert ml.launch(work, 4, 4, ranks=2, timeout=20).notes == []
    for sizes in ((6, 4), (4, 6)):
        with pytest.raises(Mismatch, match="sends 16 B, rank 1 has room for 24 B"):
            ml.launch(work, *sizes, ranks=2, timeout=20)


def test_a_receive_without_a_number_leaves_the_sender_open():
    """Would catch "nobody received", or a standstill, said of a message whose receive has no number."""
    taker = Script(1).call("irecv", peer=0, asynchronous=True, number=-1, inside=True)
    assert find_fault(*look(Script(0).call("send", peer=1, inside=True), taker)) is None
    assert find_fault(*look(Script(0).call("barrier", inside=True), taker)) is None
