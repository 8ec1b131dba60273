"""Where torch comes from: never a CUDA build on a host without a card, and known before it is fetched."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from setup_modules import Refusal, packages, torch_build
from setup_modules import torch_build as build

LAPTOP = build.Host("Linux", "x86_64", cuda=False)
ARM = build.Host("Linux", "aarch64", cuda=False)
CUDA = 'nvidia-nccl-cu12==2; platform_system == "Linux"'


def sources(
    host: build.Host, *, offline: bool = False, environment: Mapping[str, str] | None = None
) -> list[build.Source]:
    """The sources for torch>=2.7."""
    return build.sources(host, "torch>=2.7", offline=offline, environment=environment or {})


def test_a_laptop_never_asks_the_package_index() -> None:
    """Would catch `pip install torch` on x86-64 without a card: gigabytes of CUDA."""
    assert [each.arguments for each in sources(LAPTOP)] == [("--no-index",), ("--index-url", build.CPU_INDEX)]


def test_an_extra_index_of_the_person_takes_no_part() -> None:
    """Would catch a second index in pip's settings that wins with a higher version, a CUDA build."""
    assert sources(LAPTOP)[1].environment == {"PIP_EXTRA_INDEX_URL": build.CPU_INDEX}


def test_another_cpu_index_is_honoured() -> None:
    """Would catch MINDLAB_TORCH_INDEX ignored where PyTorch's own cannot be reached."""
    chosen = sources(LAPTOP, environment={"MINDLAB_TORCH_INDEX": "https://mirror.example/cpu"})
    assert chosen[1].arguments == ("--index-url", "https://mirror.example/cpu")


def test_aarch64_may_fall_back_to_the_last_cpu_builds() -> None:
    """Would catch an ARM host without the CPU index left without torch, or given 2.10's CUDA build."""
    assert [each.requirement for each in sources(ARM)] == ["torch>=2.7", "torch>=2.7", "torch>=2.7,<2.10"]


def test_without_network_a_wheel_on_disk_comes_first() -> None:
    """Would catch an index on disk, with a newer CUDA build, preferred to the CPU wheel beside it."""
    assert [each.arguments for each in sources(LAPTOP, offline=True)] == [("--no-index",), ()]


@pytest.mark.parametrize(
    ("host", "environment"),
    [
        (build.Host("Linux", "x86_64", cuda=True), {}),
        (build.Host("Darwin", "arm64", cuda=False), {}),
        (LAPTOP, {"MINDLAB_TORCH": "any"}),
    ],
)
def test_where_any_build_will_do_pip_decides(host: build.Host, environment: dict[str, str]) -> None:
    """Would catch a CPU build forced upon a host with a card, or PyTorch's Linux index used on a Mac."""
    (only,) = sources(host, environment=environment)
    assert only.arguments == () and build.accepts_cuda(host, environment)


def wheel(folder: Path, version: str, *requires: str) -> Path:
    """A stand-in wheel of torch with these requirements."""
    folder.mkdir(exist_ok=True)
    path = folder / f"torch-{version}-py3-none-any.whl"
    lines = ["Metadata-Version: 2.1", "Name: torch", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"torch-{version}.dist-info/METADATA", "\n".join(lines) + "\n")
    return path


def test_a_wheel_tells_what_it_wants_here(tmp_path: Path) -> None:
    """Would catch a requirement for another system, or of an extra, taken for this host's."""
    path = wheel(
        tmp_path, "2.9.0", "sympy", CUDA, 'triton; sys_platform == "win32"', 'optree; extra == "optree"'
    )
    wanted = build.requirements(sys.executable, path)
    assert wanted == ["sympy", "nvidia-nccl-cu12"]
    assert build.cuda_packages(wanted) == ["nvidia-nccl-cu12"]


class Pip:
    """Stands for pip: each fetch brings the next of these wheels, or fails at None."""

    offline = False

    def __init__(self, folder: Path, *wheels: tuple[str, ...] | None) -> None:
        self.wheels = folder
        self.coming = list(wheels)

    def fetch(self, *arguments: str, environment: Mapping[str, str], may_fail: bool) -> bool:
        """Brings the next wheel."""
        assert "--no-deps" in arguments and may_fail
        described = self.coming.pop(0)
        if described is not None:
            wheel(self.wheels, *described)
        return described is not None


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """packages.py on a host without a card, with this Python for .venv's."""
    monkeypatch.setattr(torch_build, "this_host", lambda: LAPTOP)
    monkeypatch.setattr(packages, "PYTHON", sys.executable)
    monkeypatch.delenv("MINDLAB_TORCH", raising=False)


def test_a_cuda_build_on_disk_is_put_back(laptop: None, tmp_path: Path) -> None:
    """Would catch a CUDA wheel in a local folder installed, though the CPU index serves."""
    pip = Pip(tmp_path / "wheels", ("2.10.0", CUDA), ("2.9.1+cpu", "sympy"))
    assert packages.fetch_torch(pip) == "2.9.1+cpu"
    assert [path.name for path in pip.wheels.iterdir()] == ["torch-2.9.1+cpu-py3-none-any.whl"]


def test_without_a_cpu_build_the_set_up_says_what_to_do(laptop: None, tmp_path: Path) -> None:
    """Would catch a silent fall-back to a CUDA build, or an error without a way out."""
    with pytest.raises(Refusal, match="MINDLAB_TORCH_INDEX"):
        packages.fetch_torch(Pip(tmp_path / "wheels", None, None))


def test_versions_compare_as_numbers() -> None:
    """Would catch "2.13" taken for older than "2.7"."""
    assert packages.release("2.13.0+cpu") > packages.release(["torch", "2.7"][1])
    assert packages.is_older("2.1.0") and not packages.is_older("2.13.0.post2")


def test_a_card_is_asked_through_its_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch nvidia-smi's presence taken for a card: it is in images that run without one."""
    monkeypatch.setattr(torch_build.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    answers = [
        SimpleNamespace(returncode=9, stdout=""),
        SimpleNamespace(returncode=0, stdout="GPU 0: H200\n"),
    ]
    monkeypatch.setattr(torch_build.subprocess, "run", lambda *a, **k: answers.pop(0))
    assert not torch_build.this_host().cuda and torch_build.this_host().cuda
