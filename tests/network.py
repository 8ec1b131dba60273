"""A network on paper: ranks are list indices, a round is a list of messages. Independent of the package.

A rank sends one message and receives one per round; a round lasts alpha + beta x the longest message (+ gamma
x it where something is added). Empty messages are not sent; a round without any message does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALPHA, BETA, GAMMA = 1.0, 0.25, 0.0625  # exact in binary: sums come out equal, not nearly equal


@dataclass
class Network:
    """What was sent so far, by rank, and how long it took."""

    ranks: int
    sent: list[int] = field(default_factory=list)
    rounds: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.sent = [0] * self.ranks

    def round(self, messages: list[tuple[int, int, Array]], adds: bool = False) -> dict[int, Array]:
        """What arrives, by rank, of messages (from, to, what)."""
        real = [message for message in messages if len(message[2])]
        assert len({source for source, _, _ in real}) == len(real), "a rank sends twice in a round"
        assert len({to for _, to, _ in real}) == len(real), "a rank receives twice in a round"
        for source, _, what in real:
            self.sent[source] += len(what)
        if real:
            longest = max(len(what) for _, _, what in real)
            self.rounds += 1
            self.seconds += ALPHA + longest * (BETA + GAMMA * adds)
        return {to: what.copy() for _, to, what in messages}


def ring_all_reduce(xs: list[Array]) -> tuple[Network, list[Array]]:
    """The ring in chunks."""
    net, chunks = ring_reduce_scatter_parts(xs)
    ring_gather(net, chunks)
    return net, [np.concatenate(mine) for mine in chunks]


def ring_reduce_scatter_parts(xs: list[Array]) -> tuple[Network, list[list[Array]]]:
    """The first half: chunk r is complete on rank r."""
    p = len(xs)
    net = Network(p)
    chunks = [[chunk.copy() for chunk in np.array_split(x, p)] for x in xs]
    for step in range(p - 1):
        moving = [(r, (r + 1) % p, chunks[r][(r - step - 1) % p]) for r in range(p)]
        for to, what in net.round(moving, adds=True).items():
            chunks[to][(to - step - 2) % p] += what
    return net, chunks


def ring_gather(net: Network, chunks: list[list[Array]]) -> None:
    """The second half: chunk r goes from rank r all the way round."""
    p = len(chunks)
    for step in range(p - 1):
        moving = [(r, (r + 1) % p, chunks[r][(r - step) % p]) for r in range(p)]
        for to, what in net.round(moving).items():
            chunks[to][(to - step - 1) % p] = what


def halving_doubling_all_reduce(xs: list[Array]) -> tuple[Network, list[Array]]:
    """Rabenseifner, with the ranks beyond a power of two folded in and out."""
    p = len(xs)
    q = 1 << (p.bit_length() - 1)
    net, held = Network(p), [x.copy() for x in xs]
    if q < p:
        for to, what in net.round([(r, r - q, held[r]) for r in range(q, p)], adds=True).items():
            held[to] += what
    edges = np.cumsum([0, *(len(chunk) for chunk in np.array_split(held[0], q))])
    spans = [(0, q) for _ in range(q)]
    distance = q // 2
    while distance:
        keep = [(lo, lo + distance) if not r & distance else (lo + distance, hi)
                for r, (lo, hi) in enumerate(spans)]  # fmt: skip
        moving = []
        for r in range(q):
            lo, hi = keep[r ^ distance]
            moving.append((r, r ^ distance, held[r][edges[lo] : edges[hi]]))
        for to, what in net.round(moving, adds=True).items():
            lo, hi = keep[to]
            held[to][edges[lo] : edges[hi]] += what
        spans, distance = keep, distance // 2
    distance = 1
    while distance < q:
        moving = [(r, r ^ distance, held[r][edges[lo] : edges[hi]]) for r, (lo, hi) in enumerate(spans)]
        for to, what in net.round(moving).items():
            lo, hi = spans[to ^ distance]
            held[to][edges[lo] : edges[hi]] = what
        spans = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in
                 ((spans[r], spans[r ^ distance]) for r in range(q))]  # fmt: skip
        distance *= 2
    if q < p:
        held[q:] = list(net.round([(r - q, r, held[r - q]) for r in range(q, p)]).values())
    return net, held


def tree_broadcast(xs: list[Array]) -> tuple[Network, list[Array]]:
    """Whoever has it passes it on, twice as far each round."""
    p, net, held = len(xs), Network(len(xs)), list(xs)
    have = 1
    while have < p:
        for to, what in net.round([(r, r + have, held[r]) for r in range(have) if r + have < p]).items():
            held[to] = what
        have *= 2
    return net, held


def direct_all_to_all(xs: list[Array]) -> tuple[Network, list[Array]]:
    """Every block straight to its owner."""
    p, net = len(xs), Network(len(xs))
    blocks = [np.array_split(x, p) for x in xs]
    got = [{r: blocks[r][r]} for r in range(p)]
    for step in range(1, p):
        for to, what in net.round([(r, (r + step) % p, blocks[r][(r + step) % p]) for r in range(p)]).items():
            got[to][(to - step) % p] = what
    return net, [np.concatenate([mine[source] for source in range(p)]) for mine in got]


def bruck_all_to_all(xs: list[Array]) -> tuple[Network, list[Array]]:
    """Every block carries (from, to) and hops the digits of its distance."""
    p, net = len(xs), Network(len(xs))
    here = [{(r, to): block for to, block in enumerate(np.array_split(xs[r], p))} for r in range(p)]
    hop = 1
    while hop < p:
        leaving = [{key: b for key, b in mine.items() if (key[1] - key[0]) % p & hop} for mine in here]
        packed = [np.concatenate([*out.values(), xs[0][:0]]) for out in leaving]
        net.round([(r, (r + hop) % p, what) for r, what in enumerate(packed)])
        for r, out in enumerate(leaving):
            for key in out:
                here[(r + hop) % p][key] = here[r].pop(key)
        hop *= 2
    return net, [np.concatenate([mine[source, r] for source in range(p)]) for r, mine in enumerate(here)]
