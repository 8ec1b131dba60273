"""Run a function on every rank."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import functools
import hashlib
import inspect
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import mindlab
from mindlab.errors import CannotTravel, Interrupted, MindlabError, RankDied
from mindlab.ranks import interrupts, payload, pool, supervisor
from mindlab.ranks.backends import Backend, choose
from mindlab.ranks.cells import sources_of
from mindlab.ranks.channel import Closed
from mindlab.ranks.ending import faulty
from mindlab.ranks.job import Job, Outcome
from mindlab.ranks.watch import Watch
from mindlab.trace.matching import review
from mindlab.trace.measured import Measured
from mindlab.trace.meter import settled, wire_between
from mindlab.trace.run import Run
from mindlab.trace.wire import Wire

_MOST = 64  # ranks on one host: more is a misprint, not an experiment
_WIRE_PATIENCE = 1.0
_OWN = ("ranks", "backend", "timeout", "seed")

_busy = threading.Lock()
_guarded = True


def launch(
    fn: Callable[..., Any],
    *args: Any,
    ranks: int = 4,
    backend: str | None = None,
    timeout: float = 60,
    seed: int = 0,
    **kwargs: Any,
) -> Run:
    """The Run of `fn(*args, **kwargs)` on `ranks` real processes joined by torch.distributed.

    `fn` may be any function, also one written in a cell, a lambda or a closure; in it
    `torch.distributed` is ready. `backend` is "hccl", "nccl" or "gloo"; None takes the best that
    `backends()` finds. `timeout` is in seconds and counts from the start of the experiment, not the pool's.
    Every rank starts from `seed`, so torch.randn gives the same numbers everywhere.
    The processes stay for the next call with the same `ranks` and `backend`.

    Raises ValueError or TypeError for a wrong argument, BackendUnavailable, CannotTravel, and an
    ExperimentError (RankFailed, RankDied, Mismatch, Stuck, TimedOut, Interrupted) when the experiment ends
    early. After any of them the next call works.

        >>> ml.launch(lambda: dist.get_rank(), ranks=3).values
        [0, 1, 2]
    """
    _refuse(fn, args, kwargs)
    return run_on_ranks(fn, args, kwargs, ranks=ranks, backend=backend, timeout=timeout, seed=seed)


def run_on_ranks(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    ranks: int,
    backend: str | None,
    timeout: float,
    seed: int,
    keep: bool = False,
) -> Run:
    """`launch` after its arguments were looked at; `keep` leaves groups and random state in the ranks."""
    from mindlab.ranks import inside_a_rank

    _refuse_numbers(ranks, timeout, seed)
    if inside_a_rank():
        raise MindlabError(
            "launch was called inside a rank; call it in the notebook, and torch.distributed here"
        )
    if not _busy.acquire(blocking=False):
        raise MindlabError("another experiment is running; wait for it or interrupt it")
    try:
        chosen = choose(backend, ranks)
        packed = _pack(fn, args, kwargs)
        try:
            with interrupts.held():
                return _experiment(fn, packed, chosen, ranks, timeout, seed, keep)
        finally:
            packed.close()
    finally:
        _busy.release()


def shutdown() -> None:
    """None; ends all ranks and the process that starts them. The next launch starts anew.

    >>> ml.shutdown()
    """
    pool.end()
    supervisor.close()


@contextlib.contextmanager
def timing() -> Iterator[None]:
    """A block whose launches run without guards, for times that others can compare; their Runs say so.

    Recording stays on. What gloo gets wrong in silence is not looked for inside the block.

        >>> with ml.timing():
        ...     run = ml.launch(dist.barrier, ranks=2)
        >>> "guards were off" in run.notes
        True
    """
    global _guarded
    before, _guarded = _guarded, False
    try:
        yield
    finally:
        _guarded = before


def _experiment(
    fn: Callable[..., Any],
    packed: payload.Packed,
    backend: Backend,
    ranks: int,
    timeout: float,
    seed: int,
    keep: bool,
) -> Run:
    try:
        home = pool.pool(ranks, backend)
    except KeyboardInterrupt:
        raise Interrupted("stopped by you while the ranks were starting; run the cell again") from None
    home.jobs += 1
    home.names = home.names or keep
    folder = _folder()
    job = Job(
        number=home.jobs,
        packed=packed,
        seed=seed,
        guarded=_guarded,
        origin=time.monotonic(),
        sources=sources_of(packed.pickle),
        path=[folder if entry == "" else entry for entry in sys.path],
        folder=folder,
        keep=keep,
    )
    home.output.start()
    watch, whole = Watch(home, job, timeout), False
    try:
        home.send(job)
        outcomes = watch.outcomes()
        run = _assemble(fn, packed, home, outcomes, seed)
        # A call that nobody waited for may still move data under the next experiment.
        whole = not any(outcome.dirty for outcome in outcomes) and all(e.end is not None for e in run.events)
        return run
    except Closed as error:
        raise RankDied("a rank was gone before the experiment began; run the cell again") from error
    finally:
        if not whole:
            home.output.finish()
            watch.discard()
        # Names that earlier cells left survive a slip which left no rank waiting and no message on its way.
        if not (whole or (keep and watch.unharmed)):
            pool.end()


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it; the ranks then stay where they are
        return ""


def _assemble(
    fn: Callable[..., Any], packed: payload.Packed, home: pool.Pool, outcomes: list[Outcome], seed: int
) -> Run:
    printed = home.output.finish()
    records = [outcome.record for outcome in outcomes]
    verdict = review(records) if _guarded else None
    if verdict is not None and verdict.faults:
        raise faulty(verdict.faults[0])
    wire, why = _wire(home, outcomes, records)
    values = [_value(rank, outcome) for rank, outcome in enumerate(outcomes)]
    notes = [note for record in records for note in record.notes] + (verdict.notes if verdict else [])
    return Run(
        values=values,
        printed=printed,
        seconds=Measured([outcome.seconds for outcome in outcomes], unit="s", provenance="timed"),
        events=sorted(
            (event for record in records for event in record.events), key=lambda event: event.start
        ),
        backend=home.backend.name,
        seed=seed,
        name=getattr(fn, "__name__", type(fn).__name__),
        code_hash=_hash(fn, packed),
        wire=wire,
        why_no_wire=why,
        notes=list(dict.fromkeys(notes)),
        versions=dict(_versions()),
        host=f"{platform.machine()}, {os.cpu_count()} cores",
        date=datetime.date.today().isoformat(),
    )


def _value(rank: int, outcome: Outcome) -> Any:
    """What a rank returned, rebuilt in this process."""
    if outcome.packed is None:
        return None
    try:
        return payload.unpack(outcome.packed, outcome.packed.fds())
    except Exception as error:  # noqa: BLE001 - whatever the object's own class raises
        raise CannotTravel(
            f"what rank {rank} returned cannot be rebuilt in the notebook: {type(error).__name__}: {error}. "
            "Return tensors, numbers, strings, and lists or dicts of them."
        ) from None


def _wire(home: pool.Pool, outcomes: list[Outcome], records: list[Any]) -> tuple[Wire | None, str]:
    """The wire bytes, once what the senders sent and what the receivers got agree."""
    if home.backend.device != "cpu":
        return None, f"{home.backend.name} sends by the cards, which the kernel's socket counters do not see"
    if sys.platform != "linux":
        return None, "the kernel's socket counters (TCP_INFO) are read on Linux only"
    before = [outcome.before for outcome in outcomes]
    after = [outcome.after for outcome in outcomes]
    deadline = time.monotonic() + _WIRE_PATIENCE
    while not settled(before, after):
        if time.monotonic() > deadline:
            return None, "the socket counters of the two ends did not agree within 1 s"
        after = home.counters()
    return wire_between(before, after, records)


def _refuse_numbers(ranks: Any, timeout: Any, seed: Any) -> None:
    """Raise for numbers that cannot be meant."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= _MOST:
        raise ValueError(f"ranks={ranks!r}: take a whole number from 1 to {_MOST}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout={timeout!r}: take a number of seconds greater than 0")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed!r}: take a whole number from 0 to 2**63 - 1")


