"""pyproject.toml is the only place that names packages; environment.yml and constraints.txt follow it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
import yaml
from setup_modules import ROOT, pyproject

TEXT = pyproject.tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TEXT["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = [*PROJECT["dependencies"], *(each for listed in EXTRAS.values() for each in listed)]
PEERS = {"accelerate", "ipyparallel", "monarch", "ray"}  # `mindlab bench` measures those that are installed
VENDOR = {"torch", "torch-npu", "torchvision", "torchaudio", "triton"}


def name(requirement: str) -> str:
    """The package that a requirement or a line of the lock names."""
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def locked() -> dict[str, list[str]]:
    """The lines of the lock, by package."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            found.setdefault(name(line), []).append(line)
    return found


def conda() -> tuple[list[str], list[str]]:
    """What environment.yml takes from conda, and its lines for pip."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    return (
        [each for each in listed if isinstance(each, str)],
        [line for each in listed if isinstance(each, dict) for line in each["pip"]],
    )


def tracked() -> list[str]:
    """The text files that git tracks."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def test_conda_brings_python_and_pip_alone() -> None:
    """Would catch a package that environment.yml names and pyproject.toml does not, or conda's torch."""
    from_conda, for_pip = conda()
    assert {re.split(r"[=<>]", each)[0] for each in from_conda} == {"python", "pip"}
    (editable,) = [line for line in for_pip if line.startswith("-e .[")]
    assert set(editable[len("-e .[") : -1].split(",")) == set(EXTRAS) - {"npu"}
    assert "-c constraints.txt" in for_pip


def test_the_environment_file_names_what_it_stands_for() -> None:
    """Would catch an environment.yml that no longer tells a reader where torch, torch_npu and Jupyter are."""
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    for word in ("torch", "torch_npu", "jupyterlab", "ipywidgets", "matplotlib", "nbconvert", "papermill"):
        assert re.search(rf"\b{word}\b", text), word


def test_every_wanted_package_is_declared() -> None:
    """Would catch a workbook that installs and then lacks a part of Jupyter."""
    declared = {name(each) for each in DECLARED}
    wanted = {"torch", "torch-npu", "jupyterlab", "ipywidgets", "matplotlib", "nbconvert", "papermill"}
    assert wanted <= declared


def test_the_lock_holds_every_declared_package_but_the_vendors() -> None:
    """Would catch a package added to pyproject.toml without making the lock anew."""
    assert {name(each) for each in DECLARED} - VENDOR <= set(locked()), (
        "make the lock anew: its first lines say how"
    )


def test_the_lock_leaves_torch_and_cuda_alone() -> None:
    """Would catch a lock that replaces a vendor's torch, or pulls gigabytes of CUDA."""
    assert not VENDOR & set(locked())
    assert not [each for each in locked() if each.startswith(("nvidia-", "cuda-"))]


def test_the_lock_meets_the_lower_bounds() -> None:
    """Would catch a bound in pyproject.toml raised above what the lock pins."""
    from packaging.requirements import Requirement

    for text in DECLARED:
        wanted = Requirement(text)
        for line in locked().get(name(text), []):
            pinned = Requirement(line)
            (version,) = [each.version for each in pinned.specifier]
            assert wanted.specifier.contains(version), f"{text} against {line}"


def imported(folder: str) -> set[str]:
    """The names at the head of every import in a folder, those of the standard library left out."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def test_every_import_is_declared() -> None:
    """Would catch a package that is there only because another one happens to need it today."""
    other_names = {
        "bs4": "beautifulsoup4",
        "sklearn": "scikit-learn",
        "torch_npu": "torch-npu",
        "yaml": "pyyaml",
    }
    wanted = {other_names.get(each, each.lower().replace("_", "-")) for each in imported("mindlab")}
    assert wanted - {"mindlab", *PEERS} <= {name(each) for each in DECLARED}


def test_torch_is_no_dependency_of_the_core() -> None:
    """Would catch a set-up that pulls another torch over the one of the host."""
    assert not VENDOR & {name(each) for each in PROJECT["dependencies"]}
    for extra in ("lab", "docs", "dev"):
        assert not VENDOR & {name(each) for each in EXTRAS[extra]}, extra


def test_the_distribution_has_a_name_of_its_own() -> None:
    """Would catch a rename to "mindlab", which is another project on the package index."""
    assert PROJECT["name"] == "mindlab-workbook"
    assert PROJECT["scripts"] == {"mindlab": "mindlab.cli:main"}


def test_nothing_tells_a_person_to_install_the_other_project() -> None:
    """Would catch a page, hint or script that installs "mindlab" from the package index."""
    wrong = re.compile(r"(pip|uv|conda|mamba) +(pip +)?(install|add) +(-\S+ +)*['\"]?mindlab(?![-\w])")
    found = [path for path in tracked() if wrong.search((ROOT / path).read_text("utf-8", "replace"))]
    assert not found


def test_no_path_of_one_machine() -> None:
    """Would catch a home folder or a build folder of the machine where a file was written."""
    wrong = re.compile(r"(?<![\w.])/(home|root|Users|work)/[A-Za-z]")
    found = [path for path in tracked() if wrong.search((ROOT / path).read_text("utf-8", "replace"))]
    assert not [path for path in found if path != "tests/test_setup_files.py"]


def test_what_a_run_makes_is_ignored() -> None:
    """Would catch a report or an environment that turns up in `git status`."""
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {".venv/", "build/"} <= set(ignored)


def test_requirements_of_unknown_extras_are_refused() -> None:
    """Would catch a misspelt extra that installs nothing and says nothing."""
    assert "papermill>=2.6" in pyproject.named(TEXT, ["docs"])
    with pytest.raises(KeyError):
        pyproject.named(TEXT, ["dcos"])
