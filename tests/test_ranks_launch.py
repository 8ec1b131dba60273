"""Launching: functions and values travel, state does not."""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError


@dataclass
class Point:
    x: int


def test_values_come_back_by_rank() -> None:
    """Would catch results that come back in order of arrival."""
    run = ml.launch(lambda factor: dist.get_rank() * factor, 10, ranks=4)
    assert run.values == [0, 10, 20, 30]
    assert run.ranks == 4 and run.backend == "gloo"


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks(ranks: int) -> None:
    """Would catch a group that is one too small, or a pool that is not replaced."""
    run = ml.launch(lambda: (dist.get_rank(), dist.get_world_size()), ranks=ranks)
    assert run.values == [(rank, ranks) for rank in range(ranks)]


def test_the_group_works() -> None:
    """Would catch ranks that are not joined."""

    def experiment() -> torch.Tensor:
        x = torch.ones(5) * (dist.get_rank() + 1)
        dist.all_reduce(x)
        return x

    for value in ml.launch(experiment, ranks=4).values:
        assert torch.equal(value, torch.full((5,), 10.0))


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.int64,
    torch.int16,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("numel", [0, 3, 100_003])
def test_tensors_of_every_dtype_survive(dtype: torch.dtype, numel: int) -> None:
    """Would catch a dtype or an odd size that shared memory garbles, both ways."""
    source = (torch.arange(numel) % 2).to(dtype)
    value = ml.launch(lambda x: x, source, ranks=2).values[1]
    assert value.dtype == dtype and value.shape == source.shape
    assert torch.equal(value.view(torch.uint8), source.view(torch.uint8))


def test_nested_containers_and_plain_objects() -> None:
    """Would catch a packer that only looks at the top level."""

    def experiment() -> object:
        big = torch.full((50_000,), float(dist.get_rank()))
        return {"a": [big, (big[:2], "text")], "b": Point(dist.get_rank()), "c": np.arange(9_000)}

    run = ml.launch(experiment, ranks=2)
    value = run.values[1]
    assert torch.equal(value["a"][0], torch.ones(50_000)) and value["a"][1][1] == "text"
    assert value["b"] == Point(1) and value["c"][-1] == 8_999


def test_views_parameters_and_strides() -> None:
    """Would catch a view that loses its order, and a Parameter that becomes a tensor."""

    def experiment() -> object:
        base = torch.arange(12.0).reshape(3, 4)
        return (
            base.t(),
            base[:, 1],
            torch.nn.Parameter(base),
            torch.tensor(3.0),
            torch.tensor([1 + 2j]).conj(),
        )

    turned, column, parameter, scalar, conjugate = ml.launch(experiment, ranks=1).values[0]
    assert torch.equal(turned, torch.arange(12.0).reshape(3, 4).t())
    assert torch.equal(column, torch.tensor([1.0, 5.0, 9.0]))
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad
    assert scalar.shape == () and scalar == 3
    assert conjugate.item() == 1 - 2j


def test_a_rank_changes_its_own_copy_of_an_argument() -> None:
    """Would catch arguments shared between ranks by the mapping they arrive in."""
    x = torch.zeros(100_000)

    def experiment(x: torch.Tensor) -> float:
        x += dist.get_rank() + 1
        dist.barrier()
        return float(x[0])

    assert ml.launch(experiment, x, ranks=3).values == [1.0, 2.0, 3.0]
    assert float(x[0]) == 0


def test_large_results_can_be_written_to() -> None:
    """Would catch results that are read-only or share memory between ranks."""
    run = ml.launch(lambda: torch.zeros(100_000), ranks=2)
    run.values[0] += 1
    assert float(run.values[1][0]) == 0


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


def test_a_script_written_for_torchrun_runs() -> None:
    """Would catch a second init_process_group that fails, and missing variables of torchrun."""

    def script() -> tuple[str, str, float]:
        dist.init_process_group(backend="gloo")
        x = torch.ones(1)
        dist.all_reduce(x)
        dist.destroy_process_group()
        return os.environ["RANK"], os.environ["WORLD_SIZE"], x.item()

    assert ml.launch(script, ranks=2).values == [("0", "2", 2.0), ("1", "2", 2.0)]


def test_printing_is_kept_by_rank_and_shown_with_the_rank(capsys) -> None:
    """Would catch mixed lines, a lost last line without its end, and text of C code that goes elsewhere."""

    def talk() -> None:
        print("first", dist.get_rank())
        os.write(1, b"from C\n")
        sys.stderr.write("no end")

    run = ml.launch(talk, ranks=2)
    assert run.printed == [f"first {rank}\nfrom C\nno end" for rank in range(2)]
    shown = capsys.readouterr().out.splitlines()
    assert sorted(line for line in shown if line.startswith("[rank 1]")) == sorted(
        ["[rank 1] first 1", "[rank 1] from C", "[rank 1] no end"]
    )


def test_much_printing_is_cut_in_the_cell_and_whole_in_the_run(capsys) -> None:
    """Would catch a cell flooded by one rank, or text lost with the cut."""
    run = ml.launch(lambda: [print(n) for n in range(5_000)] and None, ranks=1)
    assert run.printed[0].splitlines() == [str(n) for n in range(5_000)]
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) < 500 and "4600 more lines" in shown


def test_launch_inside_a_rank_is_refused() -> None:
    """Would catch ranks that start ranks."""
    with pytest.raises(MindlabError, match="inside a rank"):
        ml.launch(lambda: __import__("mindlab").launch(int, ranks=2), ranks=2)


def test_importing_mindlab_imports_no_torch() -> None:
    """Would catch an import that dies where torch_npu is installed without its libraries."""
    code = "import sys, mindlab; print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_backends_and_device() -> None:
    """Would catch a backend that is missing without a reason, and a device that is not the rank's."""
    offered = ml.backends()
    assert [backend.name for backend in offered] == ["hccl", "nccl", "gloo"]
    assert all(backend.available or backend.missing for backend in offered)
    assert "gloo" in repr(offered) and "<table" in offered._repr_html_()
    assert ml.device() == torch.device("cpu")
    assert ml.launch(ml.device, ranks=2).values == [torch.device("cpu")] * 2


def test_a_backend_that_is_not_there_says_why() -> None:
    """Would catch a fall-back to gloo that nobody asked for."""
    missing = next(backend for backend in ml.backends() if not backend.available)
    with pytest.raises(MindlabError, match="not usable here"):
        ml.launch(lambda: None, ranks=2, backend=missing.name)
    with pytest.raises(MindlabError, match="known: hccl, nccl, gloo"):
        ml.launch(lambda: None, ranks=2, backend="mpi")


def test_sixteen_ranks_on_two_cores() -> None:
    """Would catch a start that needs a core a rank."""

    def experiment() -> float:
        x = torch.ones(1000)
        dist.all_reduce(x)
        return float(x[0])

    assert ml.launch(experiment, ranks=16).values == [16.0] * 16


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
