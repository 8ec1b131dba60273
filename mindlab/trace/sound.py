"""Is a Run that came out of a file one that an experiment can have left? Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run
from mindlab.trace.stated import Work, amount

_TEXTS = ("backend", "name", "code_hash", "why_no_wire", "host", "date")


def refuse_unsound(run: Run) -> None:
    """Raise ValueError for what no experiment leaves: a rank 99 of 2, a note that is no text."""
    for name in _TEXTS:
        _want(isinstance(getattr(run, name), str), f"{name} is no text")
    _want(type(run.seed) is int, "the seed is no whole number")
    _want(_texts(run.notes), "the notes are no list of texts")
    _want(_texts(run.printed) and len(run.printed) == run.ranks, "printed is not one text a rank")
    versions = run.versions
    _want(isinstance(versions, dict) and _texts([*versions, *versions.values()]), "versions are no texts")
    _refuse_numbers(run.seconds, (run.ranks,), "seconds")
    if run.wire is not None:
        _want(_texts([run.wire.source, run.wire.note]), "the wire's source is no text")
        _refuse_numbers(run.wire.total, (run.ranks, run.ranks), "wire.total")
        for name in ("framing", "payload"):
            part = getattr(run.wire, name)
            if part is not None:
                _refuse_numbers(part, (run.ranks, run.ranks), f"wire.{name}")
    for event in run.events:
        _refuse_event(event, run.ranks)
    for work in run.work:
        _refuse_work(work, run.ranks)


def _refuse_event(event: Event, ranks: int) -> None:
    texts = [event.op, event.dtype, event.reduction, event.label, event.line, event.code]
    _want(_texts(texts) and isinstance(event.asynchronous, bool), "an event's text is none")
    numbers = [event.rank, event.index, event.nbytes, *event.shape]
    pairs = [*event.sends, *event.receives]
    numbers += [number for pair in pairs for number in pair]
    _want(all(type(number) is int and number >= 0 for number in numbers), "an event's number is none")
    _want(type(event.tag) is int, "an event's tag is no number")
    at = event.waited
    _want(at is None or (type(at) is int and at > event.index), "an event was waited for before it was made")
    places = [event.rank, *event.group, *(peer for peer, _ in pairs)]
    places += [place for place in (event.peer, event.root) if place is not None]
    _want(all(_is_rank(place, ranks) for place in places), f"an event names a rank that is none of {ranks}")
    times = [event.start] if event.end is None else [event.start, event.end]
    _want(all(type(moment) in (int, float) for moment in times), "an event's time is no number")


def _refuse_work(work: Work, ranks: int) -> None:
    _want(_is_rank(work.rank, ranks), f"a work names a rank that is none of {ranks}")
    _want(type(work.index) is int and work.index >= 0, "a work's index is none")
    _want(None not in (_number(work.flop), _number(work.nbytes)), "a work's number is none")
    _want(_texts([work.what, work.label]), "a work's text is none")


def _number(given: Any) -> float | None:
    return amount(given) if type(given) in (int, float) else None


def _refuse_numbers(numbers: Measured, shape: tuple[int, ...], name: str) -> None:
    _want(numbers.shape == shape and numbers.dtype.kind in "iuf", f"{name} is not {shape} numbers")
    _want(_texts([numbers.unit, numbers.source, numbers.note]), f"the unit of {name} is no text")
    _want(bool(np.isfinite(numbers).all()), f"{name} is not finite")


def _is_rank(value: Any, ranks: int) -> bool:
    return type(value) is int and 0 <= value < ranks


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _want(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(wrong)
