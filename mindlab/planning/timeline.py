"""A recorded program on another machine: when each rank would compute, send and wait there, by a model."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindlab.errors import MindlabError
from mindlab.planning import flows, programs, topologies
from mindlab.planning.assumptions import Choices, sentences
from mindlab.planning.graphs import Builder, bytes_by_link
from mindlab.planning.moves import ALGORITHMS, Moves
from mindlab.planning.topologies import Topology
from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run


@dataclass(frozen=True, slots=True)
class Span:
    """What a rank does from `start` to `end`, in seconds of the model.

    Kinds: "compute"; "wait" (the rank stands in a call, or in the wait() of one); "send", "recv" and
    "collective" (bytes of this rank are under way, whether it waits or computes meanwhile).
    """

    rank: int
    kind: str
    start: float
    end: float
    what: str
    """The call, or what was computed."""
    label: str = ""
    """The last `ml.step("…")` before."""
    nbytes: float = 0.0
    peer: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """A program on a topology, as the model has it. Nothing in it was timed.

    Show it with `ml.draw.timeline(timeline)`.
    """

    topology: Topology
    cards: tuple[int, ...]
    """The card of each rank."""
    ends: Measured
    """Seconds after which each rank's program has ended."""
    rows: list[Span]
    """What each rank does when; empty for moves that were never run."""
    link_bytes: dict[str, float]
    """Bytes over each link that was used, the busiest first."""
    assumptions: tuple[str, ...]
    """What the numbers rest on, in sentences."""
    provenance: str
    """ "modelled on …", one line for a figure."""

    @property
    def ranks(self) -> int:
        """How many ranks took part."""
        return len(self.cards)

    @property
    def seconds(self) -> Quantity:
        """Seconds from the begin to the end of the last rank, or of the last message."""
        last = max([float(self.ends.max()), *(row.end for row in self.rows)])
        return Quantity(last, "s", source=self.provenance, name="replay")

    @property
    def by_rank(self) -> Measured:
        """Seconds after which each rank's program has ended."""
        return self.ends

    @property
    def exposed(self) -> Measured:
        """Seconds that each rank waits for communication while it computes nothing."""
        return self._sums("wait")

    @property
    def computing(self) -> Measured:
        """Seconds that each rank computes."""
        return self._sums("compute")

    @property
    def busy(self) -> Measured:
        """The share of the whole time in which each rank computes, 0 to 1."""
        whole = float(self.seconds)
        shares = np.asarray(self.computing) / whole if whole else np.zeros(self.ranks)
        return Measured(shares, unit="", provenance="modelled", source=self.provenance)

    def _sums(self, kind: str) -> Measured:
        totals = np.zeros(self.ranks)
        for row in self.rows:
            if row.kind == kind:
                totals[row.rank] += row.end - row.start
        return Measured(totals, unit="s", provenance="modelled", source=self.provenance)

    def _lines(self) -> list[tuple[str, str]]:
        lines = [("whole time", f"{units.duration(float(self.seconds))}, modelled")]
        if self.rows:
            lines += [
                ("computing, by rank", _durations(self.computing)),
                ("waiting, by rank", _durations(self.exposed)),
            ]
        for name, nbytes in list(self.link_bytes.items())[:1]:
            lines.append(("busiest link", f"{name}: {units.size(nbytes)}"))
        return [*lines, *(("assumed", line) for line in self.assumptions), ("where from", self.provenance)]

    def __repr__(self) -> str:
        return "\n".join(f"{head}: {text}" for head, text in self._lines())

    def _repr_html_(self) -> str:
        style = 'style="text-align:left"'
        rows = (
            f"<tr><th {style}>{html.escape(head)}</th><td {style}>{html.escape(text)}</td></tr>"
            for head, text in self._lines()
        )
        return f"<table>{''.join(rows)}</table>"


def replay(
    run: Run,
    topology: Topology | str,
    *,
    cards: Sequence[int] | None = None,
    rate: float | None = None,
    efficiency: float | None = None,
    algorithms: Mapping[str, str] | None = None,
    bytes_times: float | Mapping[str, float] = 1,
    flop_times: float | Mapping[str, float] = 1,
) -> Timeline:
    """The Timeline of a recorded program on a topology: its calls, waits and stated work, by a model.

    Nothing of the run's own times is used. A message begins when both its ends have been posted, costs alpha,
    and then shares links fairly with the others under way. Collectives become the messages of an algorithm:
    the first one of `moves.ALGORITHMS`, or what `algorithms` says, such as {"all_reduce": "mesh"}.
    Work that the code stated (`Run.work`) takes its FLOP / `rate`; without `rate` it is `efficiency` times
    the card's peak, or else the rate that the topology knows. `cards` names the card of each rank.

    For a larger case than the one recorded: every message has `bytes_times` the bytes, every work
    `flop_times` the FLOP. A sequence c times as long moves c times the bytes of K and V and takes c² times
    the FLOP of attention, c times those of linear layers: give a mapping from step labels (bytes), or from
    what was computed (FLOP), to factors, where they differ. Recorded in float32 and meant in bfloat16: half.

        >>> run = ml.launch(lambda: dist.all_reduce(torch.ones(2**20)), ranks=4)
        >>> ml.replay(run, "atlas-a2").seconds
        replay: 344.7 µs (0.000344695 s)

    Raises ValueError for ranks, cards or factors that do not fit; MindlabError for a run that is not whole,
    an unknown collective, or a number that the topology does not know.
    """
    machine = topologies.topology(topology) if isinstance(topology, str) else topology
    choices = Choices(
        machine, topologies.check_cards(machine, run.ranks, cards), rate, efficiency,
        _checked(algorithms or {}), bytes_times, flop_times,
    )  # fmt: skip
    return _replayed(run, choices)


