"""Python objects on their way between processes: code by cloudpickle, big buffers through shared memory.

A tensor or array is never pickled: its bytes are copied once into an anonymous shared-memory file, whose
descriptor travels beside the pickle, and the receiver maps that file. Small buffers stay in the message.
"""

from __future__ import annotations

import importlib
import io
import mmap
import os
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from mindlab.trace.shared_file import anonymous_file

_INLINE = 1 << 15  # up to 32 KiB of buffers stay in the message: cheaper than a mapping
_ALIGN = 64


@dataclass
class Packed:
    """A packed object: the pickle, and its buffers either `inline` or in the file `fd` at `spans`."""

    pickle: bytes
    inline: list[bytes] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    fd: int = -1

    def fds(self) -> list[int]:
        """The descriptors that must travel with it."""
        return [self.fd] if self.fd >= 0 else []

    def close(self) -> None:
        """Close this process's descriptor of the shared file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __getstate__(self) -> dict[str, Any]:
        return {"pickle": self.pickle, "inline": self.inline, "spans": self.spans}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, fd=-1)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.CodeType):
            return _with_its_file(self.dispatch_table[types.CodeType](obj), obj.co_filename)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor):
            reduced = _reduce_tensor(torch, obj)
            if reduced is not None:
                return reduced
        return super().reducer_override(obj)


def _with_its_file(reduced: tuple[Any, ...], file: str) -> tuple[Any, ...]:
    """cloudpickle 3.1.2 and newer forget a function's file; tracebacks and source lines need it."""
    make, args = reduced
    return make, tuple(file if part == "<dynamic-code>" else part for part in args)


def _reduce_tensor(torch: Any, tensor: Any) -> Any:
    """How a plain dense tensor travels: its bytes out of band. None for kinds that pickle themselves."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return None
    if tensor.is_quantized or tensor.device.type == "meta":
        return None
    dense = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    raw = dense.reshape(-1).view(torch.uint8) if dense.numel() else dense.new_empty(0, dtype=torch.uint8)
    kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    grad = bool(tensor.requires_grad and tensor.is_leaf)
    name = str(tensor.dtype).removeprefix("torch.")
    return _rebuild_tensor, (pickle.PickleBuffer(raw.numpy()), name, tuple(tensor.shape), kind, grad)


def _rebuild_tensor(raw: Any, dtype: str, shape: tuple[int, ...], kind: str, grad: bool) -> Any:
    torch = without_cards()
    if memoryview(raw).nbytes == 0:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
    else:
        flat = torch.frombuffer(raw, dtype=torch.uint8)
        tensor = flat.view(getattr(torch, dtype)).reshape(shape)
    if kind == "parameter":
        return torch.nn.Parameter(tensor, requires_grad=grad)
    return tensor.requires_grad_(grad) if grad else tensor


def without_cards() -> Any:
    """torch, imported without the card's package if this is the first import.

    This process must never touch a card, and a torch_npu without its libraries breaks `import torch` itself.
    """
    if "torch" not in sys.modules and "mindlab.ranks.worker" not in sys.modules:
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return importlib.import_module("torch")


def pack(obj: Any) -> Packed:
    """`obj` packed. Raises whatever pickling raises (TypeError, PicklingError, RecursionError …)."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(obj)
    views = [buffer.raw() for buffer in buffers]
    if sum(view.nbytes for view in views) <= _INLINE:
        return Packed(stream.getvalue(), inline=[bytes(view) for view in views])
    spans, size = [], 0
    for view in views:
        spans.append((size, view.nbytes))
        size += -(-view.nbytes // _ALIGN) * _ALIGN
    fd = anonymous_file(size)
    with mmap.mmap(fd, size) as memory:
        for (start, length), view in zip(spans, views, strict=True):
            memory[start : start + length] = view
    return Packed(stream.getvalue(), spans=spans, fd=fd)


def unpack(packed: Packed, fds: list[int]) -> Any:
    """The object. The shared file is mapped privately: a receiver that writes changes its own copy."""
    try:
        return pickle.loads(packed.pickle, buffers=_buffers(packed, fds))
    finally:
        packed.fd = -1
        for fd in fds:
            os.close(fd)


def _buffers(packed: Packed, fds: list[int]) -> list[Any]:
    if not packed.spans:
        return [bytearray(part) for part in packed.inline]
    size = os.fstat(fds[0]).st_size
    memory = memoryview(mmap.mmap(fds[0], size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    return [memory[start : start + length] for start, length in packed.spans]


def culprit(obj: Any, name: str, depth: int = 3) -> str:
    """The path of the part of `obj` that cannot be packed: "value['f'] (a generator)"."""
    for label, part in _parts(obj, name) if depth else ():
        if not travels(part):
            return culprit(part, label, depth - 1)
    return f"{name} (a {type(obj).__name__})"


def _parts(obj: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(obj, dict):
        return [(f"{name}[{key!r}]", part) for key, part in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(f"{name}[{index}]", part) for index, part in enumerate(obj)]
    closure: Callable[..., Any] | None = obj if callable(obj) else None
    cells = getattr(closure, "__closure__", None) or ()
    code = getattr(closure, "__code__", None)
    if code is None:
        return [(f"{name}.{key}", part) for key, part in getattr(obj, "__dict__", {}).items()]
    inner = [(key, cell.cell_contents) for key, cell in zip(code.co_freevars, cells, strict=False)]
    scope = getattr(closure, "__globals__", {})
    return inner + [(key, scope[key]) for key in code.co_names if key in scope]


def travels(obj: Any) -> bool:
    """Whether `obj` can be packed."""
    try:
        pack(obj).close()
    except Exception:  # noqa: BLE001 - any failure means: this is the part
        return False
    return True
