"""Launching: functions and values travel, state does not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.ranks.output import Output


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


@pytest.mark.parametrize("last", ["", "no end of line"])
def test_lines_left_out_are_counted_once_wherever_the_text_was_cut(capsys, last: str) -> None:
    """Would catch a line that arrives in two pieces, counted twice once lines are no longer shown."""
    reader, writer = os.pipe()
    output = Output([reader])
    for piece in ("x\n" * 400 + "y\nhal", "f", "\nz\n", last):
        os.write(writer, piece.encode())
        output.read(0)
    os.close(writer)
    output.finish()
    output.close()
    assert f"… {3 + bool(last)} more lines" in capsys.readouterr().out


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
