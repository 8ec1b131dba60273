"""Receives from any rank: which message they take is said only where it is sure."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import torch
import torch.distributed as dist
from trace_rows import Script, look

import mindlab as ml
from mindlab.errors import Mismatch
from mindlab.trace import places
from mindlab.trace.arrivals import UNNUMBERED, Arrivals
from mindlab.trace.calls import Call
from mindlab.trace.entry import Entry, Group
from mindlab.trace.matching import find_fault


def test_receives_from_any_rank_may_be_waited_for_in_any_order():
    """Would catch a false mismatch: messages numbered in the order of wait() instead of arrival."""

    def work():
        x, y = torch.zeros(4), torch.zeros(8)
        if dist.get_rank() == 0:
            dist.send(torch.ones(4), 1)
            dist.send(torch.full((8,), 2.0), 1)
        else:
            works = [dist.irecv(x), dist.irecv(y)]
            works[1].wait()
            time.sleep(0.4)
            works[0].wait()
        return x.sum().item(), y.sum().item()

    assert ml.launch(work, ranks=2, timeout=20).values[1] == (4.0, 16.0)


def _receive(arrivals, counts, peer):
    call = Call()
    call.peer = peer
    entry = Entry("irecv", call, Group("0", (0, 1)), places.NOWHERE, "")
    entry.key = ("0", "r", peer, 0)
    entry.number = counts[entry.key]
    counts[entry.key] += 1
    arrivals.post(entry, None)
    return entry


@pytest.mark.parametrize("peers", [(None, 0), (0, None), (None, None)])
def test_a_receive_beside_one_from_any_rank_has_no_number(peers):
    """Would catch a pairing by count where the backend may give either receive either message."""
    counts = Counter()
    arrivals = Arrivals(counts)
    both = [_receive(arrivals, counts, peer) for peer in peers]
    assert [entry.number for entry in both] == [UNNUMBERED, UNNUMBERED]
    for entry in both:
        if entry.call.peer is None:
            arrivals.learn(entry, 0)
        arrivals.over(entry)
    assert [entry.number for entry in both] == [UNNUMBERED, UNNUMBERED]
    later = _receive(arrivals, counts, 0)
    assert later.number == 2  # two messages are taken, whichever they were
    arrivals.over(later)
    alone = _receive(arrivals, counts, None)
    arrivals.learn(alone, 0)
    assert alone.number == 3


def test_named_receives_beside_each_other_keep_their_numbers():
    """Would catch pairs that are not compared any more although no rank receives from any other."""
    counts = Counter()
    arrivals = Arrivals(counts)
    assert [_receive(arrivals, counts, 0).number for _ in range(3)] == [0, 1, 2]


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
