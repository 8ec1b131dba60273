"""How many bytes of tensors a function keeps alive at one time, beside what it was given.

The mode below sees every call of torch that is made in Python on this thread, also tensor methods and
operators. Each storage that such a call returns, and that none of its arguments had, counts from then until
its last user lets go of it (torch's own weak reference to the storage says when). So it sees: the tensors
that the function makes, its result among them, and what a pending send keeps alive. It does not see: NumPy
arrays, Python lists, and what one call of torch allocates and frees again inside.

A TorchDispatchMode would see a little more, but loads torch's compiler, which takes seconds. Torch's memory
profiler sees every allocation, but writes lines of its own into the learner's output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode


class ExtraMemory(TorchFunctionMode):
    """A block whose new tensors are counted; `peak` is the most bytes of them that lived at one time.

    >>> with ExtraMemory() as extra:
    ...     x = torch.ones(10) + torch.ones(10)
    >>> extra.peak
    120
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live: dict[int, tuple[Any, int]] = {}
        """By address: the storage's weak reference (nobody else gets the address while it lives), bytes."""
        self._bytes = 0

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
        """Only asked when the sum would make a new peak: between two peaks nobody needs it exact."""
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
