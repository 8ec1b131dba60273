"""Builds the graph of a simulation: work, messages on a topology's links, and what waits for what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mindlab.planning.flows import NO_LINK, Graph
from mindlab.planning.moves import Moves
from mindlab.planning.topologies import Level, Link, Topology

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Builder:
    """Tasks are numbered in the order in which they are added."""

    def __init__(self, topology: Topology) -> None:
        self.routes = Routes(topology)
        self.count = 0
        self._seconds: list[Floats] = []
        self._nbytes: list[Floats] = []
        self._weights: list[Floats] = []
        """The bytes that would take as long at the level's full rate, where that depends on the size."""
        self._paths: list[tuple[Ints, Ints]] = []
        """(tasks, paths) of the messages."""
        self.held: list[tuple[Ints, Ints]] = []
        """(messages, the tasks by which their senders have come to them)."""
        self._edges: list[Ints] = []

    def work(self, seconds: float) -> int:
        """A task that takes so long; 0 for a mere meeting of others."""
        return int(self._add(np.array([seconds], dtype=float), np.zeros(1))[0])

    def meetings(self, count: int) -> Ints:
        """Tasks that take no time."""
        return self._add(np.zeros(count), np.zeros(count))

    def messages(self, source: npt.ArrayLike, target: npt.ArrayLike, nbytes: npt.ArrayLike) -> Ints:
        """A message for each row, between cards: alpha of the path, then the bytes over its links."""
        paths, alphas, levels = self.routes.between(np.asarray(source), np.asarray(target))
        sizes = np.broadcast_to(np.asarray(nbytes, dtype=float), alphas.shape)
        tasks = self._add(alphas, sizes, self.routes.weighed(sizes, levels))
        self._paths.append((tasks, paths))
        return tasks

    def edge(self, before: npt.ArrayLike, after: npt.ArrayLike) -> None:
        """`after` begins only when `before` has ended; numbers, or columns of equal length."""
        rows = np.stack(np.broadcast_arrays(before, after), axis=-1)
        self._edges.append(rows.reshape(-1, 2).astype(np.int64))

    def message(self, source: int, target: int, nbytes: float, ends: tuple[int, int]) -> int:
        """One message between two cards, which the sender and the receiver come to by the tasks `ends`."""
        task = self.messages([source], [target], [nbytes])
        self.edge(ends, task)
        self.held.append((task, np.array(ends[:1])))
        return int(task[0])

    def expand(self, moves: Moves, entry: Ints, cards: Ints) -> tuple[Ints, Ints]:
        """(the last meeting of each rank, the messages) of an algorithm that the ranks enter at `entry`.

        A rank goes into a round when its messages of the rounds before have ended; a message begins when
        both ends have come to its round.
        """
        if not len(moves):
            return entry, np.empty(0, dtype=np.int64)
        tasks = self.messages(cards[moves.source], cards[moves.target], moves.nbytes)
        rounds = int(moves.round.max()) + 1
        ends = np.concatenate([moves.source, moves.target])
        key = ends * rounds + np.concatenate([moves.round, moves.round])
        visits, visit = np.unique(key, return_inverse=True)
        met = self.meetings(len(visits))
        who = visits // rounds
        first = np.concatenate([[True], who[1:] != who[:-1]])
        before = np.where(first, entry[who], np.concatenate([[0], met[:-1]]))
        twice = np.concatenate([tasks, tasks])
        self.edge(before[visit], twice)
        self.edge(twice, met[visit])
        self.edge(before, met)
        self.held.append((tasks, before[visit][: len(tasks)]))
        last = np.array(entry, copy=True)
        last[who] = met  # rounds go up, so the last one stays
        return last, tasks

    def graph(self) -> Graph:
        """The graph of all that was added."""
        width = max((paths.shape[1] for _, paths in self._paths), default=1)
        all_paths = np.full((self.count, width), NO_LINK, dtype=np.int64)
        for tasks, paths in self._paths:
            all_paths[tasks, : paths.shape[1]] = paths
        edges = np.concatenate(self._edges) if self._edges else np.empty((0, 2), dtype=np.int64)
        empty = [np.empty(0)]
        return Graph(
            np.concatenate(self._seconds or empty),
            np.concatenate(self._weights or empty),
            all_paths,
            edges,
            self.routes.bandwidth(),
        )

    def moved(self) -> Floats:
        """The bytes of each task."""
        return np.concatenate(self._nbytes or [np.empty(0)])

    def _add(self, seconds: Floats, nbytes: Floats, weights: Floats | None = None) -> Ints:
        first, self.count = self.count, self.count + len(seconds)
        self._seconds.append(seconds)
        self._nbytes.append(nbytes)
        self._weights.append(nbytes if weights is None else weights)
        return np.arange(first, self.count)


