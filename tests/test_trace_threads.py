"""Ranks with threads: a rank stands only when none of its threads can go on."""

from __future__ import annotations

import threading
import time

import pytest
import torch
import torch.distributed as dist
from trace_rows import Script, look

import mindlab as ml
from mindlab.errors import Stuck
from mindlab.trace.matching import find_fault


def test_a_thread_that_runs_may_still_make_the_missing_call():
    """Would catch a standstill declared while the main thread is about to send."""
    first = Script(0).call("recv", peer=1, inside=True, threads=1)
    second = Script(1).call("recv", peer=0, inside=True)
    assert find_fault(*look(first, second)) is None
    first.call("recv", peer=1, tag=1, inside=True, threads=1)  # now both threads stand
    assert find_fault(*look(first, second)).kind == "stuck"


def _receive_beside(wait_only):
    me, x = dist.get_rank(), torch.ones(3)
    if me == 1:
        dist.recv(x, 0)
        dist.send(2 * x, 0)
        return x.sum().item()
    taken = torch.zeros(3)
    work = dist.irecv(taken, 1) if wait_only else None
    thread = threading.Thread(target=work.wait if work else lambda: dist.recv(taken, 1))
    thread.start()
    time.sleep(1.0)
    dist.send(x, 1)
    thread.join()
    return taken.sum().item()


@pytest.mark.parametrize("wait_only", [False, True])
def test_a_receiver_thread_beside_a_busy_main_thread_is_no_standstill(wait_only):
    """Would catch a right program ended by force: a thread receives, the main thread computes, then sends."""
    assert ml.launch(_receive_beside, wait_only, ranks=2, timeout=20).values == [6.0, 3.0]


def test_a_standstill_in_two_threads_is_found():
    """Would catch a guard that goes silent as soon as there is a thread."""

    def work():
        thread = threading.Thread(target=lambda: dist.recv(torch.ones(1), 1 - dist.get_rank(), tag=1))
        thread.start()
        dist.recv(torch.ones(1), 1 - dist.get_rank())

    with pytest.raises(Stuck, match="recv"):
        ml.launch(work, ranks=2, timeout=30)
