"""A fault ends the experiment with one readable error; the next launch works."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import Mismatch, RankDied, RankFailed, Stuck, TimedOut, UnsafeCall


@pytest.fixture(autouse=True)
def the_next_launch_works():
    """Every fault here is followed by an experiment that must work."""
    yield
    assert ml.launch(lambda: dist.get_rank(), ranks=3).values == [0, 1, 2]


def rank() -> int:
    return dist.get_rank()


def test_a_rank_raises_while_others_wait() -> None:
    """Would catch an error that blames a waiting rank, hides the line, or comes only by the deadline."""

    def experiment() -> None:
        if rank() == 1:
            raise ValueError("no such expert")
        dist.all_reduce(torch.ones(3))

    with pytest.raises(RankFailed, match="rank 1 raised ValueError: no such expert") as caught:
        ml.launch(experiment, ranks=3)
    error = caught.value
    assert error.rank == 1 and error.kind == "ValueError"
    assert 'raise ValueError("no such expert")' in error.traceback
    assert "mindlab/" not in error.traceback and "worker.py" not in str(error)
    assert any("rank 0 waits in all_reduce" in line for line in error.others)
    assert any("rank 2 waits in all_reduce" in line for line in error.others)


def test_the_first_of_two_failing_ranks_is_blamed() -> None:
    """Would catch an error chosen by rank instead of by time."""

    def experiment() -> None:
        time.sleep(0 if rank() == 2 else 0.05)
        raise RuntimeError(f"mine is {rank()}")

    with pytest.raises(RankFailed, match="rank 2 raised RuntimeError: mine is 2") as caught:
        ml.launch(experiment, ranks=3)
    assert any("rank 0 raised RuntimeError: mine is 0" in line for line in caught.value.others)


def test_only_the_person_s_frames_are_shown() -> None:
    """Would catch a traceback through torch or through this package."""

    def experiment() -> None:
        torch.ones(2) @ torch.ones(3)

    with pytest.raises(RankFailed) as caught:
        ml.launch(experiment, ranks=2)
    assert "torch.ones(2) @ torch.ones(3)" in str(caught.value)
    assert "torch/" not in str(caught.value)


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (lambda: os._exit(3), "rank 1 exited with code 3"),
        (lambda: sys.exit(4), r"rank 1 left by sys.exit\(4\)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 1 was killed by SIGKILL"),
        (lambda: ctypes.string_at(0), "rank 1 was killed by SIGSEGV"),
    ],
    ids=["exit", "sys.exit", "kill", "segfault"],
)
def test_a_rank_dies(leave, words: str) -> None:
    """Would catch a death that is told as a peer's lost connection, or without its signal."""

    def experiment() -> None:
        if rank() == 1:
            leave()
        dist.all_reduce(torch.ones(3))

    with pytest.raises(RankDied, match=words) as caught:
        ml.launch(experiment, ranks=3)
    assert caught.value.rank == 1


def test_a_segfault_names_the_line() -> None:
    """Would catch a crash without a place."""

    def experiment() -> None:
        ctypes.string_at(0)

    with pytest.raises(RankDied, match=r"test_ranks_faults.py, line \d+, in experiment"):
        ml.launch(experiment, ranks=1)


def test_ranks_call_different_collectives() -> None:
    """Would catch a hang until the deadline."""

    def experiment() -> None:
        x = torch.ones(4)
        dist.all_reduce(x) if rank() else dist.broadcast(x, 0)

    with pytest.raises(Mismatch) as caught:
        ml.launch(experiment, ranks=3, timeout=30)
    assert "all_reduce" in str(caught.value) and "broadcast" in str(caught.value)
    assert "test_ranks_faults.py, line" in str(caught.value)


@pytest.mark.parametrize("sizes", [(5, 3, 5), (1000, 1001, 1000)])
def test_the_same_collective_with_other_sizes(sizes: tuple[int, ...]) -> None:
    """Would catch gloo's wrong sum, which it returns without a word, or its abort."""

    def experiment() -> torch.Tensor:
        x = torch.ones(sizes[rank()])
        dist.all_reduce(x)
        return x

    with pytest.raises(Mismatch, match="all_reduce"):
        ml.launch(experiment, ranks=3, timeout=30)


def test_other_dtypes_roots_and_groups() -> None:
    """Would catch ranks that agree on the call and not on its arguments."""

    def dtypes() -> None:
        dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank() else torch.int32))

    def roots() -> None:
        dist.broadcast(torch.ones(4), min(rank(), 1))

    for experiment, word in ((dtypes, "int32"), (roots, "root|source|src")):
        with pytest.raises(Mismatch, match=word):
            ml.launch(experiment, ranks=3, timeout=30)


