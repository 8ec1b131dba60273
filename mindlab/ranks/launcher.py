"""Run a function on every rank."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mindlab.errors import Interrupted, MindlabError, RankDied
from mindlab.ranks import interrupts, payload, pool, supervisor
from mindlab.ranks.arguments import packed_call, refuse, refuse_numbers
from mindlab.ranks.assembly import assembled
from mindlab.ranks.backends import Backend, choose
from mindlab.ranks.cells import sources_of
from mindlab.ranks.channel import Closed
from mindlab.ranks.job import Job
from mindlab.ranks.watch import Watch
from mindlab.trace.run import Run

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
    refuse(fn, args, kwargs)
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

    refuse_numbers(ranks, timeout, seed)
    if inside_a_rank():
        raise MindlabError(
            "launch was called inside a rank; call it in the notebook, and torch.distributed here"
        )
    if not _busy.acquire(blocking=False):
        raise MindlabError("another experiment is running; wait for it or interrupt it")
    try:
        chosen = choose(backend, ranks)
        packed = packed_call(fn, args, kwargs)
        try:
            with interrupts.held():
                home = _pool(ranks, chosen)
                return _experiment(fn, _job(home, packed, seed, keep), home, timeout)
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


def _pool(ranks: int, backend: Backend) -> pool.Pool:
    try:
        return pool.pool(ranks, backend)
    except KeyboardInterrupt:
        raise Interrupted("stopped by you while the ranks were starting; run the cell again") from None


def _job(home: pool.Pool, packed: payload.Packed, seed: int, keep: bool) -> Job:
    home.jobs += 1
    home.names = home.names or keep
    try:
        folder = os.getcwd()
    except OSError:  # somebody removed it; the ranks then stay where they are
        folder = ""
    return Job(
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


def _experiment(fn: Callable[..., Any], job: Job, home: pool.Pool, timeout: float) -> Run:
    home.output.start()
    watch, whole = Watch(home, job, timeout), False
    try:
        home.send(job)
        run = assembled(fn, job, home, watch.outcomes())
        # A call that nobody waited for may still move data under the next experiment.
        whole = watch.unharmed
        return run
    except Closed as error:
        raise RankDied("a rank was gone before the experiment began; run the cell again") from error
    finally:
        if not whole:
            home.output.finish()
            watch.discard()
        # Names that earlier cells left survive a slip which left no rank waiting and no message on its way.
        if not (whole or (job.keep and watch.unharmed)):
            pool.end()
