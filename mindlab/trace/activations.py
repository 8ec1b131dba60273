"""What a layer's activations take: bytes kept for a backward pass, and bytes alive while it runs.

    saved_activations   what a training step would keep: the tensors that torch's autograd saves for backward
    live_activations    what inference holds: bytes alive as each part of the layer begins

Both run the layer once on what they are given, on one card or on a rank, and count storages: a view of a
tensor that is counted costs nothing more. Parameters do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mindlab.errors import MindlabError
from mindlab.trace.memory import ExtraMemory

_SETTLE = 0.005
"""Seconds."""
_WANTS_GRADIENT = Tensor.requires_grad.__get__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Saved:
    """One storage that autograd keeps, as the operation that saved it first saw it; `nbytes` is all of it."""

    op: str
    """The function of torch: "layer_norm", "linear", "gelu"…; "attention" for every fused one."""
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


def saved_activations(module: nn.Module, *inputs: Any, **given: Any) -> list[Saved]:
    """One row for each storage that a backward pass through module(*inputs, **given) would need, in order.

    Parameters are taken as trainable, also frozen ones, and a `no_grad` inside does not count: a layer made
    for inference so tells what training would keep. It goes the way it goes in inference: fused attention
    saves the log-sum-exp, not the softmax. No gradient is computed. What comes from other ranks has no past,
    and needs none here: an operation whose weights are trained saves its inputs all the same.

    >>> rows = saved_activations(nn.Sequential(nn.Linear(8, 32), nn.GELU()), torch.ones(2, 8))
    >>> [(row.op, row.shape, row.nbytes) for row in rows]
    [('linear', (2, 8), 64), ('gelu', (2, 32), 256)]
    """
    mode = _Saving(module)
    saving = torch.autograd.graph.saved_tensors_hooks(mode.keep, _no_backward)
    with _trainable(module), torch.enable_grad(), saving, mode:
        module(*inputs, **given)
    return mode.rows


def live_activations(module: nn.Module, *inputs: Any, **given: Any) -> dict[str, int]:
    """Bytes of activations alive on entry to each submodule, by its name, and at most ("peak").

    The inputs count, since the caller holds them, and so does what the caller of the submodule holds. Runs
    without autograd. A submodule that is called twice has its larger number.

    >>> live_activations(nn.Sequential(nn.Linear(8, 32), nn.GELU()), torch.ones(2, 8))
    {'0': 64, '1': 320, 'peak': 576}
    """
    found: dict[str, int] = {}
    held = sum({s._cdata: int(s.nbytes()) for s in _storages([*inputs, *given.values()])}.values())
    extra = _Settled()

    def note(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            found[name] = max(found.get(name, 0), held + extra.now)

        return hook

    hooks = [part.register_forward_pre_hook(note(name)) for name, part in module.named_modules() if name]
    try:
        with torch.no_grad(), extra:
            module(*inputs, **given)
    finally:
        for hook in hooks:
            hook.remove()
    return {**found, "peak": held + extra.peak}


class _Settled(ExtraMemory):
    """Waits a moment before it believes that a tensor lives: gloo's thread lets go of one after wait()."""

    def _forget_dead(self) -> None:
        time.sleep(_SETTLE)
        super()._forget_dead()


class _Saving(TorchFunctionMode):
    """Autograd is on, and the code inside can neither see it nor end it; what it saves becomes a row."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.rows: list[Saved] = []
        self._own = {s._cdata for s in _storages([*module.parameters(), *module.buffers()])}
        self._kept: dict[int, Tensor] = {}
        """Held, as training would hold them: else a freed address could come again."""
        self._op = ""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        self._op = "attention" if "dot_product" in name else name
        if name == "_set_grad_enabled":
            return None
        if func == _WANTS_GRADIENT:
            return False
        return func(*args, **(kwargs or {}))

    def keep(self, tensor: Tensor) -> None:
        """The pack hook of autograd: nothing is handed back, for no backward comes."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._own or storage._cdata in self._kept:
            return
        self._kept[storage._cdata] = tensor.detach()
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.rows.append(Saved(self._op, tuple(tensor.shape), dtype, int(storage.nbytes())))


def _no_backward(_: Any) -> Tensor:
    raise MindlabError("saved_activations counts and keeps nothing: run the layer again for a backward pass")


@contextmanager
def _trainable(module: nn.Module) -> Iterator[None]:
    """All parameters require gradients inside, and what they were after it."""
    before = [(weight, weight.requires_grad) for weight in module.parameters()]
    module.requires_grad_(True)
    try:
        yield
    finally:
        for weight, trained in before:
            weight.requires_grad_(trained)


def _storages(values: Iterable[Any]) -> list[Any]:
    return [value.untyped_storage() for value in values if isinstance(value, Tensor)]
