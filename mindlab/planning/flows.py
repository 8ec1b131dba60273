"""Discrete events over shared links: when each task of a graph begins and ends, if links are shared fairly.

A task takes a fixed time, and may then move bytes over a path of links. It begins when all tasks before it
have ended. Messages that are under way at the same time share each link by max-min fairness: no message can
get more without taking from one that has as little or less (Bertsekas & Gallager, Data Networks, 6.5.2).

All events of one moment are handled together, as arrays: a ring of 1024 ranks has two million messages and
two thousand moments.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Release = Callable[[Ints, Floats], Ints]

NO_LINK = 0
"""The link that pads short paths; it has no limit."""
_SAME = 1e-12
"""Moments closer than this share of the time are one."""
_DONE = 1e-9
"""A message of which less than this share is left has arrived."""


@dataclass
class Graph:
    """The tasks of a simulation, as columns. `edges` are (before, after) pairs of task numbers."""

    seconds: Floats
    """The fixed time of each: computing, or a message's alpha."""
    nbytes: Floats
    """What moves over the path afterwards."""
    paths: Ints
    """(tasks, most links) numbers of links, filled up with NO_LINK."""
    edges: Ints
    """(edges, 2)."""
    bandwidth: Floats
    """Bytes a second by link; that of NO_LINK is infinite."""


@dataclass
class Ended:
    """When each task began and ended, in seconds, and which had to go on without a task before it."""

    start: Floats
    end: Floats
    released: Ints


def run(graph: Graph, release: Release | None = None) -> Ended:
    """The Ended of a graph. Same graph, same numbers.

    Where tasks are left that wait in a circle, `release` is given their numbers, and when each task ended,
    and returns the ones to let go; without it, or if it returns none, they keep NaN.
    """
    return _Clock(graph, release).run()


@dataclass
class _Flows:
    """The messages under way: their tasks, bytes left, rates and paths."""

    tasks: Ints
    left: Floats
    rate: Floats
    paths: Ints


