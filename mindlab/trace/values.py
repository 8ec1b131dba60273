"""Values as JSON and raw bytes, and back, without pickle.

A plain number, string or list is itself; everything else is an object with one key "$" that names its kind.
"""

from __future__ import annotations

import math
import sys
import zipfile
from typing import Any

import numpy as np

_LONGEST_REPR = 10_000


class Writer:
    """Turns values into JSON; tensors and arrays become members of the archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.count = 0
        self.notes: list[str] = []
        self.above: set[int] = set()
        """Containers that stand around the present value: one inside itself cannot be written."""

    def encode(self, value: Any, name: str) -> Any:
        """JSON for `value`; `name` says what it is, for the notes."""
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "text": repr(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return {**self._array(np.asarray(value)), "$": "numpy scalar"}
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor) and _is_plain(value, torch):
            return self._tensor(value, torch)
        return self._other(value, name)

    def _other(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is complex:
            return {
                "$": "complex",
                "real": self.encode(value.real, name),
                "imag": self.encode(value.imag, name),
            }
        if kind in (bytes, bytearray):
            return {"$": kind.__name__, "hex": bytes(value).hex()}
        if isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in self.above:
            return self._container(value, name)
        text = repr(value)[:_LONGEST_REPR]
        self.notes.append(f"saved as its repr, not as an object: {name} ({kind.__name__})")
        return {"$": "repr", "kind": kind.__name__, "text": text}

    def _container(self, value: Any, name: str) -> Any:
        self.above.add(id(value))
        try:
            if isinstance(value, dict):
                pairs = [
                    [self.encode(key, f"a key of {name}"), self.encode(item, f"{name}[{key!r}]")]
                    for key, item in value.items()
                ]
                return {"$": "dict", "items": pairs}
            items = [self.encode(item, f"{name}[{index}]") for index, item in enumerate(value)]
            if type(value) is list:
                return items
            kinds = (list, tuple, set, frozenset)  # a named tuple comes back as a tuple
            return {"$": next(k.__name__ for k in kinds if isinstance(value, k)), "items": items}
        finally:
            self.above.discard(id(value))

    def _tensor(self, tensor: Any, torch: Any) -> dict[str, Any]:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        dtype = str(tensor.dtype).removeprefix("torch.")
        return {
            "$": "tensor",
            "dtype": dtype,
            "shape": list(tensor.shape),
            "file": self._file(_bytes(flat, torch)),
        }

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return {
            "$": "array",
            "dtype": little.dtype.str,
            "shape": list(array.shape),
            "file": self._file(little.tobytes()),
        }

    def _file(self, data: bytes) -> str:
        name = f"values/{self.count}.bin"
        self.count += 1
        self.archive.writestr(name, data)
        return name


class Reader:
    """Turns what a Writer wrote back into values."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive

    def decode(self, given: Any) -> Any:
        """The value that this JSON stands for. Raises ValueError for what no Writer writes."""
        if isinstance(given, list):
            return [self.decode(item) for item in given]
        if not isinstance(given, dict):
            return given
        decoder = _DECODERS.get(given["$"])
        if decoder is None:
            raise ValueError(f"unknown kind of value {given['$']!r} in a .run file")
        return decoder(self, given)

    def _tensor(self, given: dict[str, Any]) -> Any:
        import torch

        dtype = getattr(torch, given["dtype"], None)
        if not isinstance(dtype, torch.dtype) or given["dtype"].startswith("q"):  # quantized: never written
            raise ValueError(f"this torch has no dtype {given['dtype']!r}")
        data = bytearray(self.archive.read(given["file"]))
        if len(data) != math.prod(given["shape"]) * dtype.itemsize:
            raise ValueError(f"{given['file']} holds {len(data)} B, which is not {given['shape']} of {dtype}")
        if not data:
            return torch.empty(given["shape"], dtype=dtype)
        return torch.frombuffer(data, dtype=torch.uint8).clone().view(dtype).reshape(given["shape"])

    def _array(self, given: dict[str, Any]) -> Any:
        dtype = np.dtype(given["dtype"])
        if dtype.kind not in "biufc":
            raise ValueError(f"an array of {dtype} is not read from a .run file")
        return np.frombuffer(bytearray(self.archive.read(given["file"])), dtype=dtype).reshape(given["shape"])

    def _items(self, given: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in given["items"]]


_DECODERS: dict[str, Any] = {
    "float": lambda reader, given: float(given["text"]),
    "complex": lambda reader, given: complex(reader.decode(given["real"]), reader.decode(given["imag"])),
    "bytes": lambda reader, given: bytes.fromhex(given["hex"]),
    "bytearray": lambda reader, given: bytearray.fromhex(given["hex"]),
    "list": lambda reader, given: reader._items(given),
    "tuple": lambda reader, given: tuple(reader._items(given)),
    "set": lambda reader, given: set(reader._items(given)),
    "frozenset": lambda reader, given: frozenset(reader._items(given)),
    "dict": lambda reader, given: {reader.decode(k): reader.decode(v) for k, v in given["items"]},
    "tensor": lambda reader, given: reader._tensor(given),
    "array": lambda reader, given: reader._array(given),
    "numpy scalar": lambda reader, given: reader._array(given)[()],
    "repr": lambda reader, given: str(given["text"]),
}


def _is_plain(tensor: Any, torch: Any) -> bool:
    """An ordinary strided tensor: not sparse, quantized, nested or on the meta device."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and tensor.device.type != "meta"
    )


def _bytes(flat: Any, torch: Any) -> bytes:
    """The raw bytes of a flat tensor, little-endian as the machines that torch runs on are."""
    if not flat.numel():
        return b""
    plain = flat.resolve_conj().resolve_neg()
    return bytes(plain.view(torch.uint8).numpy().tobytes())
