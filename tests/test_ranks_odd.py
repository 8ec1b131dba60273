"""Odd ways to fail: memory, endless prints, children, forks, a dead parent; the next launch works."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import CannotTravel, RankDied, RankFailed, TimedOut


@pytest.fixture(autouse=True)
def the_next_launch_works():
    """Every fault here is followed by an experiment that must work."""
    yield
    assert ml.launch(lambda: dist.get_rank(), ranks=3).values == [0, 1, 2]


def rank() -> int:
    return dist.get_rank()


def test_out_of_memory_in_python_is_an_ordinary_error() -> None:
    """Would catch a rank that takes the host down or vanishes."""

    def experiment() -> None:
        if rank() == 0:
            bytearray(1 << 60)

    with pytest.raises(RankFailed, match="MemoryError"):
        ml.launch(experiment, ranks=2)


def test_a_rank_killed_between_two_experiments() -> None:
    """Would catch a pool that is used although it is broken."""
    pids = ml.launch(os.getpid, ranks=2).values
    os.kill(pids[1], signal.SIGKILL)
    time.sleep(0.3)
    assert ml.launch(lambda: dist.get_rank(), ranks=2).values == [0, 1]


def test_the_parent_of_ranks_is_killed() -> None:
    """Would catch a kernel that can start no rank any more, and an error without a reason."""

    def experiment() -> None:
        if rank() == 0:
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)

    with pytest.raises(ml.MindlabError, match="the process that starts ranks is gone: it ended with -9"):
        ml.launch(experiment, ranks=2)


def test_two_launches_at_once_are_refused() -> None:
    """Would catch two experiments that mix their messages in one pool."""
    import threading

    thread = threading.Thread(target=lambda: ml.launch(lambda: time.sleep(1.5), ranks=2))
    ml.launch(int, ranks=2)
    thread.start()
    time.sleep(0.3)
    with pytest.raises(ml.MindlabError, match="another experiment is running"):
        ml.launch(int, ranks=2)
    thread.join(timeout=20)


@pytest.mark.parametrize("text", [b"x" * 65536, b"one line of many\n" * 4000], ids=["one line", "lines"])
def test_a_rank_that_prints_for_ever_ends_by_the_deadline(text: bytes, capsys) -> None:
    """Would catch a notebook that only reads, misses the deadline and fills its memory."""

    def experiment() -> None:
        while True:
            os.write(1, text)

    began = time.monotonic()
    with pytest.raises(TimedOut):
        ml.launch(experiment, ranks=2, timeout=2)
    assert time.monotonic() - began < 20
    assert len(capsys.readouterr().out) < 200_000


def test_a_child_that_a_rank_started_ends_with_it() -> None:
    """Would catch a process that a dying rank leaves on the host."""

    def experiment() -> None:
        child = subprocess.Popen(["sleep", "600"])
        print(f"child {child.pid}", flush=True)
        os._exit(3)

    with pytest.raises(RankDied):
        ml.launch(experiment, ranks=1)
    ml.launch(int, ranks=1)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, timeout=20).stdout
    assert "sleep 600" not in listed.splitlines()


def test_odd_ways_to_fail_are_one_readable_error() -> None:
    """Would catch an error of ours in place of the person's."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    class Picky(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one}{two}")

    def mute() -> None:
        raise ValueError("told") from Mute()

    def forked() -> int:
        return os.fork() * 0

    with pytest.raises(RankFailed, match="raised ValueError: told"):
        ml.launch(mute, ranks=2)
    with pytest.raises(CannotTravel, match="what rank 0 returned cannot be rebuilt"):
        ml.launch(lambda: Picky(1, 2), ranks=2)
    with pytest.raises(RankDied, match=r"killed by signal \d+"):
        ml.launch(lambda: os.kill(os.getpid(), signal.SIGRTMIN + 3), ranks=1)
    assert ml.launch(forked, ranks=2).values == [0, 0]
    assert ml.launch(forked, ranks=2).values == [0, 0]
