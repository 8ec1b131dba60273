"""Where torch comes from on a host that has none: a CPU build unless there is a card.

The package index holds CUDA builds for Linux (gigabytes with what they pull in); PyTorch's CPU index does not.
Each source is tried in turn with --no-deps, and the metadata of what came tells whether it wants CUDA's
packages, before any of them is downloaded.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_PREFIXES = ("nvidia-", "cuda-", "triton")

# Runs in the new environment: pip brings the reader of requirements that the standard library lacks.
_READ = """
import importlib.metadata as metadata, json
from pip._vendor.packaging.requirements import Requirement
wanted = [Requirement(text) for text in metadata.requires("torch") or []]
names = [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
print(json.dumps([metadata.version("torch"), names]))
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
    default = Source("pip's own configuration", requirement)
    if offline or host.cuda or host.system != "Linux" or environment.get("MINDLAB_TORCH") == "any":
        return [default]
    index = environment.get("MINDLAB_TORCH_INDEX") or CPU_INDEX
    found = [
        Source("wheels that pip finds on this disk", requirement, ("--no-index",)),
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


def installed(python: str) -> tuple[str, list[str]] | None:
    """torch's version in that environment and the names it wants there; None without torch."""
    answer = subprocess.run(
        [python, "-c", _READ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    if answer.returncode:
        return None
    version, names = json.loads(answer.stdout)
    return version, names