def _refuse(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise for what is no function, or for arguments that it does not take."""
    if not callable(fn):
        raise TypeError(f"launch({fn!r}): the first argument is the function to run, not its result")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise TypeError(
            f"launch: {name}{signature} does not take these arguments: {error}. {_meant(signature, kwargs)}"
            f"launch itself knows {', '.join(_OWN)}."
        ) from None


def _meant(signature: inspect.Signature, kwargs: dict[str, Any]) -> str:
    """For each keyword that nobody knows, the known one that it looks like."""
    known = [*signature.parameters, *_OWN]
    pairs = [(name, difflib.get_close_matches(name, known, 1)) for name in kwargs if name not in known]
    return "".join(f"{name}: did you mean {close[0]}? " for name, close in pairs if close)


def _pack(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> payload.Packed:
    try:
        return payload.pack((fn, args, kwargs))
    except Exception as error:  # TypeError, PicklingError, RecursionError …
        parts = [(getattr(fn, "__name__", "the function"), fn)]
        parts += [(f"argument {index}", value) for index, value in enumerate(args)] + list(kwargs.items())
        for name, part in parts:
            if not payload.travels(part):
                raise CannotTravel(
                    f"{payload.culprit(part, name)} cannot travel to the ranks: {error}. "
                    "Make it inside the function, or pass what it is made from."
                ) from None
        raise


def _hash(fn: Any, packed: payload.Packed) -> str:
    try:
        code = inspect.getsource(fn).encode()
    except (OSError, TypeError):
        code = packed.pickle
    return hashlib.sha256(code).hexdigest()[:12]


@functools.lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "mindlab": mindlab.__version__}
    for name in ("torch", "torch_npu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