def simulate(moves: Moves, topology: Topology | str, *, cards: Sequence[int] | None = None) -> Timeline:
    """The Timeline of an algorithm's moves, for a program that was never run; it has no `rows`.

    >>> from mindlab.planning import moves, topologies
    >>> eight = topologies.uniform(8, alpha=1e-6, bandwidth=1e9)
    >>> simulate(moves.ring_all_reduce([1000] * 8), eight).seconds
    replay: 28 µs (2.8e-05 s)
    """
    machine = topologies.topology(topology) if isinstance(topology, str) else topology
    chosen = topologies.check_cards(machine, moves.ranks, cards)
    builder = Builder(machine)
    last, _ = builder.expand(moves, builder.meetings(moves.ranks), np.array(chosen, dtype=np.int64))
    graph = builder.graph()
    ended = flows.run(graph)
    provenance = f"modelled on {machine.name} · {moves.ranks} ranks, {len(moves)} messages, never run"
    choices = Choices(machine, chosen, None, None, {}, 1, 1)
    return Timeline(
        machine,
        chosen,
        Measured(ended.end[last], unit="s", provenance="modelled", source=provenance),
        [],
        bytes_by_link(graph, builder),
        sentences(choices, None, None, 0),
        provenance,
    )


def _replayed(run: Run, choices: Choices) -> Timeline:
    machine = choices.topology
    builder = Builder(machine)
    made = programs.compiled(run, builder, choices.cards, choices.rates(run), choices.algorithms)
    graph = builder.graph()
    ended = flows.run(graph, _release(builder))
    if np.isnan(ended.end).any():
        raise MindlabError(_circle(made, ended))
    ends = ended.end[[made.finish[rank] for rank in range(run.ranks)]]
    provenance = choices.provenance(run)
    return Timeline(
        machine,
        choices.cards,
        Measured(ends, unit="s", provenance="modelled", source=provenance),
        _rows(made, ended),
        bytes_by_link(graph, builder),
        sentences(choices, run, made, len(ended.released)),
        provenance,
    )


def _checked(algorithms: Mapping[str, str]) -> dict[str, str]:
    for kind, name in algorithms.items():
        if kind not in ALGORITHMS:
            raise ValueError(f"algorithms names {kind!r}; it can name {', '.join(ALGORITHMS)}")
        if name not in ALGORITHMS[kind]:
            raise ValueError(f"algorithms[{kind!r}]={name!r}: choose {' or '.join(ALGORITHMS[kind])}")
    return dict(algorithms)


def _release(builder: Builder) -> Any:
    """Lets go, of the messages that wait in a circle, the one whose sender has waited longest."""
    tasks = np.concatenate([np.empty(0, dtype=np.int64), *(tasks for tasks, _ in builder.held)])
    senders = np.concatenate([np.empty(0, dtype=np.int64), *(nodes for _, nodes in builder.held)])

    def release(stuck: flows.Ints, ended: flows.Floats) -> flows.Ints:
        waiting = np.isin(tasks, stuck) & ~np.isnan(ended[senders])
        if not waiting.any():
            return np.empty(0, dtype=np.int64)
        longest = int(np.argmin(ended[senders[waiting]]))
        chosen: flows.Ints = tasks[waiting][longest : longest + 1]
        return chosen

    return release


def _circle(made: programs.Compiled, ended: flows.Ended) -> str:
    ranks = [rank for rank, task in made.finish.items() if np.isnan(ended.end[task])]
    return f"ranks {ranks} wait for each other and none can go on: the run is not whole. Record it again."


def _rows(made: programs.Compiled, ended: flows.Ended) -> list[Span]:
    start, end = ended.start, ended.end
    rows = []
    for mark in made.marks:
        begin = end[mark.first] if mark.kind == "wait" else start[mark.first]
        if end[mark.last] > begin:
            about = (mark.what, mark.label, mark.nbytes, mark.peer)
            rows.append(Span(mark.rank, mark.kind, float(begin), float(end[mark.last]), *about))
    for marks, tasks, planned in made.together:
        for member, mark in enumerate(marks):
            mine = tasks[(planned.source == member) | (planned.target == member)]
            if len(mine):
                times = float(start[mine].min()), float(end[mine].max())
                rows.append(Span(mark.rank, mark.kind, *times, mark.what, mark.label, mark.nbytes))
    return sorted(rows, key=lambda row: (row.rank, row.start, row.end, row.kind))


def _durations(seconds: Measured) -> str:
    shown = [units.duration(float(value)) for value in seconds]
    return shown[0] + " each" if len(set(shown)) == 1 else ", ".join(shown)
