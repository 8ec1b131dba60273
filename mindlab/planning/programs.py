"""Turns a run's programs into the graph of a simulation, and remembers which task is what of whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mindlab.planning import moves, steps
from mindlab.planning.graphs import Builder
from mindlab.planning.moves import Moves
from mindlab.planning.steps import Steps
from mindlab.trace.events import Event
from mindlab.trace.run import Run
from mindlab.trace.stated import Work

Ints = npt.NDArray[np.int64]
Key = tuple[int, int]
"""A call: (rank, index)."""


@dataclass(frozen=True)
class Mark:
    """A piece of the picture to come: `kind` of `rank`, from the end of one task to the end of another."""

    rank: int
    kind: str
    first: int
    """The task whose end (for a wait) or begin (else) is the begin; unused for a collective."""
    last: int
    what: str
    label: str
    nbytes: float = 0.0
    peer: int | None = None


@dataclass
class Compiled:
    """The graph's builder, and the marks by which its times are read."""

    builder: Builder
    marks: list[Mark] = field(default_factory=list)
    finish: dict[int, int] = field(default_factory=dict)
    """Rank -> the task that ends with its program."""
    together: list[tuple[list[Mark], Ints, Moves]] = field(default_factory=list)
    """Collectives: a mark for each member, in the order of the group, and the messages."""
    algorithms: dict[str, str] = field(default_factory=dict)
    lost: int = 0
    unseen: int = 0


@dataclass(frozen=True)
class Rates:
    """What the record does not say: the seconds of a work, and how many times its bytes a call moves."""

    seconds: Callable[[Work], float]
    times: Callable[[Event], float]


def compiled(
    run: Run, builder: Builder, cards: Sequence[int], rates: Rates, algorithms: Mapping[str, str]
) -> Compiled:
    """The Compiled of a run. Raises MindlabError for a run that is not whole or a call that is unknown."""
    made = _Compiler(run, builder, np.array(cards, dtype=np.int64), rates, algorithms)
    return made.compiled()


