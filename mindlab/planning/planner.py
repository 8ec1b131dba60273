"""Which layout, and why: every way to lay a model over cards, with what it costs and what rules it out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mindlab.errors import MindlabError
from mindlab.planning import costs, evidence, reasons, topologies, workloads
from mindlab.planning.layouts import Layout, layouts
from mindlab.planning.parts import Stage
from mindlab.planning.topologies import Topology
from mindlab.planning.workloads import Pictures, Text, Workload
from mindlab.predict import units
from mindlab.predict.architectures import Architecture, architecture
from mindlab.predict.memory import model_terms
from mindlab.predict.quantity import Quantity

GOALS = ("latency", "throughput", "memory")


@dataclass(frozen=True)
class Choice:
    """One way to do the work. Seconds are modelled, or None where the model is known to fail."""

    layouts: dict[str, Layout]
    """By stage: prefill and decode, or denoise."""
    memory: dict[str, Quantity]
    """Bytes that a card holds at most, by what they are for. A text encoder and a VAE are not in it."""
    stages: dict[str, Stage]
    """By name; the cost of changing from one layout to the next is a part of the stage that follows."""
    latency: float | None
    """Seconds of one request or picture, from its begin to its last token or pixel."""
    tail: float | None
    """Seconds until the last of the requests that come at once is done."""
    throughput: float | None
    """Tokens, or pictures, a second, of all cards together."""
    margin: float | None
    """Bytes that stay free on a card; None where the card's memory is unknown."""
    outside: tuple[str, ...] = ()
    """Why the model gives no seconds."""

    @property
    def name(self) -> str:
        """The layout in words; two where the stages differ."""
        return " → ".join(dict.fromkeys(str(layout) for layout in self.layouts.values()))

    @property
    def ranks(self) -> int:
        """How many cards it takes."""
        return max(layout.ranks for layout in self.layouts.values())

    @property
    def held(self) -> float:
        """Bytes that a card holds at most."""
        return float(sum(map(_most, self.memory.values())))

    @property
    def nbytes(self) -> float:
        """Bytes that a card sends for one request or picture.

        A step of decoding serves all requests of its replica; its bytes are counted whole.
        """
        return sum(stage.nbytes * stage.times for stage in self.stages.values())


@dataclass(frozen=True, repr=False)
class Plan:
    """Every layout, the best first. Nothing in it was measured."""

    model: Architecture
    topology: Topology
    work: Workload
    goal: str
    rows: list[Choice]
    """What fits and what the model covers, by the goal."""
    outside: list[Choice]
    """What fits, where the model is known to fail: bytes and memory, no seconds; least memory first."""
    excluded: list[tuple[str, str]]
    """(layout, why it cannot be)."""

    @property
    def best(self) -> Choice:
        """The first row. Raises MindlabError where none fits."""
        if not self.rows:
            raise MindlabError(reasons.nothing(self))
        return self.rows[0]

    @cached_property
    def provenance(self) -> str:
        """One line for a figure."""
        return f"modelled on {self.topology.name} · {self.model.name}, never run"

    def find(self, **axes: Any) -> Choice:
        """The row, or the choice outside the model, whose first stage has these degrees and 1 on other axes.

        Raises MindlabError, with the reason, where there is none.
        """
        wanted = Layout(**axes)
        for choice in (*self.rows, *self.outside):
            first = next(iter(choice.layouts.values()))
            if replace(first, order=wanted.order) == wanted:
                return choice
        why = dict(self.excluded).get(str(wanted), "no such split of these cards")
        raise MindlabError(f"{wanted} is not in the plan: {why}")

    def __repr__(self) -> str:
        return reasons.text(self)

    def _repr_html_(self) -> str:
        return reasons.table(self)


def plan(
    model: Architecture | str | os.PathLike[str],
    topology: Topology | str,
    workload: Workload | Mapping[str, Any],
    *,
    goal: str = "latency",
    cards: int | None = None,
) -> Plan:
    """The Plan for a model on a topology: every layout over `cards` cards (all), ranked by `goal`.

    `model` and `topology` are names, files or what `ml.architecture` and `ml.topology` give; `workload` is a
    mapping: prompt, output, requests for a text; height, width, frames, steps, requests for pictures.
    Goals: "latency" of one request, "throughput" of all, "memory" that a card needs. Tensor parallel is taken
    with sequence parallel where there is a sequence: as many bytes, fewer activations.

        >>> plan = ml.plan("hunyuan-video", "atlas-a2", dict(height=720, width=1280, frames=129, steps=50))
        >>> plan.best.name
        'ulysses 8'

    Raises UnknownName; ValueError for a goal or a workload that cannot be; MindlabError for a number that the
    topology does not know and the model needs.
    """
    known = architecture(model) if not isinstance(model, Architecture) else model
    machine = topologies.topology(topology) if isinstance(topology, str) else topology
    if goal not in GOALS:
        raise ValueError(f"goal={goal!r}: choose {', '.join(GOALS)}")
    work = workloads.workload(known, workload)
    ranks = len(topologies.check_cards(machine, cards or machine.cards, None))
    made, excluded = [], []
    for stages, reason in _candidates(known, ranks, work):
        if not reason:
            choice = judged(known, stages, work, machine)
            reason = _too_much(choice)
            made.append(choice) if not reason else None
        if reason:
            excluded.append((_named(stages), reason))
    inside = sorted((choice for choice in made if not choice.outside), key=lambda c: _order(c, goal))
    beyond = sorted((choice for choice in made if choice.outside), key=lambda choice: choice.held)
    return Plan(known, machine, work, goal, inside, beyond, excluded)


