"""Predicts published rows with the planner's own model. Constants are from named rows, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mindlab.bench.published_tables import Series, layout
from mindlab.planning import costs, evidence, layouts, topologies, workloads
from mindlab.planning.topologies import Topology
from mindlab.predict import seconds
from mindlab.predict.architecture_file import made
from mindlab.predict.architectures import Architecture, Dit, architecture

_MIDDLE = (256 * 2**10, 256 * 2**20)
"""Sizes between which a constant bandwidth is known to fail (nccl-tests on 8 x A100: 16 to 49 % off)."""
_STEPS = 40


@dataclass(frozen=True)
class Row:
    """A published number and the model's."""

    series: Series
    name: Any
    published: float
    predicted: float | None
    kind: str
    """covered, fitted, or outside."""
    why: str = ""

    @property
    def error(self) -> float | None:
        """Predicted / published - 1."""
        return None if self.predicted is None else self.predicted / self.published - 1


def predicted(every: Sequence[Series]) -> list[Row]:
    """The Rows of all series. Raises ValueError for a series that carries the constants of none."""
    known: dict[str, dict[str, float]] = {}
    rows = []
    for one in every:
        if one.carry and one.carry not in known:
            raise ValueError(
                f"{one.name} carries the constants of {one.carry!r}, which does not come before it"
            )
        case = _Case(one)
        known[one.name] = case.fitted(dict(known.get(one.carry, {})))
        rows += [case.row(name, known[one.name]) for name in one.rows]
    return rows


def as_shipped(every: Sequence[Series]) -> list[Row]:
    """The Rows of models on machines with the constants of the topology's own file: nothing is fitted.

    What a plan says without a measurement of one's own. Series on a card whose rate is unknown are left out.
    """
    rows = []
    for one in every:
        case = _Case(replace(one, fit={}, carry=""))
        rate = case.machine.card.rate if one.unit == "s" else case.machine.card.memory_rate
        if not one.op and rate.value is not None:
            rows += [case.row(name, {}) for name in one.rows]
    return rows


class _Case:
    """One series, and the model that predicts it."""

    def __init__(self, series: Series) -> None:
        self.series = series
        self.machine = topologies.topology(series.topology)

    @cached_property
    def model(self) -> Architecture:
        if not self.series.shape:
            return architecture(self.series.model)
        shape = dict(self.series.shape)
        shape["dit"] = made(Dit, shape["dit"], self.series.name)
        built: Architecture = made(Architecture, {"name": self.series.name, **shape}, self.series.name)
        return built

    @cached_property
    def work(self) -> workloads.Workload:
        return workloads.workload(self.model, self.series.work)

    def row(self, name: Any, constants: Mapping[str, float]) -> Row:
        published = float(self.series.rows[name])
        if name in self.series.fit.values():
            return Row(self.series, name, published, self.value(name, constants), "fitted", self._from(name))
        why = self._outside(name)
        if why:
            return Row(self.series, name, published, None, "outside", why)
        return Row(self.series, name, published, self.value(name, constants), "covered")

    def value(self, name: Any, constants: Mapping[str, float]) -> float:
        """The model's number for a row, in the unit of the table."""
        spent = self._seconds(name, constants)
        return 1 / spent if self.series.unit == "tokens/s" else spent

    def fitted(self, start: dict[str, float]) -> dict[str, float]:
        """The constants with which the model gives exactly the rows named in `fit`, by Newton's method."""
        names = list(self.series.fit)
        if not names:
            return start
        wanted = [1 / self._published(row) if self.series.unit == "tokens/s" else self._published(row)
                  for row in self.series.fit.values()]  # fmt: skip
        scale = {name: self._first(name) for name in names}
        found = np.ones(len(names)) * [name != "serial" for name in names]

        def off(values: Any) -> Any:
            constants = start | {name: scale[name] * value for name, value in zip(names, values, strict=True)}
            return np.array([self._slow(row, constants) for row in self.series.fit.values()]) - wanted

        for _ in range(_STEPS):
            here = off(found)
            slope = np.stack(
                [(off(found + step) - here) / 1e-4 for step in np.eye(len(names)) * 1e-4], axis=1
            )
            found = found - np.linalg.solve(slope, here)
        return start | {
            name: self._told(name, scale[name] * value) for name, value in zip(names, found, strict=True)
        }

    def _published(self, row: Any) -> float:
        return float(self.series.rows[row])

    def _slow(self, row: Any, slowness: Mapping[str, float]) -> float:
        return self._seconds(row, {name: self._told(name, value) for name, value in slowness.items()})

    @staticmethod
    def _told(name: str, slowness: float) -> float:
        """Rates are sought as their inverse, in which seconds are linear."""
        return slowness if name in ("serial", "alpha") else 1 / slowness

    def _first(self, name: str) -> float:
        if name in ("serial", "alpha"):
            return {"serial": 1.0, "alpha": 1e-5}[name]
        card = {"rate": 1e14, "memory_rate": 1e12, "bandwidth": 1e11}
        return 1 / card[name]

    def _seconds(self, name: Any, constants: Mapping[str, float]) -> float:
        own = {key: value for key, value in constants.items() if key != "serial"}
        machine = _with(self.machine, own)
        if self.series.op:
            cards = range(self.series.cards or machine.cards)
            return float(
                seconds.collective(
                    self.series.op, int(name), machine, cards=list(cards), algorithm=self.series.algorithm
                ).value
            )
        if isinstance(self.work, workloads.Text):
            return costs.decode(self.model, layout(name), self.work, machine).seconds
        spent = costs.denoise(self.model, layout(name), self.work, machine).seconds
        return spent + constants.get("serial", 0.0)

    def _outside(self, name: Any) -> str:
        if self.series.op:
            low, high = _MIDDLE
            inside = not low <= int(name) <= high
            return "" if inside else "256 KiB to 256 MiB: one bandwidth for all sizes is known to fail there"
        chosen = layout(name)
        misfit = layouts.misfit(self.model, chosen, self.work)
        if misfit:
            return misfit
        stage = "decode" if isinstance(self.work, workloads.Text) else "denoise"
        return "; ".join(evidence.outside(self.model, chosen, self.work, self.machine, stage))

    def _from(self, row: Any) -> str:
        return ", ".join(name for name, used in self.series.fit.items() if used == row) + " taken from here"


def _with(machine: Topology, constants: Mapping[str, float]) -> Topology:
    """The machine with these constants; alpha and bandwidth on all levels that a group can meet on."""
    given: dict[str, Any] = dict(constants)
    return machine.assume(**given, why="taken from a published row") if given else machine
