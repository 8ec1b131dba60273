r"""How long each algorithm takes in the alpha-beta-gamma model, one function for each, named as in `volume`.

All take `f(nbytes, ranks, *, alpha, beta, gamma=0.0)`. `nbytes` is D, the bytes of the FULL tensor (see
`volume`); `alpha` is the seconds that a message costs however short, `beta` the seconds a byte (1 / bandwidth
of one link), `gamma` the seconds for adding a byte. A rank sends one message and receives one at a time; in
the full-mesh forms it does so on all its p-1 links at once. One rank, or an empty tensor, takes 0 s.

`collective` takes a topology in their place, and finds the quickest algorithm for a group of its cards.

`cfg_speedup` takes the seconds of a guided step's parts; `pipeline` those of each stage, and `pipeline_idle`
and `pipeline_overhead` say how much of their time stages idle.

The number is modelled: it says what the model says, nothing of contention, of copies or of the host.

    >>> ml.seconds.ring_all_gather(4000, 4, alpha=1.0, beta=0.001).value
    6.0
"""

from __future__ import annotations

from mindlab.planning.linked import collective as collective
from mindlab.predict import rounds, sources
from mindlab.predict.branches import cfg_speedup as cfg_speedup
from mindlab.predict.chunks import check_size
from mindlab.predict.hccl import halving_doubling_reduce_scatter as halving_doubling_reduce_scatter
from mindlab.predict.hccl import mesh_broadcast as mesh_broadcast
from mindlab.predict.hccl import mesh_gather as mesh_gather
from mindlab.predict.hccl import mesh_reduce as mesh_reduce
from mindlab.predict.hccl import mesh_scatter as mesh_scatter
from mindlab.predict.hccl import nhr_all_reduce as nhr_all_reduce
from mindlab.predict.hccl import nhr_reduce_scatter as nhr_reduce_scatter
from mindlab.predict.hccl import pairwise_all_to_all as pairwise_all_to_all
from mindlab.predict.hccl import pipeline_all_gather as pipeline_all_gather
from mindlab.predict.hccl import pipeline_all_reduce as pipeline_all_reduce
from mindlab.predict.hccl import pipeline_reduce_scatter as pipeline_reduce_scatter
from mindlab.predict.hccl import ring_broadcast as ring_broadcast
from mindlab.predict.quantity import Quantity
from mindlab.predict.rooflines import roofline as roofline
from mindlab.predict.schedules import pipeline as pipeline
from mindlab.predict.schedules import pipeline_idle as pipeline_idle
from mindlab.predict.schedules import pipeline_overhead as pipeline_overhead
from mindlab.predict.trees import floor_log2