def test_other_shapes_of_nothing_are_told() -> None:
    """Would catch lines that are alike on every rank, under a sentence that says they differ."""

    def experiment() -> None:
        dist.all_reduce(torch.ones(0, 3 if rank() else 2))

    with pytest.raises(Mismatch, match=r"rank 0: all_reduce, shape \(0, 2\).*\n.*rank 1: .*shape \(0, 3\)"):
        ml.launch(experiment, ranks=2, timeout=30)


def test_groups_created_in_another_order() -> None:
    """Would catch sums over the wrong ranks, which gloo returns without a word."""

    def experiment() -> float:
        pairs = [[0, 1], [2, 3]]
        groups = [dist.new_group(pair) for pair in (pairs if rank() % 2 else pairs[::-1])]
        mine = groups[0] if (rank() < 2) == bool(rank() % 2) else groups[1]
        x = torch.tensor([2.0 ** rank()])
        dist.all_reduce(x, group=mine)
        return x.item()

    with pytest.raises(Mismatch, match="group"):
        ml.launch(experiment, ranks=4, timeout=30)


@pytest.mark.parametrize(("sent", "expected"), [(3, 5), (5, 3)])
def test_a_message_of_another_length(sent: int, expected: int) -> None:
    """Would catch a stale tail (shorter) and a receiver that aborts without a reason (longer)."""

    def experiment() -> None:
        if rank() == 0:
            dist.send(torch.ones(sent), 1)
        elif rank() == 1:
            dist.recv(torch.zeros(expected), 0)

    with pytest.raises(Mismatch, match=rf"{4 * sent}|{sent}") as caught:
        ml.launch(experiment, ranks=2, timeout=30)
    assert "rank 0" in str(caught.value) and "rank 1" in str(caught.value)


def test_a_strided_tensor_is_refused() -> None:
    """Would catch gloo's wrong sum over a gapped tensor."""

    def experiment() -> None:
        dist.all_reduce(torch.ones(2, 2)[:, 0])

    with pytest.raises(RankFailed, match="contiguous") as caught:
        ml.launch(experiment, ranks=2)
    assert caught.value.kind == UnsafeCall.__name__


def test_a_send_buffer_changed_before_wait_is_refused() -> None:
    """Would catch a message that the peer gets with later numbers in it."""

    def experiment() -> None:
        x = torch.ones(4)
        if rank() == 0:
            work = dist.isend(x, 1)
            x.fill_(-9)
            work.wait()
        else:
            time.sleep(0.05)
            dist.recv(x, 0)

    with pytest.raises(RankFailed, match="wait") as caught:
        ml.launch(experiment, ranks=2)
    assert caught.value.rank == 0


def test_a_rank_that_returned_is_not_waited_for() -> None:
    """Would catch a minute's wait for a rank that cannot come any more."""

    def experiment() -> None:
        if rank():
            dist.all_reduce(torch.ones(2))

    began = time.monotonic()
    with pytest.raises(Mismatch, match="rank 0"):
        ml.launch(experiment, ranks=3, timeout=50)
    assert time.monotonic() - began < 25, "the deadline ended it, not the watchdog"


def test_a_ring_of_blocking_sends_is_stuck() -> None:
    """Would catch a deadlock that lasts until the deadline."""

    def experiment() -> None:
        x = torch.ones(4)
        dist.send(x, (rank() + 1) % 3)
        dist.recv(x, (rank() - 1) % 3)

    began = time.monotonic()
    with pytest.raises(Stuck) as caught:
        ml.launch(experiment, ranks=3, timeout=50)
    assert time.monotonic() - began < 25, "the deadline ended it, not the watchdog"
    assert all(f"rank {r}" in str(caught.value) for r in range(3))


def test_a_rank_that_never_comes() -> None:
    """Would catch a wait without a deadline, or a deadline without a reason."""

    def experiment() -> None:
        if rank() == 2:
            time.sleep(600)
        dist.all_reduce(torch.ones(2))

    with pytest.raises(TimedOut, match="timeout=1") as caught:
        ml.launch(experiment, ranks=3, timeout=1)
    assert any("rank 0 waits in all_reduce" in line for line in caught.value.others)
    assert any("rank 2" in line and "own code" in line for line in caught.value.others)
