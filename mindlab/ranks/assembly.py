"""The Run that an experiment leaves: values, printed text, events, wire bytes, and where they come from."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import inspect
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import mindlab
from mindlab.errors import CannotTravel
from mindlab.ranks import payload, pool
from mindlab.ranks.ending import faulty
from mindlab.ranks.job import Job, Outcome
from mindlab.trace.matching import review
from mindlab.trace.measured import Measured
from mindlab.trace.meter import settled, wire_between
from mindlab.trace.run import Run
from mindlab.trace.wire import Wire

_WIRE_PATIENCE = 1.0


def assembled(fn: Callable[..., Any], job: Job, home: pool.Pool, outcomes: list[Outcome]) -> Run:
    """The Run of a job that every rank ended; raises Mismatch for what the backend got wrong in silence."""
    printed = home.output.finish()
    records = [outcome.record for outcome in outcomes]
    verdict = review(records) if job.guarded else None
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
        seed=job.seed,
        name=getattr(fn, "__name__", type(fn).__name__),
        code_hash=_hash(fn, job.packed),
        wire=wire,
        why_no_wire=why,
        notes=list(dict.fromkeys(notes)),
        versions=dict(_versions()),
        host=f"{platform.machine()}, {os.cpu_count()} cores",
        date=datetime.date.today().isoformat(),
        work=[work for record in records for work in record.work],
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
