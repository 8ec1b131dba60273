"""Each experiment starts from the same state."""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time

import numpy as np
import torch
import torch.distributed as dist

import mindlab as ml


def test_nothing_stays_between_experiments() -> None:
    """Would catch a seed, group, default dtype, thread count, variable or folder that the last one left."""

    def dirty() -> None:
        torch.rand(3)
        random.random()
        os.environ["LEFT"] = "yes"
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        os.chdir("/")
        dist.new_group([0, 1])

    def look() -> tuple[object, ...]:
        settings = (os.environ.get("LEFT"), torch.get_default_dtype(), torch.get_num_threads(), os.getcwd())
        groups = len(dist.distributed_c10d._world.pg_map)
        return (
            *settings,
            groups,
            torch.is_grad_enabled(),
            torch.rand(1).item(),
            random.random(),
            np.random.rand(),
        )

    clean = ml.launch(look, ranks=2, seed=7).values
    ml.launch(dirty, ranks=2, seed=7)
    assert ml.launch(look, ranks=2, seed=7).values == clean
    assert clean[0] == clean[1]
    assert ml.launch(look, ranks=2, seed=8).values != clean


def test_the_pool_stays_warm_and_a_left_thread_costs_it() -> None:
    """Would catch fresh processes for each call, and a thread that lives on into the next experiment."""
    first = ml.launch(os.getpid, ranks=2).values
    assert ml.launch(os.getpid, ranks=2).values == first

    def leave() -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    ml.launch(leave, ranks=2)
    assert set(ml.launch(os.getpid, ranks=2).values).isdisjoint(first)


def test_a_changed_module_is_read_again(tmp_path, monkeypatch) -> None:
    """Would catch a warm rank that goes on with the old text of the person's own module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "their_module.py"
    module.write_text("def answer(): return 1\n")
    import their_module  # type: ignore[import-not-found]

    assert ml.launch(their_module.answer, ranks=2).values == [1, 1]
    module.write_text("def answer(): return 2\n")
    os.utime(module, (1, 1))
    assert ml.launch(their_module.answer, ranks=2).values == [2, 2]
    del sys.modules["their_module"]


def test_settings_of_the_process_are_set_back() -> None:
    """Would catch a stream, handler, timer, limit or flag that one experiment leaves to the next."""

    def dirty() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.alarm(1)
        sys.setrecursionlimit(5000)
        os.umask(0)
        gc.disable()
        logging.basicConfig(level=logging.DEBUG, force=True)
        torch.set_float32_matmul_precision("medium")
        np.seterr(all="raise")
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
        sys.stdout.close()
        sys.stdout = io.StringIO()
        os.close(1)

    def look() -> tuple[object, ...]:
        time.sleep(1.2)
        print("still heard")
        umask = os.umask(0o022)
        os.umask(umask)
        levels = logging.getLogger().level, len(logging.getLogger().handlers)
        numbers = sys.getrecursionlimit(), umask, gc.isenabled(), np.geterr()["over"]
        return signal.getsignal(signal.SIGUSR1), *levels, *numbers, torch.get_float32_matmul_precision()

    before = ml.launch(look, ranks=2).values
    ml.launch(dirty, ranks=2)
    run = ml.launch(look, ranks=2)
    assert run.values == before
    assert run.printed == ["still heard\n"] * 2


def test_sub_groups_are_counted_before_they_go() -> None:
    """Would catch bytes of a sub-group that vanish with its sockets when the ends are read a second time."""

    def experiment() -> None:
        group = dist.new_group([0, 1, 2])
        if dist.get_rank() < 3:
            dist.all_to_all_single(torch.zeros(1_800_003), torch.ones(1_800_003), group=group)

    for _ in range(6):
        run = ml.launch(experiment, ranks=4)
        assert run.wire is not None and run.wire.payload is not None, run.why_no_wire
        assert int(run.wire.payload[0, 1]) == 2_400_004
