"""A run as programs: what each rank did, in order, and which calls of the ranks belong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindlab.errors import MindlabError
from mindlab.trace.calls import OBJECTS, RECEIVES, SAME, SENDS
from mindlab.trace.events import Event
from mindlab.trace.run import Run
from mindlab.trace.stated import Work

_FAMILIES = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
}


@dataclass
class Steps:
    """One rank's program. Before step k, and at the end, the calls in `waits[k]` are waited for."""

    rank: int
    steps: list[Event | Work] = field(default_factory=list)
    waits: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    unseen: int = 0
    """Asynchronous calls whose wait nobody saw: they are waited for at the end."""


def of_run(run: Run) -> list[Steps]:
    """Each rank's program, in order. Raises MindlabError for places that cannot be."""
    return [_of_rank(run, rank) for rank in range(run.ranks)]


def _of_rank(run: Run, rank: int) -> Steps:
    events = sorted((event for event in run.events if event.rank == rank), key=lambda event: event.index)
    if [event.index for event in events] != list(range(len(events))):
        raise MindlabError(
            f"rank {rank} has calls {[event.index for event in events][:8]}…, not 0 to {len(events) - 1}: "
            "the run is not whole. Replay one that ended."
        )
    works = [work for work in run.work if work.rank == rank]
    program = Steps(rank)
    place: dict[int, int] = {}
    for event in events:
        while works and works[0].index <= event.index:
            program.steps.append(works.pop(0))
        place[event.index] = len(program.steps)
        program.steps.append(event)
    program.steps += works
    for event in events:
        _put_wait(program, event, place[event.index])
    return program


def _put_wait(program: Steps, event: Event, place: int) -> None:
    if not event.asynchronous:
        return
    at = event.waited
    if at is None:
        program.unseen += 1
        if event.end is not None:
            program.waits[len(program.steps)].append(event)
        return
    if not place < at <= len(program.steps):
        raise MindlabError(
            f"rank {program.rank}: {event.op} ({event.line}) is step {place} of {len(program.steps)} and was "
            f"waited for at {at}: the run is not whole. Record it again."
        )
    program.waits[at].append(event)


def family(op: str) -> str:
    """What kind of collective a call is: "all_reduce", "objects"…; raises MindlabError for an unknown one."""
    if op in OBJECTS:
        return "objects"
    found = _FAMILIES.get(SAME.get(op, op))
    if found is None:
        raise MindlabError(
            f"{op} cannot be replayed: no algorithm is known for it; known: {', '.join(_FAMILIES)}"
        )
    return found


def messages(run: Run) -> tuple[list[list[tuple[Event, Event]]], list[Event]]:
    """(by channel, its messages in order as send and receive; the calls whose other end was not recorded)."""
    sends: dict[Any, list[Event]] = defaultdict(list)
    receives: dict[Any, list[Event]] = defaultdict(list)
    lost: list[Event] = []
    for event in sorted(run.events, key=lambda event: (event.rank, event.index)):
        if event.op not in SENDS and event.op not in RECEIVES:
            continue
        if event.peer is None:
            lost.append(event)
        elif event.op in SENDS:
            sends[event.rank, event.peer, event.tag, event.group].append(event)
        else:
            receives[event.peer, event.rank, event.tag, event.group].append(event)
    channels = []
    for key in sorted(sends.keys() | receives.keys()):
        sent, taken = sends.get(key, []), receives.get(key, [])
        channels.append(list(zip(sent, taken, strict=False)))
        lost += [*sent[len(taken) :], *taken[len(sent) :]]
    return channels, lost


def meetings(run: Run) -> Iterator[list[Event]]:
    """Each collective: its calls, in the order of the group. Raises MindlabError where a rank is missing."""
    calls: dict[tuple[int, ...], dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in sorted(run.events, key=lambda event: (event.rank, event.index)):
        if event.op not in SENDS and event.op not in RECEIVES:
            calls[event.group][event.rank].append(event)
    for group, by_rank in calls.items():
        lists = [by_rank.get(rank, []) for rank in group]
        for number in range(max(map(len, lists))):
            yield _meeting(group, [mine[number] if number < len(mine) else None for mine in lists], number)


def _meeting(group: tuple[int, ...], calls: Sequence[Event | None], number: int) -> list[Event]:
    found = [call for call in calls if call is not None]
    if len(found) < len(group):
        absent = [rank for rank, call in zip(group, calls, strict=True) if call is None]
        raise MindlabError(
            f"{found[0].op} number {number} of group {list(group)} has no call of rank {absent[0]}: the run "
            "is not whole, it may have stopped early. Replay one that ended on all ranks."
        )
    if len({family(call.op) for call in found}) > 1:
        raise MindlabError(
            f"call {number} of group {list(group)} is {found[0].op} on rank {group[0]} and "
            f"{next(c.op for c in found if c.op != found[0].op)} on another: the run is not whole."
        )
    return found