def ring_reduce_scatter(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds of a ring reduce-scatter: p-1 rounds of one chunk, each added on arrival.

    >>> ring_reduce_scatter(4000, 4, alpha=1.0, beta=0.001, gamma=0.0).value
    6.0
    """
    return _seconds(
        "ring_reduce_scatter", nbytes, ranks, (alpha, beta, gamma), (1, 1),
        r"(p-1)\,\alpha + \frac{p-1}{p}\,D\,(\beta+\gamma)", sources.THAKUR,
    )  # fmt: skip


def ring_all_gather(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a ring all-gather: p-1 rounds of one chunk; nothing is added."""
    return _seconds(
        "ring_all_gather", nbytes, ranks, (alpha, beta, gamma), (1, 0),
        r"(p-1)\,\alpha + \frac{p-1}{p}\,D\,\beta", sources.THAKUR,
    )  # fmt: skip


def ring_all_reduce(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a ring all-reduce: the two rings one after the other."""
    return _seconds(
        "ring_all_reduce", nbytes, ranks, (alpha, beta, gamma), (2, 1),
        r"2(p-1)\,\alpha + 2\,\frac{p-1}{p}\,D\,\beta + \frac{p-1}{p}\,D\,\gamma", sources.PATARASUK_YUAN,
    )  # fmt: skip


def halving_doubling_all_reduce(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds of an all-reduce by halving and doubling; q is the largest power of two up to p.

    Where q < p, folding the other ranks in and out puts two whole tensors more on the critical path.
    """
    check_size(nbytes, ranks)
    core = 2 ** floor_log2(ranks)
    fold = int(core < ranks)
    q = "q" if fold else "p"
    more = ("+2", "+1") if fold else ("", "")
    formula = (
        rf"(2\log_2 {q}{more[0]})\,\alpha + \left(2\,\frac{{{q}-1}}{{{q}}}{more[0]}\right)D\,\beta"
        rf" + \left(\frac{{{q}-1}}{{{q}}}{more[1]}\right)D\,\gamma"
    )
    one = (core - 1) / core
    count = rounds.halving_doubling_all_reduce(nbytes, ranks).value
    value = count * alpha + (2 * one + 2 * fold) * nbytes * beta + (one + fold) * nbytes * gamma
    source = sources.HCCL_RHD if fold else sources.THAKUR
    return _quantity(
        "halving_doubling_all_reduce", value, nbytes, ranks, (alpha, beta, gamma), formula, source
    )


def tree_broadcast(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a binomial-tree broadcast: ceil(lg p) rounds of the whole tensor."""
    value = rounds.tree_broadcast(nbytes, ranks).value * (alpha + nbytes * beta)
    formula = r"\lceil\log_2 p\rceil\,(\alpha + D\,\beta)"
    return _quantity("tree_broadcast", value, nbytes, ranks, (alpha, beta, gamma), formula, sources.THAKUR)


def direct_all_to_all(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a pairwise all-to-all: p-1 rounds of one block."""
    return _seconds(
        "direct_all_to_all", nbytes, ranks, (alpha, beta, gamma), (1, 0),
        r"(p-1)\,\alpha + \frac{p-1}{p}\,D\,\beta", sources.THAKUR,
    )  # fmt: skip


def bruck_all_to_all(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of Bruck's all-to-all: few rounds, more bytes; the faster one for short blocks."""
    check_size(nbytes, ranks)
    hops = sum(bin(way).count("1") for way in range(ranks))
    value = rounds.bruck_all_to_all(nbytes, ranks).value * alpha + nbytes * hops / ranks * beta
    formula = r"\lceil\log_2 p\rceil\,\alpha + \frac{D}{p}\sum_{j=0}^{p-1}\mathrm{ones}(j)\,\beta"
    return _quantity("bruck_all_to_all", value, nbytes, ranks, (alpha, beta, gamma), formula, sources.BRUCK)


def unchunked_ring_all_reduce(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds of a ring that passes the whole tensor on and adds it each time."""
    check_size(nbytes, ranks)
    value = (ranks - 1) * (alpha + nbytes * (beta + gamma))
    formula = r"(p-1)\,(\alpha + D\,(\beta+\gamma))"
    name = "unchunked_ring_all_reduce"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.PYTORCH_TUTORIAL)


def root_all_reduce(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds if rank 0 receives and adds p-1 tensors, one after the other, and sends p-1 results."""
    check_size(nbytes, ranks)
    value = (ranks - 1) * (2 * alpha + nbytes * (2 * beta + gamma))
    formula = r"(p-1)\,(2\alpha + D\,(2\beta+\gamma))"
    name = "root_all_reduce"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.COUNTED_BY_HAND)


def root_all_gather(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds if rank 0 receives p-1 shards, one after the other, and sends the whole p-1 times."""
    check_size(nbytes, ranks)
    value = (ranks - 1) * (2 * alpha + nbytes * (1 + 1 / ranks) * beta)
    formula = r"(p-1)\left(2\alpha + \left(1+\frac{1}{p}\right)D\,\beta\right)"
    name = "root_all_gather"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.COUNTED_BY_HAND)


def mesh_reduce_scatter(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds of a full-mesh reduce-scatter: one chunk on each link at once, p-1 chunks to add."""
    check_size(nbytes, ranks)
    value = alpha + nbytes / ranks * beta + (ranks - 1) / ranks * nbytes * gamma
    formula = r"\alpha + \frac{D}{p}\,\beta + \frac{p-1}{p}\,D\,\gamma"
    name = "mesh_reduce_scatter"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.HCCL_MESH)


def mesh_all_gather(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh all-gather: one shard on each link at once."""
    check_size(nbytes, ranks)
    value = alpha + nbytes / ranks * beta
    formula = r"\alpha + \frac{D}{p}\,\beta"
    name = "mesh_all_gather"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.HCCL_MESH)


def mesh_all_reduce(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh all-reduce: reduce-scatter, then all-gather; the ring's bytes in 2 rounds.

    >>> mesh_all_reduce(2**20, 8, alpha=10e-6, beta=1 / 28e9)
    mesh_all_reduce: 29.36 µs (2.93623e-05 s)
    """
    check_size(nbytes, ranks)
    value = 2 * alpha + 2 * nbytes / ranks * beta + (ranks - 1) / ranks * nbytes * gamma
    formula = r"2\alpha + 2\,\frac{D}{p}\,\beta + \frac{p-1}{p}\,D\,\gamma"
    name = "mesh_all_reduce"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.HCCL_MESH)


def one_shot_all_reduce(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds if everyone sends its whole tensor on each link at once and adds p-1 of them."""
    check_size(nbytes, ranks)
    value = alpha + nbytes * beta + (ranks - 1) * nbytes * gamma
    formula = r"\alpha + D\,\beta + (p-1)\,D\,\gamma"
    name = "one_shot_all_reduce"
    return _quantity(name, value, nbytes, ranks, (alpha, beta, gamma), formula, sources.COUNTED_BY_HAND)


def _seconds(
    name: str,
    nbytes: int,
    ranks: int,
    rates: tuple[float, float, float],
    phases: tuple[int, int],
    formula: str,
    source: str,
) -> Quantity:
    """`phases[0]` times p-1 messages of D/p, of which `phases[1]` times p-1 are added."""
    check_size(nbytes, ranks)
    alpha, beta, gamma = rates
    one = (ranks - 1) / ranks * nbytes
    value = phases[0] * ((ranks - 1) * alpha + one * beta) + phases[1] * one * gamma
    return _quantity(name, value, nbytes, ranks, rates, formula, source)


def _quantity(
    name: str,
    value: float,
    nbytes: int,
    ranks: int,
    rates: tuple[float, float, float],
    formula: str,
    source: str,
) -> Quantity:
    for symbol, rate in zip(("alpha", "beta", "gamma"), rates, strict=True):
        if not 0 <= rate < float("inf"):
            raise ValueError(f"{symbol}={rate!r}: give seconds (a byte), from 0 on")
    nothing = ranks == 1 or nbytes == 0
    return Quantity(0.0 if nothing else float(value), "s", formula, source, name=name, ranks=ranks)
