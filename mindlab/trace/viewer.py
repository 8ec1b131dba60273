"""A Run as a trace that Perfetto (ui.perfetto.dev) and MindStudio Insight open.

Trace Event Format, the JSON Object form: a process for each rank, a complete event ("X") for each call, an
arrow ("s" to "f") for each message whose two ends were recorded. Times are microseconds.
Source: "Trace Event Format", Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from mindlab.trace.events import Event
from mindlab.trace.run import Run

_MICRO = 1e6


def trace(run: Run) -> dict[str, Any]:
    """The trace, ready for json.dumps."""
    lanes = _lanes(run.events)
    events = [*_names(run, lanes), *(_slice(event, lanes) for event in run.events), *_arrows(run, lanes)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "name": run.name,
            "provenance": run.provenance,
            "times": f"timed on {run.backend}; wall clock of the ranks",
            "notes": list(run.notes),
            **{f"version of {name}": version for name, version in run.versions.items()},
        },
    }


Lanes = dict[tuple[int, int], int]


def _lanes(events: Sequence[Event]) -> Lanes:
    """(rank, index) -> row in the rank's process: calls that go on at the same time must not share one."""
    free: dict[int, list[float]] = defaultdict(list)
    lanes: Lanes = {}
    for event in sorted(events, key=lambda event: (event.start, event.index)):
        ends = free[event.rank]
        lane = next((lane for lane, end in enumerate(ends) if end <= event.start), len(ends))
        ends[lane : lane + 1] = [_end(event)]
        lanes[event.rank, event.index] = lane
    return lanes


def _end(event: Event) -> float:
    return event.start if event.end is None else event.end


def _names(run: Run, lanes: Lanes) -> Iterator[dict[str, Any]]:
    for rank in range(run.ranks):
        yield _meta("process_name", rank, 0, name=f"rank {rank}")
        yield _meta("process_sort_index", rank, 0, sort_index=rank)
        mine = {lane for (owner, _), lane in lanes.items() if owner == rank}
        for lane in sorted(mine):
            yield _meta(
                "thread_name", rank, lane, name="calls" if lane == 0 else f"calls at the same time {lane}"
            )
            yield _meta("thread_sort_index", rank, lane, sort_index=lane)


def _meta(kind: str, rank: int, lane: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": lane, "args": args}


def _slice(event: Event, lanes: Lanes) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": event.op,
        "cat": event.label or ("point to point" if event.is_point_to_point else "collective"),
        "pid": event.rank,
        "tid": lanes[event.rank, event.index],
        "ts": event.start * _MICRO,
        "dur": (_end(event) - event.start) * _MICRO,
        "args": _arguments(event),
    }


def _arguments(event: Event) -> dict[str, Any]:
    args: dict[str, Any] = {"bytes": event.nbytes, "dtype": event.dtype, "shape": list(event.shape)}
    args |= {"group": list(event.group), "line": event.line, "code": event.code, "label": event.label}
    args |= {"peer": event.peer, "root": event.root, "tag": event.tag, "reduction": event.reduction}
    if event.end is None:
        args["end"] = "unknown: nobody waited for this call"
    return {name: value for name, value in args.items() if value not in (None, "", [])}


def _arrows(run: Run, lanes: Lanes) -> Iterator[dict[str, Any]]:
    """Two events a message. The arrow starts at the send and ends where the receive ended."""
    for number, (sent, taken) in enumerate(messages(run.events)):
        common = {"name": "message", "cat": "message", "id": number}
        yield {**common, "ph": "s", **_spot(sent, lanes), "ts": sent.start * _MICRO}
        inside = taken.start + 0.999 * (_end(taken) - taken.start)  # a viewer binds it to the slice around it
        yield {**common, "ph": "f", "bp": "e", **_spot(taken, lanes), "ts": inside * _MICRO}


def _spot(event: Event, lanes: Lanes) -> dict[str, int]:
    return {"pid": event.rank, "tid": lanes[event.rank, event.index]}


def messages(events: Sequence[Event]) -> list[tuple[Event, Event]]:
    """Each send with its receive: between two ranks, with one tag, in one group, they keep their order."""
    sends: dict[Any, list[Event]] = defaultdict(list)
    receives: dict[Any, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.rank, event.index)):
        if not event.is_point_to_point or event.peer is None:
            continue
        if event.op in ("send", "isend"):
            sends[event.rank, event.peer, event.tag, event.group].append(event)
        else:
            receives[event.peer, event.rank, event.tag, event.group].append(event)
    return [pair for key, sent in sends.items() for pair in zip(sent, receives.get(key, ()), strict=False)]
