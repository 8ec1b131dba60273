"""Where torch comes from on a host that has none: a CPU build unless there is a card.

The package index holds CUDA builds for Linux (gigabytes with what they pull in); PyTorch's CPU one does not.
Each source is tried in turn for torch's wheel alone, and the wheel's metadata tells whether it wants CUDA's
packages, before any of them is fetched.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_PREFIXES = ("nvidia-", "cuda-", "triton")

# Runs in the new environment: pip brings the reader of requirements that the standard library lacks.
_READ = """
import json, sys, zipfile
from importlib.metadata import PathDistribution
from pip._vendor.packaging.requirements import Requirement
(inside,) = [each for each in zipfile.Path(sys.argv[1]).iterdir() if each.name.endswith(".dist-info")]
wanted = [Requirement(text) for text in PathDistribution(inside).requires or []]
needed = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
print(json.dumps([each.name for each in needed]))
"""


@dataclass(frozen=True)
class Host:
    """What decides: `platform.system()`, `platform.machine()`, and whether a CUDA card answers."""

    system: str
    machine: str
    cuda: bool


@dataclass(frozen=True)
class Source:
    """A place to take torch from: pip's arguments, its environment, and what to call it."""

    name: str
    requirement: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def this_host() -> Host:
    """The host that this runs on. The card is asked through nvidia-smi, in its own process."""
    return Host(platform.system(), platform.machine(), _has_cuda())


def _has_cuda() -> bool:
    command = shutil.which("nvidia-smi")
    if command is None:
        return False
    try:
        answer = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and "GPU 0" in answer.stdout


def sources(host: Host, requirement: str, *, offline: bool, environment: Mapping[str, str]) -> list[Source]:
    """The sources to try, best first.

    `offline`: only what lies on this disk. `environment` may hold MINDLAB_TORCH and MINDLAB_TORCH_INDEX.
    """
    default = Source("as pip is configured", requirement)
    if accepts_cuda(host, environment):
        return [default]
    near = Source("wheels that pip finds on this disk", requirement, ("--no-index",))
    if offline:
        return [near, default]
    index = environment.get("MINDLAB_TORCH_INDEX") or CPU_INDEX
    found = [
        near,
        # An extra index of pip's configuration would take part and win with a higher version: overridden.
        Source(f"CPU builds at {index}", requirement, ("--index-url", index), {"PIP_EXTRA_INDEX_URL": index}),
    ]
    if host.machine == "aarch64":
        # The package index's builds for aarch64 were CPU builds up to 2.9.
        found.append(Source("the package index, before its CUDA builds", f"{requirement},<2.10"))
    return found


def accepts_cuda(host: Host, environment: Mapping[str, str]) -> bool:
    """Whether a CUDA build may be installed here."""
    return host.cuda or host.system != "Linux" or environment.get("MINDLAB_TORCH") == "any"


def cuda_packages(names: list[str]) -> list[str]:
    """Those names that only a CUDA build brings."""
    return [name for name in names if name.lower().replace("_", "-").startswith(CUDA_PREFIXES)]


def requirements(python: str, wheel: Path) -> list[str]:
    """The names that a wheel requires on this host, its optional parts left out."""
    answer = subprocess.run(
        [python, "-c", _READ, str(wheel)], capture_output=True, text=True, timeout=120, check=True
    )
    return list(json.loads(answer.stdout))
