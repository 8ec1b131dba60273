"""An answer, run on real ranks: what it returned, what it sent, or the one reason why it did not end."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindlab import errors
from mindlab.ranks.backends import choose
from mindlab.ranks.launcher import launch
from mindlab.teach import panel
from mindlab.teach.lesson import Exercise, Trial
from mindlab.teach.reading import unanswered
from mindlab.teach.words import say
from mindlab.trace.run import Run

TIMEOUT = 20.0
"""Seconds for one experiment of a check, which takes milliseconds."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class Attempt:
    """One trial of an answer that came to its end."""

    exercise: Exercise
    trial: Trial
    run: Run
    values: list[Any]
    """What the answer returned, by rank."""
    extra: list[int]
    """By rank: the most bytes of new tensors alive at one time."""
    given: list[tuple[Any, ...]]
    wanted: list[Any]
    """By rank: what one card computes."""

    @property
    def nbytes(self) -> int:
        """Bytes of D, the full tensor."""
        return self.exercise.whole(self.trial)


@dataclass(frozen=True)
class Ending:
    """Why a trial did not come to its end: a sentence, and the learner's own lines or where ranks stood."""

    sentence: str
    detail: str = ""
    blank: bool = False
    """The answer still holds `...`: not answered yet."""


def attempt(
    exercise: Exercise, fn: Function, trial: Trial, *, seed: int, backend: str | None, timeout: float
) -> Attempt | Ending:
    """The answer's Attempt at one trial, or the Ending it came to; never raises for what the answer did.

    Raises Interrupted where the person stops it, BackendUnavailable where the host cannot run it.
    """
    given = [exercise.inputs(seed, rank, trial) for rank in range(trial.ranks)]
    try:
        run = launch(
            on_a_rank, fn, exercise.inputs, seed, trial,
            ranks=trial.ranks, backend=backend, timeout=timeout, seed=seed,
        )  # fmt: skip
    except (errors.Interrupted, errors.BackendUnavailable):
        raise
    except (errors.ExperimentError, errors.CannotTravel, errors.UnsafeCall) as error:
        return _ending(error, timeout)
    values = [value for value, _ in run.values]
    if unanswered(values) or _left_open(fn, run):
        return Ending("", blank=True)
    extra = [nbytes for _, nbytes in run.values]
    wanted = exercise.reference([_each(parts, lambda part: part.clone()) for parts in given])
    return Attempt(exercise, trial, run, values, extra, given, wanted)


def usable_backend(ranks: int) -> str:
    """The backend of a launch on so many ranks; "gloo" where the host has too few cards for it.

    What MINDLAB_BACKEND asks for is taken at its word: raises BackendUnavailable where it is not usable.
    """
    if os.environ.get("MINDLAB_BACKEND"):
        return choose(None, ranks).name
    try:
        return choose(None, ranks).name
    except errors.BackendUnavailable:
        return "gloo"


def on_a_rank(fn: Function, inputs: Function, seed: int, trial: Trial) -> tuple[Any, int]:
    """What the answer returns on this rank, and the most bytes of its tensors that lived at one time."""
    import torch.distributed as dist

    from mindlab.ranks.backends import device
    from mindlab.trace.memory import ExtraMemory

    parts = inputs(seed, dist.get_rank(), trial)
    args = _each(parts, lambda part: part.to(device()))
    with ExtraMemory() as extra:
        value = fn(*args)
    return value, extra.peak


def misfit(exercise: Exercise, fn: Any) -> Ending | None:
    """What is wrong with the answer before it runs: blank, no function, or other parameters; else None."""
    if fn is ...:
        return Ending("", blank=True)
    if not callable(fn):
        return Ending(say("not_a_function", given=panel.short(fn)))
    parts = exercise.inputs(0, 0, exercise.trials[0])
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*parts)
    except TypeError:
        kinds = ", ".join(f"a {type(part).__name__}" for part in parts)
        name = getattr(fn, "__name__", "the function")
        text = say("signature", name=name, signature=signature, count=len(parts), kinds=kinds)
        return Ending(text)
    return None


def code_hash(fn: Any) -> str:
    """The first 12 hex digits of SHA-256 over the answer's source, or over its bytecode; "" for neither."""
    inner = getattr(fn, "func", fn)  # a functools.partial is its function with some arguments
    given = repr((getattr(fn, "args", ()), getattr(fn, "keywords", {}))) if inner is not fn else ""
    try:
        text = inspect.getsource(inner).encode() + given.encode()
    except (OSError, TypeError):
        code = getattr(inner, "__code__", None)
        text = b"" if code is None else code.co_code + repr(code.co_consts).encode()
    return hashlib.sha256(text).hexdigest()[:12] if text else ""


def _left_open(fn: Function, run: Run) -> bool:
    """Whether the answer did nothing and ends in a bare `...` or `pass`: a stub that returns None."""
    if run.events or any(value is not None for value, _ in run.values):
        return False
    try:
        lines = [line.split("#")[0].strip() for line in inspect.getsource(fn).splitlines()]
    except (OSError, TypeError):
        return False
    return [line for line in lines if line][-1] in ("...", "pass")


def _ending(error: errors.MindlabError, timeout: float) -> Ending:
    if isinstance(error, errors.RankFailed):
        return _raised(error)
    if isinstance(error, errors.Stuck):
        return Ending(say("stuck"), _facts(error))
    if isinstance(error, errors.TimedOut):
        return Ending(say("timed_out", seconds=f"{timeout:g}"), "\n".join(error.others))
    key = {errors.Mismatch: "mismatch", errors.RankDied: "died", errors.UnsafeCall: "unsafe"}
    return Ending(say(key.get(type(error), "cannot_travel")), _facts(error))


def _facts(error: errors.MindlabError) -> str:
    """What happened, line by line, without the advice that a launch adds: that would be the answer."""
    first, *rest = str(error).splitlines()
    kept = [line for line in rest if line.startswith(" ")]
    return "\n".join(kept if isinstance(error, errors.Stuck) else [first, *kept])


def _raised(error: errors.RankFailed) -> Ending:
    said = str(error).splitlines()[0].split(" raised ", 1)[-1]
    if "ellipsis" in said.lower() or re.search(r"(?<![\w.\[])\.\.\.(?![\w.\]])", error.traceback):
        return Ending("", blank=True)
    return Ending(say("raised", rank=error.rank, said=said.rstrip(".")), error.traceback)


def _each(parts: Any, change: Callable[[Any], Any]) -> Any:
    """The same arguments, every tensor in them changed, also those in lists and tuples."""
    import torch

    if isinstance(parts, (list, tuple)):
        return type(parts)(_each(part, change) for part in parts)
    return change(parts) if isinstance(parts, torch.Tensor) else parts
