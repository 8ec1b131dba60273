r"""The rest of Huawei's own cost formulas for collectives; reached through `ml.seconds`.

HCCL's guide writes D = alpha + n beta + n gamma for a message of n bytes that is added on arrival. These are
its forms, with p ranks: full mesh, ring, halving and doubling (RHD), non-uniform hierarchical ring (NHR),
pairwise, and the pipeline of two levels. Those that chapters use stand in `seconds` itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindlab.predict.chunks import check_size
from mindlab.predict.quantity import Quantity
from mindlab.predict.trees import ceil_log2, floor_log2

_GUIDE = "HCCL user guide, collective algorithms (hicann/hccl 09300b7, coll_algo_intro/{}.md)"


def mesh_scatter(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh scatter: the root sends a chunk on each link at once.

    >>> mesh_scatter(4000, 4, alpha=1.0, beta=0.001).value
    2.0
    """
    value = alpha + _share(nbytes, ranks) * beta
    return _told(
        "mesh_scatter", value, nbytes, ranks, r"\alpha + \frac{D}{p}\,\beta", "Mesh", alpha, beta, gamma
    )


def mesh_gather(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh gather: as a scatter, the other way."""
    value = alpha + _share(nbytes, ranks) * beta
    return _told(
        "mesh_gather", value, nbytes, ranks, r"\alpha + \frac{D}{p}\,\beta", "Mesh", alpha, beta, gamma
    )


def mesh_broadcast(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh broadcast: scatter, then all-gather."""
    formula = r"2\alpha + 2\,\frac{D}{p}\,\beta"
    value = 2 * alpha + 2 * _share(nbytes, ranks) * beta
    return _told("mesh_broadcast", value, nbytes, ranks, formula, "Mesh", alpha, beta, gamma)


def mesh_reduce(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a full-mesh reduce: reduce-scatter, then gather."""
    formula = r"2\alpha + 2\,\frac{D}{p}\,\beta + \frac{p-1}{p}\,D\,\gamma"
    one = _share(nbytes, ranks)
    value = 2 * (alpha + one * beta) + (ranks - 1) * one * gamma
    return _told("mesh_reduce", value, nbytes, ranks, formula, "Mesh", alpha, beta, gamma)


def ring_broadcast(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a ring broadcast: the whole tensor passed on p-1 times."""
    formula = r"(p-1)\,\alpha + (p-1)\,D\,\beta"
    value = (ranks - 1) * (alpha + nbytes * beta)
    return _told("ring_broadcast", value, nbytes, ranks, formula, "Ring", alpha, beta, gamma)


def halving_doubling_reduce_scatter(
    nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0
) -> Quantity:
    """Seconds of a reduce-scatter by halving. Raises ValueError where p is no power of two."""
    check_size(nbytes, ranks)
    steps = floor_log2(ranks)
    if ranks != 2**steps:
        raise ValueError(f"ranks={ranks} is no power of two: choose {2**steps} or {2 ** (steps + 1)}")
    value = steps * alpha + (ranks - 1) / ranks * nbytes * (beta + gamma)
    formula = r"\log_2 p\,\alpha + \frac{p-1}{p}\,D\,(\beta+\gamma)"
    name = "halving_doubling_reduce_scatter"
    return _told(name, value, nbytes, ranks, formula, "RHD", alpha, beta, gamma)


def nhr_reduce_scatter(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of a reduce-scatter by HCCL's non-uniform hierarchical ring: any p in ceil(lg p) rounds.

    >>> nhr_reduce_scatter(6000, 6, alpha=1.0, beta=0.001).value
    8.0
    """
    one = (ranks - 1) * _share(nbytes, ranks)
    value = ceil_log2(ranks) * alpha + one * (beta + gamma)
    formula = r"\lceil\log_2 p\rceil\,\alpha + \frac{p-1}{p}\,D\,(\beta+\gamma)"
    return _told("nhr_reduce_scatter", value, nbytes, ranks, formula, "NHR", alpha, beta, gamma)


def nhr_all_reduce(nbytes: int, ranks: int, *, alpha: float, beta: float, gamma: float = 0.0) -> Quantity:
    """Seconds of an all-reduce by HCCL's non-uniform hierarchical ring: twice the rounds."""
    one = (ranks - 1) * _share(nbytes, ranks)
    value = 2 * ceil_log2(ranks) * alpha + 2 * one * beta + one * gamma
    formula = r"2\lceil\log_2 p\rceil\,\alpha + 2\,\frac{p-1}{p}\,D\,\beta + \frac{p-1}{p}\,D\,\gamma"
    return _told("nhr_all_reduce", value, nbytes, ranks, formula, "NHR", alpha, beta, gamma)


def pairwise_all_to_all(matrix: Sequence[Sequence[int]], *, alpha: float, beta: float) -> Quantity:
    r"""Seconds of a pairwise all-to-all of unequal blocks: in round k each rank i sends to i + k.

    `matrix[i][j]` are the bytes that rank i has for rank j. A round lasts as long as its largest message.

    >>> pairwise_all_to_all([[0, 3], [1, 0]], alpha=1.0, beta=1.0).value
    4.0
    """
    ranks = len(matrix)
    if any(len(row) != ranks for row in matrix) or any(size < 0 for row in matrix for size in row):
        raise ValueError(f"matrix of {ranks} rows: give as many columns, of bytes from 0 on")
    largest = [max(matrix[i][(i + k) % ranks] for i in range(ranks)) for k in range(1, ranks)]
    value = (ranks - 1) * alpha + sum(largest) * beta
    formula = r"(p-1)\,\alpha + \beta\sum_{k=1}^{p-1}\max_i n(i, i+k)"
    total = sum(map(sum, matrix))
    return _told("pairwise_all_to_all", value, total, ranks, formula, "Pairwise", alpha, beta, 0.0)


def pipeline_all_gather(
    nbytes: int, hosts: int, each: int, *, inside: tuple[float, float], across: tuple[float, float]
) -> Quantity:
    r"""Seconds of an all-gather that passes chunks on between hosts while it spreads the last inside.

    `hosts` of `each` ranks; `inside` and `across` are (alpha, beta) of the links in a host and between hosts.

    >>> pipeline_all_gather(8000, 2, 4, inside=(1.0, 0.001), across=(2.0, 0.002)).value
    6.0
    """
    return _pipelined("pipeline_all_gather", 1, nbytes, hosts, each, inside, across)


def pipeline_reduce_scatter(
    nbytes: int, hosts: int, each: int, *, inside: tuple[float, float], across: tuple[float, float]
) -> Quantity:
    """Seconds of a reduce-scatter in the same pipeline, backwards."""
    return _pipelined("pipeline_reduce_scatter", 1, nbytes, hosts, each, inside, across)


def pipeline_all_reduce(
    nbytes: int, hosts: int, each: int, *, inside: tuple[float, float], across: tuple[float, float]
) -> Quantity:
    """Seconds of an all-reduce: the one pipeline, then the other."""
    return _pipelined("pipeline_all_reduce", 2, nbytes, hosts, each, inside, across)


def _pipelined(
    name: str,
    times: int,
    nbytes: int,
    hosts: int,
    each: int,
    inside: tuple[float, float],
    across: tuple[float, float],
) -> Quantity:
    check_size(nbytes, hosts)
    check_size(nbytes, each)
    one = nbytes / (hosts * each)
    within, between = (alpha + one * beta for alpha, beta in (inside, across))
    value = times * (max(between, within) * (hosts - 1) + within)
    twice = r"2\left(" if times == 2 else ""
    formula = (
        twice + r"\max\left(\frac{D}{p}\beta_{\mathrm{inter}}+\alpha_{\mathrm{inter}},"
        r"\ \frac{D}{p}\beta_{\mathrm{intra}}+\alpha_{\mathrm{intra}}\right)(p_{\mathrm{inter}}-1)"
        r" + \frac{D}{p}\beta_{\mathrm{intra}}+\alpha_{\mathrm{intra}}" + (r"\right)" if twice else "")
    )
    rates = (*inside, *across)
    return _told(name, value, nbytes, hosts * each, formula, "Pipeline", *rates)


def _share(nbytes: int, ranks: int) -> float:
    """D/p, after a look at both."""
    check_size(nbytes, ranks)
    return nbytes / ranks


def _told(
    name: str, value: float, nbytes: int, ranks: int, formula: str, page: str, *rates: float
) -> Quantity:
    check_size(nbytes, ranks)
    for rate in rates:
        if not 0 <= rate < float("inf"):
            raise ValueError(f"{rate!r}: alpha, beta and gamma are seconds (a byte), from 0 on")
    nothing = ranks == 1 or nbytes == 0
    return Quantity(
        0.0 if nothing else float(value), "s", formula, _GUIDE.format(page), name=name, ranks=ranks
    )
