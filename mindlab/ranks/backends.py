"""Which backends this host offers, found out without touching a device in the notebook's process."""

from __future__ import annotations

import html
import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindlab.errors import BackendUnavailable

if TYPE_CHECKING:
    import torch

_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class Backend:
    """One way to connect ranks. `missing` is empty where it works, else the reason why not."""

    name: str
    """"hccl", "nccl" or "gloo"."""
    device: str
    """torch's device type: "npu", "cuda" or "cpu"."""
    group: str
    """What torch.distributed.init_process_group gets."""
    cards: int = 0
    """How many cards it found (0 on CPU)."""
    missing: str = ""

    @property
    def available(self) -> bool:
        """Whether `launch(backend=name)` works here."""
        return not self.missing

    @property
    def fork(self) -> bool:
        """CPU ranks are forked from a process that has torch; cards need fresh interpreters."""
        return self.device == "cpu"

    def environment(self, rank: int, ranks: int) -> dict[str, str]:
        """The variables of one rank, as torchrun would set them, and what its backend needs."""
        common = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        }
        if self.device == "cpu":
            return {**common, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        # Two notebooks on one host must not fight for HCCL's fixed ports 60000 and 16666.
        ports = {"HCCL_HOST_SOCKET_PORT_RANGE": "auto", "HCCL_NPU_SOCKET_PORT_RANGE": "auto"}
        extra = {name: os.environ.get(name, value) for name, value in ports.items()}
        return {**common, **(extra if self.device == "npu" else {}), "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}


class Backends(tuple[Backend, ...]):
    """The backends in order of preference; shows itself as a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{backend.name:<5} {_state(backend)}" for backend in self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{backend.name}</code></td><td>{html.escape(_state(backend))}</td></tr>"
            for backend in self
        )
        return f"<table><tr><th>backend</th><th>on this host</th></tr>{rows}</table>"


def backends() -> Backends:
    """What this host offers, best first, each with the reason where it is missing.

    Cards are counted in a throw-away process, so this one stays free of any device.

        >>> ml.backends()[-1].name
        'gloo'
    """
    return Backends((_npu(), _cuda(), Backend("gloo", "cpu", "gloo")))


def choose(name: str | None, ranks: int) -> Backend:
    """The backend called `name`, or the best one of this host; raises BackendUnavailable.

    The environment variable MINDLAB_BACKEND (`mindlab run --backend`) names it where a call does not.
    """
    name = name or os.environ.get("MINDLAB_BACKEND") or None
    if name == "gloo":
        return Backend("gloo", "cpu", "gloo")
    offered = backends()
    if name is None:
        name = next(backend.name for backend in offered if backend.available)
    known = {backend.name: backend for backend in offered}
    if name not in known:
        raise BackendUnavailable(f"backend={name!r} is unknown; known: {', '.join(known)}")
    backend = known[name]
    if backend.missing:
        usable = ", ".join(repr(b.name) for b in offered if b.available)
        raise BackendUnavailable(f"backend={name!r} is not usable here: {backend.missing}. Usable: {usable}")
    if backend.cards and ranks > backend.cards:
        raise BackendUnavailable(
            f"ranks={ranks} needs {ranks} cards and this host shows {backend.cards}: "
            f"take ranks={backend.cards} or backend='gloo'"
        )
    return backend


def device() -> torch.device:
    """The torch.device of this rank: its own card under hccl and nccl, else the CPU.

    Also right under plain torchrun. In the notebook's own process it is the CPU: a card touched there
    would be lost to the ranks.

        >>> ml.device()
        device(type='cpu')
    """
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return torch.device("cpu")
    kinds = dist.get_backend_config() if hasattr(dist, "get_backend_config") else dist.get_backend()
    kind = "npu" if "hccl" in kinds else "cuda" if "nccl" in kinds else "cpu"
    index = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    return torch.device("cpu") if kind == "cpu" else torch.device(kind, index)


def _state(backend: Backend) -> str:
    if backend.missing:
        return f"not usable: {backend.missing}"
    return f"{backend.cards} {backend.device} cards" if backend.cards else "CPU processes on this host"


@lru_cache(maxsize=1)
def _npu() -> Backend:
    backend = Backend("hccl", "npu", "cpu:gloo,npu:hccl")
    if not list(Path("/dev").glob("davinci[0-9]*")):
        return _without(backend, "no Ascend card (no /dev/davinci*)")
    if _version("torch_npu") is None:
        return _without(backend, "an Ascend card is there, but torch_npu is not installed")
    return _probe(backend, "import torch, torch_npu; print('cards', torch.npu.device_count())")


@lru_cache(maxsize=1)
def _cuda() -> Backend:
    backend = Backend("nccl", "cuda", "cpu:gloo,cuda:nccl")
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        return _without(backend, "no CUDA card (no /dev/nvidia*)")
    if "+cpu" in (_version("torch") or ""):
        return _without(backend, "a CUDA card is there, but this torch is a CPU build")
    return _probe(backend, "import torch; print('cards', torch.cuda.device_count())")


def _without(backend: Backend, reason: str) -> Backend:
    return Backend(backend.name, backend.device, backend.group, missing=reason)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _probe(backend: Backend, code: str) -> Backend:
    """Count cards in a throw-away process."""
    try:
        answer: Any = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _without(backend, f"counting the cards took more than {_PROBE_SECONDS:.0f} s")
    words = answer.stdout.split()
    if answer.returncode or "cards" not in words:
        last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        return _without(backend, f"counting the cards failed: {last}")
    cards = int(words[words.index("cards") + 1])
    if cards == 0:
        return _without(backend, "torch sees no card")
    return Backend(backend.name, backend.device, backend.group, cards=cards)