@dataclass
class _Clock:
    graph: Graph
    release: Release | None
    now: float = 0.0
    fixed: list[tuple[float, int, Ints]] = field(default_factory=list)
    """A heap of (moment, number, tasks whose fixed time ends then)."""
    pushed: int = 0

    def run(self) -> Ended:
        graph = self.graph
        count = len(graph.seconds)
        self.start, self.end = np.full(count, np.nan), np.full(count, np.nan)
        self.missing = np.bincount(graph.edges[:, 1], minlength=count)
        order = np.argsort(graph.edges[:, 0], kind="stable")
        self.after = graph.edges[order, 1]
        self.first = np.searchsorted(graph.edges[order, 0], np.arange(count + 1))
        width = graph.paths.shape[1]
        self.flows = _Flows(_none(), np.empty(0), np.empty(0), np.empty((0, width), dtype=np.int64))
        released = [_none()]
        self._end(self._begin(np.flatnonzero(self.missing == 0)))
        while True:
            self._run_on()
            stuck = np.flatnonzero(np.isnan(self.start))
            free = self.release(stuck, self.end) if len(stuck) and self.release else _none()
            if not len(free):
                return Ended(self.start, self.end, np.concatenate(released))
            released.append(free)
            self.missing[free] = -1  # what they waited for can no longer start them a second time
            self._end(self._begin(free))

    def _run_on(self) -> None:
        """Let time go on until nothing is under way."""
        flows = self.flows
        while self.fixed or len(flows.tasks):
            arrival = self.now + (flows.left / flows.rate).min() if len(flows.tasks) else np.inf
            moment = min(arrival, self.fixed[0][0]) if self.fixed else arrival
            flows.left -= flows.rate * (moment - self.now)
            self.now = moment
            ended = [self._arrived(arrival <= moment)]
            moving = []
            while self.fixed and self.fixed[0][0] <= moment * (1 + _SAME):
                tasks = heapq.heappop(self.fixed)[2]
                moves = self.graph.nbytes[tasks] > 0
                ended.append(tasks[~moves])
                moving.append(tasks[moves])
            changed = bool(len(ended[0]))
            changed |= self._depart(moving)
            self._end(np.concatenate(ended))
            if changed:
                flows.rate = fair_rates(flows.paths, self.graph.bandwidth)

    def _arrived(self, due: bool) -> Ints:
        """Take out the messages that have arrived; at least one if one is due."""
        flows = self.flows
        if not len(flows.tasks):
            return _none()
        done = flows.left <= _DONE * self.graph.nbytes[flows.tasks]
        if due:
            done[np.argmin(flows.left / flows.rate)] = True
        if not done.any():
            return _none()
        arrived, stay = flows.tasks[done], ~done
        flows.tasks, flows.left, flows.rate = flows.tasks[stay], flows.left[stay], flows.rate[stay]
        flows.paths = flows.paths[stay]
        return arrived

    def _depart(self, moving: list[Ints]) -> bool:
        tasks = np.concatenate(moving) if moving else _none()
        if not len(tasks):
            return False
        flows = self.flows
        flows.tasks = np.concatenate([flows.tasks, tasks])
        flows.left = np.concatenate([flows.left, self.graph.nbytes[tasks]])
        flows.paths = np.concatenate([flows.paths, self.graph.paths[tasks]])
        return True

    def _end(self, tasks: Ints) -> None:
        """These tasks end now; begin those that waited for them alone."""
        while len(tasks):
            self.end[tasks] = self.now
            counts = self.first[tasks + 1] - self.first[tasks]
            total = int(counts.sum())
            if not total:
                return
            offsets = np.repeat(self.first[tasks] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
            following = self.after[offsets + np.arange(total)]
            np.subtract.at(self.missing, following, 1)
            ready = following[self.missing[following] == 0]
            tasks = self._begin(np.unique(ready)) if len(ready) else _none()

    def _begin(self, tasks: Ints) -> Ints:
        """Start these tasks; returns those that take no time: they are still to be ended."""
        self.start[tasks] = self.now
        seconds = self.graph.seconds[tasks]
        instant = (seconds == 0) & (self.graph.nbytes[tasks] == 0)
        lasting = tasks[~instant]
        if len(lasting):
            moments = self.now + seconds[~instant]
            order = np.argsort(moments, kind="stable")
            lasting, moments = lasting[order], moments[order]
            cuts = np.flatnonzero(np.diff(moments)) + 1
            for chosen in np.split(np.arange(len(lasting)), cuts):
                self.pushed += 1
                heapq.heappush(self.fixed, (float(moments[chosen[0]]), self.pushed, lasting[chosen]))
        at_once: Ints = tasks[instant]
        return at_once


def fair_rates(paths: Ints, bandwidth: Floats) -> Floats:
    """Bytes a second of each message (a row of `paths`) when they share the links by max-min fairness.

    The link that has the least left for each of its messages sets their rate; then the next.
    """
    rates = np.full(len(paths), np.inf)
    left = bandwidth.astype(float).copy()
    open_ = np.arange(len(paths))
    while len(open_):
        here = paths[open_]
        count = np.bincount(here.ravel(), minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(count > 0, left / np.maximum(count, 1), np.inf)
        share[NO_LINK] = np.inf
        lowest = share.min()
        if not np.isfinite(lowest):
            break
        tight = share <= lowest * (1 + _SAME)
        bound = tight[here].any(axis=1)
        rates[open_[bound]] = lowest
        used = np.bincount(here[bound].ravel(), minlength=len(left))
        left = np.maximum(left - used * lowest, 0.0)
        open_ = open_[~bound]
    return rates


def pairs(edges: Iterable[tuple[int, int]]) -> Ints:
    """Edges as Graph takes them."""
    listed = list(edges)
    return np.array(listed, dtype=np.int64).reshape(len(listed), 2)


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)
