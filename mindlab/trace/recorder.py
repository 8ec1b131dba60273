"""Wraps torch.distributed in a rank, so that every call that moves data becomes a row.

`install()` puts a wrapper around each function of `arguments.READERS`, once in a process and after
torch_npu, which puts its own functions there. Between `begin` and `end` a wrapper writes a row to the board,
runs the real function, and closes the row; otherwise it passes straight through. Calls that a recorded call
makes inside are not recorded again. Functional
collectives, DTensor and third-party kernels do not come this way.

Times are `time.monotonic_ns()`, which all processes of one host share.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from mindlab.errors import MindlabError
from mindlab.trace import places
from mindlab.trace.arguments import READERS
from mindlab.trace.board import Slot
from mindlab.trace.record import Record
from mindlab.trace.recording import Recording

cells = places.cells
"""A notebook's cell files and what a person calls them: the worker fills it before each experiment."""

_present: Recording | None = None


def install() -> None:
    """Wrap torch.distributed in this process; a second call only wraps what was put there since."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    swapped: dict[int, tuple[Any, Any]] = {}
    for name in (*READERS, "batch_isend_irecv"):
        for module in (c10d, dist):
            original = getattr(module, name, None)
            if original is None or getattr(original, "_mindlab", False) or id(original) in swapped:
                continue
            wrapper = _wrapped(name, original) if name in READERS else _wrapped_batch(original)
            swapped[id(original)] = (original, wrapper)
    if not swapped:
        return
    for name, module in list(sys.modules.items()):
        if module is not None and name.split(".")[0] in ("torch", "torch_npu", "mindlab"):
            _swap(module, swapped, everywhere=name.startswith(("torch.distributed", "mindlab")))
    _mark_p2p_ops(c10d.P2POp)


def begin(slot: Slot | None, rank: int, origin: float, *, guarded: bool = True) -> None:
    """Start recording in this rank. `origin` is second 0, as `time.monotonic()` counts."""
    global _present
    _present = Recording(slot, rank, origin, guarded)


def end() -> Record:
    """The record of what happened since `begin`; recording stops."""
    global _present
    recording, _present = _present, None
    if recording is None:
        raise MindlabError("recorder.end() without begin()")
    return recording.finish()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A block inside a rank in which calls pass straight through: to time what recording costs."""
    global _present
    recording, _present = _present, None
    try:
        yield
    finally:
        _present = recording


def note(text: str) -> None:
    """Add a line that the reader of the run must know."""
    if _present is not None:
        _present.notes.append(text)


def compute(flop: float, *, nbytes: float = 0, what: str = "") -> None:
    """State that this rank computes `flop` floating-point operations at this place of its program.

    `nbytes`: bytes of memory read and written. It becomes a row of `Run.work`, by which `ml.replay` knows
    what goes on beside the messages; nothing is timed. Where nothing is recorded (one card, the notebook's
    process, torchrun, a paused block) it does nothing, and it never raises.

        >>> def experiment():
        ...     recorder.compute(2 * 8 * 16 * 32, what="linear")
        >>> ml.launch(experiment, ranks=3).work[0].flop
        8192
    """
    if _present is not None:
        _present.compute(flop, nbytes, what)


def now() -> float:
    """Seconds since the experiment began, on the clock of its events; outside one, of `time.monotonic()`."""
    return time.monotonic() - (_present.origin if _present is not None else 0.0)


def step(label: str) -> None:
    """Label the calls that follow: `ml.step("forward")` inside the function that runs on the ranks.

        >>> def experiment():
        ...     ml.step("sum")
        ...     dist.all_reduce(torch.ones(2))
        >>> ml.launch(experiment, ranks=3).events[0].label
        'sum'

    Under torchrun, where nothing is recorded, it does nothing. Raises MindlabError in the notebook's process.
    """
    if _present is not None:
        _present.label = str(label)
        return
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        raise MindlabError(
            f"ml.step({label!r}) was called outside a rank, where nothing is recorded: "
            "call it inside the function that you give to ml.launch."
        )


def _wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    names = _parameters(original)
    reader = READERS[name]

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        recording = _present
        if recording is None:
            return original(*args, **kwargs)
        return recording.call(name, reader, names, original, args, kwargs)

    wrapper._mindlab = True  # type: ignore[attr-defined]
    return wrapper


def _wrapped_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        recording = _present
        if recording is None:
            return original(p2p_op_list)
        return recording.batch(original, p2p_op_list)

    batch_isend_irecv._mindlab = True  # type: ignore[attr-defined]
    return batch_isend_irecv


def _parameters(original: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(original).parameters)
    except (TypeError, ValueError):
        return ()


def _swap(module: Any, swapped: dict[int, tuple[Any, Any]], everywhere: bool) -> None:
    """Put the wrappers where the originals stand; outside torch.distributed only under known names."""
    names = list(vars(module)) if everywhere else [name for name in READERS if name in vars(module)]
    for name in names:
        found = swapped.get(id(vars(module)[name]))
        if found is not None and vars(module)[name] is found[0]:
            setattr(module, name, found[1])


def _mark_p2p_ops(kind: Any) -> None:
    """Let each P2POp remember the line that made it: the batch call's own line is the same for all."""
    make = kind.__init__
    if getattr(make, "_mindlab", False):
        return

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if _present is not None:
            self._mindlab_place = places.find(sys._getframe(1))

    __init__._mindlab = True  # type: ignore[attr-defined]
    kind.__init__ = __init__
