"""What an algorithm moves: who sends how much to whom in which round, as columns.

The same algorithms as in `volume` and `seconds`; chunk sizes are given, so that uneven ones are right too.
A message of no bytes is not sent, but for a barrier's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindlab.predict.chunks import split
from mindlab.predict.trees import ceil_log2

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moves:
    """Messages in rounds. A rank goes into a round when its messages of the rounds before have ended."""

    ranks: int
    round: Ints
    source: Ints
    target: Ints
    nbytes: Floats

    def __len__(self) -> int:
        return len(self.round)

    def then(self, after: Moves) -> Moves:
        """These moves, and the other ones in the rounds that follow."""
        shift = int(self.round.max()) + 1 if len(self) else 0
        return Moves(
            self.ranks,
            np.concatenate([self.round, after.round + shift]),
            np.concatenate([self.source, after.source]),
            np.concatenate([self.target, after.target]),
            np.concatenate([self.nbytes, after.nbytes]),
        )

    def back(self) -> Moves:
        """The same messages the other way, the last round first."""
        last = int(self.round.max()) if len(self) else 0
        return Moves(self.ranks, last - self.round, self.target, self.source, self.nbytes)


def chunks(nbytes: int, ranks: int, itemsize: int = 1) -> list[int]:
    """The bytes of each rank's chunk, as torch.tensor_split cuts."""
    return [items * itemsize for items in split(nbytes // itemsize, ranks)]


def ring_reduce_scatter(sizes: Sequence[float]) -> Moves:
    """Partial sums go round to the right; chunk r ends on rank r."""
    return _ring(sizes, -1)


def ring_all_gather(sizes: Sequence[float]) -> Moves:
    """Each shard goes round to the right; shard r starts on rank r."""
    return _ring(sizes, 0)


def ring_all_reduce(sizes: Sequence[float]) -> Moves:
    """A ring reduce-scatter, then a ring all-gather.

    >>> len(ring_all_reduce([4] * 8))
    112
    """
    return ring_reduce_scatter(sizes).then(ring_all_gather(sizes))


def mesh_reduce_scatter(sizes: Sequence[float]) -> Moves:
    """Each rank sends every other one its chunk, all at once."""
    return all_at_once(np.tile(np.asarray(sizes, dtype=float), (len(sizes), 1)))


def mesh_all_gather(sizes: Sequence[float]) -> Moves:
    """Each rank sends its shard to every other one, all at once."""
    return all_at_once(np.tile(np.asarray(sizes, dtype=float), (len(sizes), 1)).T)


def mesh_all_reduce(sizes: Sequence[float]) -> Moves:
    """A full-mesh reduce-scatter, then a full-mesh all-gather."""
    return mesh_reduce_scatter(sizes).then(mesh_all_gather(sizes))


def hierarchical_all_reduce(nbytes: float, domains: Sequence[Sequence[int]]) -> Moves:
    """Reduce-scatter in each domain, all-reduce of each part between equal places, all-gather in each domain.

    `domains` lists the ranks of each, equally many. Raises ValueError where they are not.
    """
    each, ranks = len(domains[0]), sum(map(len, domains))
    if any(len(domain) != each for domain in domains):
        raise ValueError(
            f"domains of {sorted({len(one) for one in domains})} ranks: hierarchical needs equal ones"
        )
    parts = chunks(int(nbytes), each)
    across = [
        (ring_all_reduce(chunks(part, len(domains))), [domain[place] for domain in domains])
        for place, part in enumerate(parts)
    ]
    within = (
        [(form(parts), domain) for domain in domains] for form in (mesh_reduce_scatter, mesh_all_gather)
    )
    first, last = (_beside(group, ranks) for group in within)
    return first.then(_beside(across, ranks)).then(last)


def tree_broadcast(nbytes: float, ranks: int, root: int = 0) -> Moves:
    """In round k the 2^k ranks that have it send it 2^k further (a binomial tree)."""
    rows = [
        (k, (root + place) % ranks, (root + place + 2**k) % ranks)
        for k in range(ceil_log2(ranks))
        for place in range(min(2**k, ranks - 2**k))
    ]
    return _listed(rows, ranks, nbytes)


def tree_reduce(nbytes: float, ranks: int, root: int = 0) -> Moves:
    """A binomial tree towards the root."""
    return tree_broadcast(nbytes, ranks, root).back()


def tree_all_reduce(nbytes: float, ranks: int) -> Moves:
    """Up a tree to rank 0, and down again."""
    return tree_reduce(nbytes, ranks).then(tree_broadcast(nbytes, ranks))


def pairwise_all_to_all(matrix: npt.ArrayLike) -> Moves:
    """Each rank sends to the one k to its right in round k. `matrix`: bytes from row to column."""
    nbytes = np.asarray(matrix, dtype=float)
    ranks = len(nbytes)
    turn, source = np.divmod(np.arange(ranks * max(0, ranks - 1)), ranks)
    target = (source + turn + 1) % ranks
    return _sent(ranks, turn, source, target, nbytes[source, target])


def all_at_once(matrix: npt.ArrayLike) -> Moves:
    """Every message in one round. `matrix`: bytes from row to column."""
    nbytes = np.asarray(matrix, dtype=float)
    source, target = np.nonzero(~np.eye(len(nbytes), dtype=bool))
    return _sent(len(nbytes), np.zeros_like(source), source, target, nbytes[source, target])


def dissemination_barrier(ranks: int) -> Moves:
    """Empty messages: in round k to the one 2^k to the right (Hensgen, Finkel & Manber 1988)."""
    rows = [(k, r, (r + 2**k) % ranks) for k in range(ceil_log2(ranks)) for r in range(ranks)]
    return _listed(rows, ranks, 0.0)


ALGORITHMS: Mapping[str, Mapping[str, Callable[..., Moves]]] = {
    "all_reduce": {
        "ring": ring_all_reduce,
        "mesh": mesh_all_reduce,
        "tree": tree_all_reduce,
        "hierarchical": hierarchical_all_reduce,
    },
    "all_gather": {"ring": ring_all_gather, "mesh": mesh_all_gather},
    "reduce_scatter": {"ring": ring_reduce_scatter, "mesh": mesh_reduce_scatter},
    "all_to_all": {"pairwise": pairwise_all_to_all, "at once": all_at_once},
    "broadcast": {"tree": tree_broadcast},
    "reduce": {"tree": tree_reduce},
    "gather": {"at once": all_at_once},
    "scatter": {"at once": all_at_once},
    "objects": {"at once": all_at_once},
    "barrier": {"dissemination": dissemination_barrier},
}
"""Collective -> the algorithms that it can be replayed by; the first one is taken unless another is named."""


def _beside(parts: Sequence[tuple[Moves, Sequence[int]]], ranks: int) -> Moves:
    """Moves of several groups at once, each with the ranks that its places stand for."""
    columns = [
        (one.round, np.asarray(members)[one.source], np.asarray(members)[one.target], one.nbytes)
        for one, members in parts
    ]
    rounds, source, target, nbytes = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Moves(ranks, rounds, source, target, nbytes)


def _ring(sizes: Sequence[float], shift: int) -> Moves:
    """In round k rank r sends chunk r + shift - k to r + 1."""
    ranks = len(sizes)
    turn, source = np.divmod(np.arange(ranks * max(0, ranks - 1)), max(1, ranks))
    nbytes = np.asarray(sizes, dtype=float)[(source + shift - turn) % ranks]
    return _sent(ranks, turn, source, (source + 1) % ranks, nbytes)


def _sent(ranks: int, turn: Ints, source: Ints, target: Ints, nbytes: Floats) -> Moves:
    kept = nbytes > 0
    return Moves(ranks, turn[kept], source[kept], target[kept], nbytes[kept])


def _listed(rows: Sequence[tuple[int, int, int]], ranks: int, nbytes: float) -> Moves:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 3).T
    return Moves(ranks, columns[0], columns[1], columns[2], np.full(len(rows), float(nbytes)))