class _Compiler:
    def __init__(
        self, run: Run, builder: Builder, cards: Ints, rates: Rates, algorithms: Mapping[str, str]
    ) -> None:
        self.run, self.builder, self.cards = run, builder, cards
        self.rates, self.algorithms = rates, algorithms
        self.out = Compiled(builder)
        self.posted: dict[Key, int] = {}
        self.done: dict[Key, int] = {}

    def compiled(self) -> Compiled:
        programs = steps.of_run(self.run)
        for event in self.run.events:
            self.done[event.rank, event.index] = int(self.builder.meetings(1)[0])
        for program in programs:
            self.out.finish[program.rank] = self._program(program)
            self.out.unseen += program.unseen
        self._messages()
        for calls in steps.meetings(self.run):
            self._collective(calls)
        return self.out

    def _program(self, program: Steps) -> int:
        """Adds a rank's program; returns the task that ends with it."""
        here = self.builder.work(0.0)
        for number, step in enumerate([*program.steps, None]):
            if number in program.waits:
                here = self._wait(program.rank, here, program.waits[number])
            if isinstance(step, Work):
                here = self._work(here, step)
            elif step is not None:
                here = self._call(here, step)
        return here

    def _wait(self, rank: int, here: int, events: Sequence[Event]) -> int:
        ready = int(self.builder.meetings(1)[0])
        self.builder.edge([here, *(self.done[rank, event.index] for event in events)], ready)
        what = ", ".join(dict.fromkeys(event.op for event in events))
        self.out.marks.append(Mark(rank, "wait", here, ready, what, events[0].label))
        return ready

    def _work(self, here: int, work: Work) -> int:
        task = self.builder.work(self.rates.seconds(work))
        self.builder.edge(here, task)
        self.out.marks.append(Mark(work.rank, "compute", task, task, work.what, work.label))
        return task

    def _call(self, here: int, event: Event) -> int:
        key = (event.rank, event.index)
        self.posted[key] = here
        self.builder.edge(here, self.done[key])
        if event.asynchronous:
            return here
        self.out.marks.append(Mark(event.rank, "wait", here, self.done[key], event.op, event.label))
        return self.done[key]

    def _messages(self) -> None:
        channels, lost = steps.messages(self.run)
        self.out.lost = len(lost)
        for channel in channels:
            before: int | None = None
            for sent, taken in channel:
                before = self._message(sent, taken, before)

    def _message(self, sent: Event, taken: Event, before: int | None) -> int:
        nbytes = sent.nbytes * self.rates.times(sent)
        ends = ((sent.rank, sent.index), (taken.rank, taken.index))
        source, target = self.cards[sent.rank], self.cards[taken.rank]
        posted = (self.posted[ends[0]], self.posted[ends[1]])
        task = self.builder.message(source, target, nbytes, posted)
        self.builder.edge(task, [self.done[end] for end in ends])
        if before is not None:
            self.builder.edge(before, task)
        for event, kind in ((sent, "send"), (taken, "recv")):
            mark = Mark(event.rank, kind, task, task, event.op, event.label, nbytes, event.peer)
            self.out.marks.append(mark)
        return task

    def _collective(self, calls: Sequence[Event]) -> None:
        """Adds the messages of one collective; `calls` in the order of the group."""
        planned = self._moves(calls)
        keys = [(call.rank, call.index) for call in calls]
        entry = np.array([self.posted[key] for key in keys], dtype=np.int64)
        group = np.array([call.rank for call in calls], dtype=np.int64)
        last, tasks = self.builder.expand(planned, entry, self.cards[group])
        self.builder.edge(last, [self.done[key] for key in keys])
        marks = [
            Mark(call.rank, "collective", 0, 0, call.op, call.label, call.nbytes * self.rates.times(call))
            for call in calls
        ]
        self.out.together.append((marks, tasks, planned))

    def _moves(self, calls: Sequence[Event]) -> Moves:
        kind = steps.family(calls[0].op)
        name = self.algorithms.get(kind) or next(iter(moves.ALGORITHMS[kind]))
        self.out.algorithms[kind] = name
        if name == "hierarchical":
            cards = [int(self.cards[call.rank]) for call in calls]
            domains = self.builder.routes.topology.domains(cards)
            return moves.hierarchical_all_reduce(calls[0].nbytes * self.rates.times(calls[0]), domains)
        return moves.ALGORITHMS[kind][name](*_arguments(kind, name, calls, self.rates))


def _arguments(kind: str, name: str, calls: Sequence[Event], rates: Rates) -> tuple[Any, ...]:
    """What the algorithm takes, from the calls of all members."""
    ranks, first = len(calls), calls[0]
    group = [call.rank for call in calls]
    if kind == "barrier":
        return (ranks,)
    if kind == "all_gather":
        return ([call.nbytes * rates.times(call) for call in calls],)
    times = rates.times(first)
    if kind == "all_reduce" and name == "tree":
        return first.nbytes * times, ranks
    if kind in ("broadcast", "reduce"):
        return first.nbytes * times, ranks, group.index(group[0] if first.root is None else first.root)
    if kind in ("all_reduce", "reduce_scatter"):  # what each member gets is not in the record: cut evenly
        return ([times * size for size in moves.chunks(first.nbytes, ranks, itemsize(first))],)
    matrix = np.zeros((ranks, ranks))
    for row, call in enumerate(calls):
        for peer, nbytes in call.sends:
            matrix[row, group.index(peer)] += rates.times(call) * nbytes
    return (matrix,)


def itemsize(event: Event) -> int:
    """The bytes of one element, as far as the row tells it; else 1."""
    count = int(np.prod(event.shape)) if event.shape else 0
    return event.nbytes // count if count and event.nbytes % count == 0 else 1
