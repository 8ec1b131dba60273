"""What is promised for hosts with torch_npu, held to contracts that need no card."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import Notebook

from mindlab.ranks.backends import Backend


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which torch_npu is installed and its libraries are not: `import torch` fails."""
    package = tmp_path / "torch_npu"
    package.mkdir()
    text = "raise ImportError('libhccl.so: cannot open shared object file: No such file or directory')\n"
    (package / "__init__.py").write_text(text)
    info = tmp_path / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    environment = dict(os.environ)
    failed = subprocess.run(
        [sys.executable, "-c", "import torch"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert failed.returncode and "libhccl.so" in failed.stderr, "the fixture does not break torch"
    return environment


def test_a_script_works_beside_a_broken_torch_npu(broken: dict[str, str]) -> None:
    """Would catch a launch, or a tensor that comes home, which imports torch with its backends."""
    code = (
        "import mindlab as ml\n"
        "def f():\n    import torch\n    return torch.ones(3)\n"
        "print(ml.launch(f, ranks=2).values[1].sum().item())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=broken, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "3.0", done.stderr


def test_a_notebook_works_beside_a_broken_torch_npu(broken: dict[str, str]) -> None:
    """Would catch a kernel in which `import torch` after `import mindlab` fails."""
    with Notebook(first="import mindlab as ml") as notebook:
        assert "3.0" in notebook.text(
            "import torch\nml.launch(lambda: torch.ones(3), ranks=2).values[0].sum().item()"
        )


def test_ranks_with_cards_load_their_backend_and_share_no_port() -> None:
    """Would catch fixed HCCL ports, on which two notebooks of one host collide."""
    backend = Backend("hccl", "npu", "cpu:gloo,npu:hccl", cards=8)
    assert not backend.fork
    environment = backend.environment(3, 8)
    assert environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "1"
    assert environment["HCCL_HOST_SOCKET_PORT_RANGE"] == "auto"
    assert environment["RANK"] == environment["LOCAL_RANK"] == "3" and environment["WORLD_SIZE"] == "8"


def test_a_variable_of_the_person_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a port range that the person set and that is overwritten."""
    monkeypatch.setenv("HCCL_HOST_SOCKET_PORT_RANGE", "61000-61050")
    backend = Backend("hccl", "npu", "cpu:gloo,npu:hccl", cards=8)
    assert backend.environment(0, 8)["HCCL_HOST_SOCKET_PORT_RANGE"] == "61000-61050"


def test_fresh_interpreters_run_the_same_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a way for cards that differs from the one for CPUs: spawned ranks get the same seat."""
    import torch
    import torch.distributed as dist

    import mindlab as ml

    def experiment() -> torch.Tensor:
        x = torch.ones(40_000) * dist.get_rank()
        dist.all_reduce(x)
        print("spawned", dist.get_rank())
        return x

    ml.shutdown()
    monkeypatch.setattr(Backend, "fork", property(lambda self: False))
    try:
        run = ml.launch(experiment, ranks=2)
        assert float(run.values[0][0]) == 1.0 and "spawned 1" in run.printed[1]
        assert run.wire is not None and len(run.events) == 2
        with pytest.raises(ml.MindlabError, match="rank 1 raised ZeroDivisionError"):
            ml.launch(lambda: 1 // (1 - dist.get_rank()), ranks=2)
    finally:
        ml.shutdown()
