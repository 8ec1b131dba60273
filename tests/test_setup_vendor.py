"""An image's own torch: found, pinned, compared. With stand-ins, in a Python that sees nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from setup_modules import LAUNCH, environment, vendor


def put(site: Path, name: str, version: str, *, metadata: bool = True) -> Path:
    """A stand-in package: one module and, unless asked otherwise, what an installer leaves."""
    package = site / name / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text(f"__version__ = {version!r}\n")
    if metadata:
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{name}/__pycache__/__init__.pyc,,\n")
    return package


def ask(*sites: Path) -> subprocess.CompletedProcess[str]:
    """What `python vendor.py` says where these folders are all that Python sees."""
    return subprocess.run(
        [sys.executable, "-S", str(LAUNCH / "vendor.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sites))},
        capture_output=True,
        text=True,
        timeout=60,
    )


def family(*sites: Path) -> dict[str, vendor.Package]:
    """The family that a Python with these folders sees."""
    answer = ask(*sites)
    assert answer.returncode == 0, answer.stderr
    return vendor.read(answer.stdout)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A vendor's folder: torch, torch_npu, numpy, and something that is nobody's business."""
    site = tmp_path / "image"
    for name, version in (
        ("torch", "2.7.1"),
        ("torch_npu", "2.7.1"),
        ("numpy", "1.26.4"),
        ("requests", "2.0"),
    ):
        put(site, name, version)
    return site


def test_the_family_is_pinned(image: Path) -> None:
    """Would catch a vendor's numpy or torch_npu left free to be replaced, or the whole image pinned."""
    assert vendor.constraints(family(image)) == "numpy==1.26.4\ntorch==2.7.1\ntorch-npu==2.7.1\n"


def test_without_torch_there_is_no_family(tmp_path: Path) -> None:
    """Would catch a plain host's numpy pinned against the lock."""
    put(tmp_path, "numpy", "1.26.4")
    assert family(tmp_path) == {}


def test_torch_that_no_installer_knows_is_refused(tmp_path: Path) -> None:
    """Would catch a torch built from source that pip puts another one over."""
    put(tmp_path, "torch", "2.7.1", metadata=False)
    answer = ask(tmp_path)
    assert answer.returncode != 0 and "Unpackaged" in answer.stderr


def test_nothing_changed(image: Path) -> None:
    """Would catch a comparison that always complains: an import writes compiled Python, no more."""
    before = family(image)
    compiled = image / "torch" / "__pycache__" / "__init__.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"compiled")
    assert vendor.changes(before, family(image)) == []


def test_a_second_torch_in_front_is_told(image: Path, tmp_path: Path) -> None:
    """Would catch a torch installed beside the vendor's, which the image's own files do not show."""
    before = family(image)
    put(tmp_path / "venv", "torch", "2.9.0")
    (sentence,) = vendor.changes(before, family(tmp_path / "venv", image))
    assert "torch 2.7.1" in sentence and "shadowed by 2.9.0" in sentence


def test_the_same_version_in_front_is_told_too(image: Path, tmp_path: Path) -> None:
    """Would catch a comparison of versions alone: the index's 2.7.1 is not the vendor's."""
    before = family(image)
    put(tmp_path / "venv", "torch", "2.7.1")
    (sentence,) = vendor.changes(before, family(tmp_path / "venv", image))
    assert "shadowed" in sentence


def test_a_changed_file_is_told(image: Path) -> None:
    """Would catch a vendor's file patched in place, its version unchanged."""
    before = family(image)
    (image / "torch_npu" / "__init__.py").write_text("patched = True\n")
    (sentence,) = vendor.changes(before, family(image))
    assert sentence.startswith("torch-npu 2.7.1: files in")


def test_a_replaced_or_lost_package_is_told(image: Path) -> None:
    """Would catch an upgrade in place, and an uninstall."""
    before = family(image)
    after = {name: each for name, each in before.items() if name != "numpy"}
    after["torch"] = vendor.Package("torch", "2.9.0", before["torch"].place, "other")
    assert [each.split()[0] for each in vendor.changes(before, after)] == ["numpy", "torch"]


def test_family_names() -> None:
    """Would catch a family that misses the card's own packages, or takes names that only begin alike."""
    inside = ("torch", "torch_npu", "torchvision", "triton-ascend", "PyYAML", "nvidia-nccl-cu12", "mindiesd")
    assert all(map(vendor.is_family, inside))
    assert not any(map(vendor.is_family, ("requests", "jupyterlab", "numpydoc", "attrs-strict", "pytorch")))


def test_places_of_an_outer_environment() -> None:
    """Would catch .venv blind to the active environment's torch, or given a second standard library."""
    base = sys.base_prefix
    path = [str(LAUNCH), f"{base}/lib/python3.11", "/opt/venv/lib/python3.11/site-packages", "/opt/src/torch"]
    assert environment.outer_places([*path, f"{base}/lib/python3.11/dist-packages"]) == [
        "/opt/venv/lib/python3.11/site-packages",
        "/opt/src/torch",
        f"{base}/lib/python3.11/dist-packages",
    ]
