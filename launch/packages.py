"""Which packages .venv gets: torch, where the image has none, and what pyproject.toml names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import installer
import stamp
import torch_build
import vendor
from console import Refusal, say
from environment import PYTHON, ROOT, VENV

PINS = VENV / "mindlab-pins.txt"


def torch_requirement() -> str:
    """What pyproject.toml asks of torch."""
    found = re.search(r'^torch = \["(torch[^"]*)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found, 'pyproject.toml has no line: torch = ["torch>=…"]'
    return found[1]


def is_older(version: str) -> bool:
    """Whether a version of torch is older than pyproject.toml allows."""
    return release(version) < release(torch_requirement().split(">=")[1])


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare: 2.13 comes after 2.7."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def install(extras: list[str], wheels: Path | None, image: dict[str, vendor.Package], lock: int) -> None:
    """Installs this project with the given extras, and torch if the image has none."""
    pip = installer.Installer(PYTHON, ROOT, keep_open=(lock,))
    pip = installer.from_folder(pip, wheels) if wheels else installer.from_here(pip)
    if image:
        PINS.write_text(vendor.constraints(image))
        arguments = ["-c", str(PINS), "-e", f".[{','.join(extras)}]"]  # no lock: it has its own numpy
    else:
        present = installed_torch()
        PINS.write_text(f"torch=={present or fetch_torch(pip)}\n")
        extras = extras if present else ["torch", *extras]
        arguments = ["-c", str(PINS), "-c", "constraints.txt"]
        say("fetching what the project needs")
        if not pip.fetch(*arguments, *named_packages(extras)):
            raise Refusal(_why_failed(pip))
        pip = installer.from_folder(pip, pip.wheels)
        arguments += ["-e", f".[{','.join(extras)}]"]
    say("installing")
    leftover = ROOT / "mindlab_workbook.egg-info"
    ours = not leftover.exists()
    if not pip.install(*arguments):
        raise Refusal(_why_failed(pip))
    if ours:
        shutil.rmtree(leftover, ignore_errors=True)  # by-product of the editable install, not used


def named_packages(extras: list[str]) -> list[str]:
    """The requirements in pyproject.toml: to build the project, to run it, and of these extras."""
    command = [PYTHON, str(ROOT / "launch" / "pyproject.py"), *extras]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if answer.returncode:
        raise Refusal(answer.stderr.strip())
    return answer.stdout.splitlines()


def installed_torch() -> str | None:
    """The version of torch that already lies in .venv."""
    return {vendor.canonical(name): version for name, version in stamp.packages(VENV).items()}.get("torch")


def fetch_torch(pip: installer.Installer) -> str:
    """The version of torch whose wheel was fetched from the first source that serves."""
    host = torch_build.this_host()
    requirement = torch_requirement()
    for source in torch_build.sources(host, requirement, offline=pip.offline, environment=os.environ):
        say(f"torch: {source.name}")
        arguments = ("--no-deps", *source.arguments, source.requirement)
        if not pip.fetch(*arguments, environment=source.environment, may_fail=True):
            continue
        wheel = max(pip.wheels.glob("torch-*.whl"), key=lambda path: release(path.name))
        version = wheel.name.split("-")[1]
        unwanted = torch_build.cuda_packages(torch_build.requirements(PYTHON, wheel))
        if not unwanted or torch_build.accepts_cuda(host, os.environ):
            return version
        say(f"torch {version} from there is a CUDA build: it wants {', '.join(unwanted)}")
        wheel.unlink()
    raise Refusal(
        "no CPU build of torch was found. Either set MINDLAB_TORCH_INDEX to an index that has one, or put "
        "its wheel into a folder and set PIP_FIND_LINKS to it. MINDLAB_TORCH=any takes a CUDA build."
    )


def _why_failed(pip: installer.Installer) -> str:
    if pip.offline:
        return (
            "a package is missing on this disk (above). docs/install.md, 'Without network', says how to "
            "bring a folder of wheels; set MINDLAB_WHEELS to it."
        )
    return f"see pip's message above, and {ROOT / 'build' / 'setup.log'}."