def judged(model: Architecture, stages: Mapping[str, Layout], work: Workload, machine: Topology) -> Choice:
    """The Choice of one layout a stage: what it holds, sends and takes. It has to fit (`layouts.misfit`)."""
    found = [
        reason
        for stage, layout in stages.items()
        for reason in evidence.outside(model, layout, work, machine, stage)
    ]
    spent = _stages(model, stages, work, machine)
    held = _memory(model, stages, work)
    memory = machine.card.memory.value
    margin = None if memory is None else memory - float(sum(map(_most, held.values())))
    choice = Choice(dict(stages), held, spent, None, None, None, margin, tuple(dict.fromkeys(found)))
    return choice if found else replace(choice, **_times(choice, work))


def _candidates(model: Architecture, ranks: int, work: Workload) -> Iterator[tuple[dict[str, Layout], str]]:
    if isinstance(work, Pictures):
        for layout, reason in layouts(model, ranks, work, "denoise"):
            yield {"denoise": layout}, reason
        return
    after = list(layouts(model, ranks, work, "decode"))
    for layout, reason in layouts(model, ranks, work, "prefill"):
        for then, why in after:
            if _same_weights(layout, then) and then.data % layout.data == 0:
                yield {"prefill": layout, "decode": then}, reason or why


def _same_weights(one: Layout, other: Layout) -> bool:
    """Weights stay where they are between the stages: only who has which positions may change."""
    return (one.pipeline, one.tensor, one.expert) == (other.pipeline, other.tensor, other.expert)


def _stages(
    model: Architecture, stages: Mapping[str, Layout], work: Workload, machine: Topology
) -> dict[str, Stage]:
    if isinstance(work, Pictures):
        made = {"denoise": costs.denoise(model, stages["denoise"], work, machine)}
        if work.vae:
            made["vae"] = costs.vae(model, stages["denoise"], work, machine)
        return made
    first = costs.prefill(model, stages["prefill"], work, machine)
    change = costs.layout_change(model, stages["prefill"], stages["decode"], work, machine)
    then = costs.decode(model, stages["decode"], work, machine)
    with_change = replace(first, parts=(*first.parts, *([change] if change.nbytes else [])))
    return {"prefill": with_change, "decode": then}


def _memory(model: Architecture, stages: Mapping[str, Layout], work: Workload) -> dict[str, Quantity]:
    """The terms of the stage that needs most."""
    return max(
        (_held(model, stage, layout, work) for stage, layout in stages.items()),
        key=lambda terms: sum(map(_most, terms.values())),
    )


def _held(model: Architecture, stage: str, layout: Layout, work: Workload) -> dict[str, Quantity]:
    share: dict[str, Any] = {"tensor": layout.tensor, "pipeline": layout.pipeline, "expert": layout.expert}
    axes = sum(size > 1 for size in (*layout.sizes.values(), layout.expert))
    share["sequence_parallel"] = layout.tensor > 1 and stage != "decode"
    asked = -(-work.requests // layout.data)
    if isinstance(work, Text):
        return model_terms(
            model, tokens=work.prompt, batch=asked, generated=work.output, itemsize=work.itemsize,
            context=layout.context, communicators=axes, **share,
        )  # fmt: skip
    tokens = model.tokens(frames=work.frames, height=work.height, width=work.width)
    return model_terms(
        model, tokens=tokens, itemsize=work.itemsize, context=layout.context, communicators=axes, **share
    )


def _times(choice: Choice, work: Workload) -> dict[str, Any]:
    first = next(iter(choice.stages.values()))
    layout = next(iter(choice.layouts.values()))
    waves = -(-work.requests // layout.data) - 1
    if isinstance(work, Pictures):
        decoding = choice.stages["vae"].seconds if work.vae else 0.0
        tail = first.seconds + decoding + waves * (first.period + decoding)
        return {"latency": first.seconds + decoding, "tail": tail, "throughput": work.requests / tail}
    writing = work.output * choice.stages["decode"].seconds
    tail = first.seconds + waves * first.period + writing
    tokens = work.requests * work.output
    return {"latency": first.seconds + writing, "tail": tail, "throughput": tokens / tail}


def _too_much(choice: Choice) -> str:
    if choice.margin is None or choice.margin >= 0:
        return ""
    most = max(choice.memory, key=lambda name: _most(choice.memory[name]))
    held, beyond, largest = (
        units.decimal(nbytes, "B") for nbytes in (choice.held, -choice.margin, _most(choice.memory[most]))
    )
    what = most.replace("_", " ")
    return f"needs {held} a card, {beyond} more than there is; the most of it: {what}, {largest}"


def _order(choice: Choice, goal: str) -> tuple[float, float]:
    keys = {
        "latency": (choice.latency or 0.0, choice.held),
        "throughput": (-(choice.throughput or 0.0), choice.latency or 0.0),
        "memory": (choice.held, choice.latency or 0.0),
    }
    return keys[goal]


def _most(term: Quantity) -> float:
    """What the fullest card has of it."""
    return float(term.value if term.per_rank is None else max(term.per_rank))


def _named(stages: Mapping[str, Layout]) -> str:
    return " → ".join(dict.fromkeys(str(layout) for layout in stages.values()))
