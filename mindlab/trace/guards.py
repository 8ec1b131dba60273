"""What gloo gets wrong in silence and one rank can see alone: strided tensors, buffers changed too early.

(Other lengths, other groups and swapped orders need two ranks' rows: see `matching`.)
Nothing here changes what is sent; a guard only raises `UnsafeCall`, before the call or at `wait()`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from mindlab.errors import UnsafeCall
from mindlab.trace.places import Place

_WHOLE = 32 * 1024
"""Buffers up to this many bytes are compared whole, larger ones by samples."""
_EDGE = 1024
_SAMPLES = 4096


def refuse_strided(op: str, tensors: Iterable[Any], where: Place) -> None:
    """Raise UnsafeCall if one of the tensors has gaps or another order in memory.

    gloo sends the bytes between the elements instead of the elements: an all_reduce over a column of a
    matrix gives wrong sums without an error.
    """
    for tensor in tensors:
        try:
            if tensor.is_contiguous():
                continue
        except (RuntimeError, AttributeError):  # sparse, or no tensor: torch itself says so
            continue
        raise UnsafeCall(
            f"{op} got a tensor that is not contiguous: shape {tuple(tensor.shape)}, "
            f"stride {tuple(tensor.stride())} ({where.words}).\n"
            f"The backend reads memory in order, not by stride, so other elements would travel.\n"
            f"Give it x.contiguous(), and copy the result back if the call fills it."
        )


def refuse_stranger(op: str, peer: int | None, group: Sequence[int], where: Place) -> None:
    """Raise UnsafeCall for a partner that does not exist: gloo waits for it for ever."""
    if peer is None or peer in group:
        return
    raise UnsafeCall(
        f"{op} with rank {peer} ({where.words}): there is no such rank here, the ranks are "
        f"{group[0]} to {group[-1]}."
    )


class Buffer:
    """What a send buffer held when its call was made; `refuse_changed` holds it against what it holds now.

    Up to 32 KiB a checksum of the whole says it. Above, `Tensor._version` says cheaply that something was
    written to the storage, and a checksum of samples whether it was this part of it: a change of a few
    elements of a large buffer can pass, and so can one through `.data` or numpy. Tensors on a card are not
    read (that would wait for the card).
    """

    __slots__ = ("checksum", "in_place", "tensor", "version")

    def __init__(self, tensor: Any, in_place: bool) -> None:
        self.tensor = tensor
        self.version = int(tensor._version)
        self.in_place = in_place
        """The call itself writes this tensor (all_reduce): its content says nothing."""
        self.checksum = 0 if in_place else checksum(tensor)

    def changed(self) -> bool:
        """True if somebody wrote to the buffer since."""
        small = self.tensor.nbytes <= _WHOLE and not self.in_place
        if self.tensor._version == self.version and not small:
            return False
        if self.in_place:  # only a write to the whole storage is surely one to this tensor
            return bool(self.tensor.nbytes == self.tensor.untyped_storage().nbytes())
        return checksum(self.tensor) != self.checksum


def watch(op: str, sent: Sequence[Any], received: Sequence[Any]) -> list[Buffer]:
    """A Buffer for each tensor that an asynchronous call reads, where one can be kept."""
    filled = {id(tensor) for tensor in received}
    if filled and op not in ("all_reduce", "isend"):  # these may be written by the backend's own copies
        sent = [tensor for tensor in sent if id(tensor) not in filled and not _overlaps(tensor, received)]
    return [
        Buffer(tensor, id(tensor) in filled)
        for tensor in sent
        if tensor.is_cpu and tensor.numel() and not tensor.is_inference()
    ]


def _overlaps(tensor: Any, others: Sequence[Any]) -> bool:
    """True if one of the others shares memory with the tensor."""
    start = tensor.data_ptr()
    return any(
        other.data_ptr() < start + tensor.nbytes and start < other.data_ptr() + other.nbytes
        for other in others
    )


def refuse_changed(op: str, buffers: Sequence[Buffer], where: Place) -> None:
    """Raise UnsafeCall if a buffer was written between the call and now."""
    if any(buffer.changed() for buffer in buffers):
        raise UnsafeCall(
            f"{op} ({where.words}): its tensor was changed before wait().\n"
            f"The backend may read it until wait() returns, so the other rank can get the new values.\n"
            f"Change it after wait(), or send x.clone()."
        )


def checksum(tensor: Any) -> int:
    """A checksum of the tensor's bytes: whole if small, else both ends and an odd stride between."""
    import torch

    data = tensor.detach().view(-1).view(torch.uint8).numpy()
    if data.size <= _WHOLE:
        return zlib.crc32(data)
    step = (data.size // _SAMPLES) | 1
    edges = zlib.crc32(data[-_EDGE:], zlib.crc32(data[:_EDGE]))
    return zlib.crc32(data[::step].tobytes(), edges)
