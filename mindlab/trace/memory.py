"""How many bytes of tensors a block of code keeps alive, beside what was there before.

The mode below sees every call of torch that is made in Python on this thread, also tensor methods and
operators. Each storage that such a call returns, and that none of its arguments had, counts from then until
its last user lets go of it (torch's own weak reference to the storage says when). So it sees: the tensors
that the code makes, its result among them, and what a pending send keeps alive. It does not see: NumPy
arrays, Python lists, and what one call of torch allocates and frees again inside.

A TorchDispatchMode would see a little more, but loads torch's compiler, which takes seconds. Torch's memory
profiler sees every allocation, but writes lines of its own into the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode


class ExtraMemory(TorchFunctionMode):
    """A block whose new tensors are counted: `peak`, the most bytes that lived at one time, and `now`.

    Usable on a rank as in a notebook; it counts this thread only. Tensors that were there before the block do
    not count, nor do views of them. Bytes are those of the storages: a view keeps its whole storage alive.

    >>> with ml.ExtraMemory() as extra:
    ...     x = torch.ones(10) + torch.ones(10)
    >>> extra.peak, extra.now
    (120, 40)
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live: dict[int, tuple[Any, int]] = {}
        """By address: the storage's weak reference (nobody else gets the address while it lives), bytes."""
        self._bytes = 0

    @property
    def now(self) -> int:
        """Bytes of the new tensors that live at this moment, also asked after the block."""
        self._forget_dead()
        return self._bytes

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        for storage in _storages((args, given)):
            self._know(storage, 0)
        result = func(*args, **given)
        for storage in _storages(result):
            self._know(storage, int(storage.nbytes()))
        if self._bytes > self.peak:
            self._forget_dead()
            self.peak = max(self.peak, self._bytes)
        return result

    def _know(self, storage: Any, nbytes: int) -> None:
        address = storage._cdata
        if address not in self._live:
            self._live[address] = (StorageWeakRef(storage), nbytes)  # type: ignore[no-untyped-call]
            self._bytes += nbytes

    def _forget_dead(self) -> None:
        """Asked for `now`, and when the sum would make a new peak: else nobody needs it exact."""
        dead = [address for address, (reference, _) in self._live.items() if reference.expired()]
        for address in dead:
            self._bytes -= self._live.pop(address)[1]


def _storages(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        try:
            yield value.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other kinds without one block of memory
            return
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _storages(item)
    elif isinstance(value, dict):
        yield from _storages(list(value.values()))
