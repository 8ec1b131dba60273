"""What the caller of a replay chose, and the sentences that say what its numbers rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mindlab.errors import MindlabError
from mindlab.planning.programs import Compiled, Rates
from mindlab.planning.topologies import Topology
from mindlab.predict import units
from mindlab.trace.run import Run
from mindlab.trace.stated import Work

Factor = float | Mapping[str, float]


@dataclass(frozen=True)
class Choices:
    """The arguments of a replay, checked where they are used."""

    topology: Topology
    cards: tuple[int, ...]
    rate: float | None
    efficiency: float | None
    algorithms: dict[str, str]
    bytes_times: Factor
    flop_times: Factor

    def rates(self, run: Run) -> Rates:
        """Seconds of a work and factor of a call. Raises ValueError, or MindlabError for an unknown rate."""
        calls = {event.label for event in run.events if event.nbytes}
        _check_factor("bytes_times", self.bytes_times, calls, "step labels")
        _check_factor("flop_times", self.flop_times, {work.what for work in run.work}, "kinds of work")
        self._check_speed()
        rate = self.speed()[0] if any(work.flop for work in run.work) else 1.0

        def seconds(work: Work) -> float:
            return work.flop * _factor(self.flop_times, work.what) / rate

        return Rates(seconds, lambda event: _factor(self.bytes_times, event.label) if event.nbytes else 1.0)

    def speed(self) -> tuple[float, str]:
        """(FLOP/s of a card, where the number is from)."""
        card = self.topology.card
        if self.rate is not None:
            return float(self.rate), "given by the caller"
        if self.efficiency is not None:
            if card.peak.value is None:
                raise MindlabError(
                    f"the peak of {card.name} is unknown ({card.peak.source}): give rate=… instead"
                )
            return self.efficiency * card.peak.value, f"{self.efficiency:g} of the peak, {card.peak}"
        if card.rate.value is None:
            raise MindlabError(
                f"the run states work, and how fast {card.name} does it is unknown ({card.rate.source}): "
                "give rate=… in FLOP/s, or efficiency=… of the peak"
            )
        return card.rate.value, str(card.rate.source)

    def _check_speed(self) -> None:
        """Raises ValueError for a rate or an efficiency that is none, also where a run states no work."""
        if self.rate is not None and self.efficiency is not None:
            raise ValueError("rate and efficiency are both given: give one of them")
        for name, value in (("rate", self.rate), ("efficiency", self.efficiency)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name}={value!r}: give a number above 0")

    def provenance(self, run: Run) -> str:
        """ "modelled on …", and which program it was."""
        parts = [f"modelled on {self.topology.name}"]
        if self.cards != tuple(range(len(self.cards))):
            parts.append(f"cards {', '.join(map(str, self.cards))}")
        if (scaled := self.scaled()) != "":
            parts.append(scaled)
        return " · ".join([*parts, f"program of {run.name or 'a run'}, {run.provenance}"])

    def scaled(self) -> str:
        """ "bytes x 16, FLOP x 256"; "" where nothing is scaled."""
        parts = [("bytes", self.bytes_times), ("FLOP", self.flop_times)]
        return ", ".join(f"{name} {_said(factor)}" for name, factor in parts if factor != 1)


def sentences(choices: Choices, run: Run | None, made: Compiled | None, released: int) -> tuple[str, ...]:
    """What a Timeline rests on: the machine's numbers, the rules of the model, what the record lacks."""
    said = [_levels(choices.topology)]
    said.append(
        "A message begins when its send and its receive are both posted, costs alpha, and then shares each "
        "link evenly with the other messages under way; messages of one pair and tag go one after another."
    )
    said.append("Adding numbers, copying, memory traffic and the host's own code take no time.")
    if run is None or made is None:
        return tuple(said)
    if made.algorithms:
        named = ", ".join(f"{kind}: {name}" for kind, name in sorted(made.algorithms.items()))
        said.append(f"Collectives by {named}. What a library would choose is not recorded.")
    said.append(_work(choices, run))
    if choices.scaled():
        said.append(f"Scaled from what was run: {choices.scaled()}.")
    return (*said, *_gaps(made, released))


def _gaps(made: Compiled, released: int) -> list[str]:
    said = []
    if made.unseen:
        said.append(
            f"Of {made.unseen} asynchronous calls nobody saw the wait: the rank's program ends after them."
        )
    if made.lost:
        said.append(f"{made.lost} calls have no other end in the record: they move nothing here.")
    if released:
        said.append(
            f"{released} messages began before their receive was posted: else the ranks wait in a circle."
        )
    return said


def _levels(topology: Topology) -> str:
    parts = [f"{one.name}: {one.speed}, alpha {one.alpha}" for one in topology.levels]
    return f"{topology.title}. " + "; ".join(parts) + "."


def _work(choices: Choices, run: Run) -> str:
    if not any(work.flop for work in run.work):
        return "The run states no work: only communication is modelled."
    rate, source = choices.speed()
    return f"Computing takes the stated FLOP at {units.decimal(rate, 'FLOP/s')} a card ({source})."


def _factor(given: Factor, name: str) -> float:
    return float(given[name]) if isinstance(given, Mapping) else float(given)


def _check_factor(argument: str, given: Factor, names: set[str], what: str) -> None:
    values = given.values() if isinstance(given, Mapping) else [given]
    for value in values:
        if not 0 < value < float("inf"):
            raise ValueError(f"{argument}={given!r}: factors are numbers above 0")
    if isinstance(given, Mapping) and set(given) != names:
        raise ValueError(
            f"{argument} names {sorted(given)}, but the run's {what} are {sorted(names)}: name each of them"
        )


def _said(factor: Factor) -> str:
    if not isinstance(factor, Mapping):
        return f"x {units.number(factor)}"
    return "x (" + ", ".join(f"{name}: {units.number(value)}" for name, value in factor.items()) + ")"