class Routes:
    """The links of a topology that were used so far, numbered from 1, and the paths over them."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.links: dict[Link, int] = {}
        self._known: dict[tuple[int, int], tuple[list[int], float, int]] = {}
        self._alphas: dict[Level, float] = {}

    def between(self, source: Ints, target: Ints) -> tuple[Ints, Floats, Ints]:
        """(paths, alphas, numbers of the levels that they meet on) for each row."""
        pairs, back = np.unique(source * self.topology.cards + target, return_inverse=True)
        found = [self._route(int(p) // self.topology.cards, int(p) % self.topology.cards) for p in pairs]
        width = max((len(links) for links, *_ in found), default=1)
        table = np.array([[*links, *[NO_LINK] * (width - len(links))] for links, *_ in found], dtype=np.int64)
        alphas = np.array([alpha for _, alpha, _ in found], dtype=float)
        levels = np.array([level for *_, level in found], dtype=np.int64)
        return table.reshape(len(pairs), width)[back], alphas[back], levels[back]

    def weighed(self, nbytes: Floats, levels: Ints) -> Floats:
        """Bytes, as many more as a message of that size is slower than the level's full rate."""
        if not any(level.by_size for level in self.topology.levels):
            return nbytes
        kinds, back = np.unique(np.stack([levels, nbytes]), axis=1, return_inverse=True)
        slower = [self._slower(int(level), size) for level, size in kinds.T]
        weights: Floats = nbytes * np.array(slower, dtype=np.float64)[back.ravel()]
        return weights

    def _slower(self, number: int, nbytes: float) -> float:
        level = self.topology.levels[number]
        if not level.by_size or not nbytes:
            return 1.0
        return self.topology.bandwidth((number,)) / self.topology.rate(level, nbytes)

    def bandwidth(self) -> Floats:
        """Bytes a second by number of link."""
        return np.array([np.inf, *(self.topology.bandwidth(link) for link in self.links)])

    def _route(self, source: int, target: int) -> tuple[list[int], float, int]:
        found = self._known.get((source, target))
        if found is None:
            path, level = self.topology.path(source, target)
            if level not in self._alphas:
                self._alphas[level] = self.topology.alpha(level)
            links = [self.links.setdefault(link, len(self.links) + 1) for link in path]
            number = self.topology.levels.index(level)
            found = self._known[source, target] = (links, self._alphas[level], number)
        return found


def bytes_by_link(graph: Graph, builder: Builder) -> dict[str, float]:
    """The bytes that crossed each link that was used, the busiest link first."""
    totals, moved, routes = np.zeros(len(graph.bandwidth)), builder.moved(), builder.routes
    for column in graph.paths.T:
        totals += np.bincount(column, weights=moved, minlength=len(totals))
    named: Sequence[tuple[str, float]] = [
        (routes.topology.named(link), float(totals[number])) for link, number in routes.links.items()
    ]
    return dict(sorted((pair for pair in named if pair[1]), key=lambda pair: -pair[1]))
