"""How many bytes each rank sends in gloo's own collectives: what the library does, not what a textbook says.

Found with the kernel's counters on loopback; the cuts follow gloo's source (allreduce.cc). They hold for the
gloo inside PyTorch 2.13; another release may choose other algorithms, which the wire then shows.
Arguments as in `volume`: `nbytes` is D, the full tensor; `itemsize` gives each rank's exact bytes.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from mindlab.predict import sources
from mindlab.predict.chunks import check_size, cut
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import sent
from mindlab.predict.trees import children

_LONGEST_SEGMENT = 1024 * 1024
_ONE_PHASE = r"\frac{p-1}{p}\,D"
_TWO_PHASES = r"2\,\frac{p-1}{p}\,D"


def gloo_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's all_reduce: 2(p-1)/p D, a ring towards the left neighbour.

    >>> gloo_all_reduce(40, 4, itemsize=4).per_rank
    (64, 48, 56, 72)
    """
    chunks = _ring_chunks(nbytes, ranks, itemsize)
    by_rank = [2 * nbytes - own - chunks[rank - 1] for rank, own in enumerate(chunks)]
    closed = Fraction(2 * nbytes * (ranks - 1), ranks)
    return sent("gloo_all_reduce", by_rank, closed, _TWO_PHASES, sources.GLOO, itemsize)


def gloo_reduce_scatter(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's reduce_scatter: 2(p-1)/p D, for it is an all_reduce inside.

    Twice the textbook's (p-1)/p D. D is the tensor before it is scattered; ranks must divide its elements.
    `per_rank` is that of reduce_scatter_tensor; the list form runs one all_reduce a chunk: as many bytes in
    more messages.

    >>> gloo_reduce_scatter(4096, 4).value
    6144
    """
    _shard(nbytes, ranks, itemsize)
    return replace(gloo_all_reduce(nbytes, ranks, itemsize=itemsize), name="gloo_reduce_scatter")


def gloo_all_gather(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's all_gather: (p-1)/p D, a ring. D is the gathered tensor.

    >>> gloo_all_gather(4096, 4).value
    3072
    """
    _shard(nbytes, ranks, itemsize)
    closed = Fraction(nbytes * (ranks - 1), ranks)
    return sent("gloo_all_gather", [closed] * ranks, closed, _ONE_PHASE, sources.GLOO, itemsize)


def gloo_all_to_all(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's all_to_all: (p-1)/p D, every block straight to its owner.

    With `itemsize` the blocks are cut as torch.tensor_split cuts (pass them as split sizes).

    >>> gloo_all_to_all(4096, 4).value
    3072
    """
    by_rank = [nbytes - own for own in cut(nbytes, ranks, itemsize)]
    closed = Fraction(nbytes * (ranks - 1), ranks)
    return sent("gloo_all_to_all", by_rank, closed, _ONE_PHASE, sources.GLOO, itemsize)


def gloo_broadcast(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's broadcast from rank 0: a binomial tree, (p-1)/p D on average.

    >>> gloo_broadcast(1024, 4).per_rank
    (2048, 1024, 0, 0)
    """
    check_size(nbytes, ranks, itemsize)
    by_rank = [Fraction(nbytes * children(rank, ranks)) for rank in range(ranks)]
    closed = Fraction(nbytes * (ranks - 1), ranks)
    return sent("gloo_broadcast", by_rank, closed, _ONE_PHASE, sources.GLOO, itemsize)


def gloo_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's reduce to rank 0: a ring reduce-scatter, then every chunk to the root.

    The root sends (p-1)/p D, the others D.

    >>> gloo_reduce(4096, 4).per_rank
    (3072, 4096, 4096, 4096)
    """
    root = _ring_chunks(nbytes, ranks, itemsize)[0]
    by_rank = [nbytes - root, *[Fraction(nbytes)] * (ranks - 1)]
    closed = sum(by_rank, Fraction(0)) / ranks
    formula = r"\frac{p-1}{p}\left(1+\frac{1}{p}\right)D"
    return sent("gloo_reduce", by_rank, closed, formula, sources.GLOO, itemsize)


def gloo_gather(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's gather to rank 0: its shard, D/p, straight to the root.

    D is the gathered tensor, in equal shards.

    >>> gloo_gather(4096, 4).per_rank
    (0, 1024, 1024, 1024)
    """
    shard = Fraction(_shard(nbytes, ranks, itemsize))
    by_rank = [Fraction(0), *[shard] * (ranks - 1)]
    formula = r"\frac{p-1}{p}\,\frac{D}{p}"
    return sent("gloo_gather", by_rank, shard * (ranks - 1) / ranks, formula, sources.GLOO, itemsize)


def gloo_scatter(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in gloo's scatter from rank 0: the root (p-1)/p D, the others nothing.

    D is the tensor before it is scattered, in equal shards.

    >>> gloo_scatter(4096, 4).per_rank
    (3072, 0, 0, 0)
    """
    shard = Fraction(_shard(nbytes, ranks, itemsize))
    by_rank = [shard * (ranks - 1), *[Fraction(0)] * (ranks - 1)]
    formula = r"\frac{p-1}{p}\,\frac{D}{p}"
    return sent("gloo_scatter", by_rank, shard * (ranks - 1) / ranks, formula, sources.GLOO, itemsize)


def _shard(nbytes: int, ranks: int, itemsize: int | None) -> int:
    """The bytes of one of p equal shards; these collectives of gloo take no others."""
    check_size(nbytes, ranks, itemsize)
    step = ranks * (itemsize or 1)
    if nbytes % step:
        raise ValueError(
            f"nbytes={nbytes} does not make {ranks} equal shards: use a multiple of {step}, such as "
            f"{-(-nbytes // step) * step}"
        )
    return nbytes // ranks


def _ring_chunks(nbytes: int, ranks: int, itemsize: int | None) -> list[Fraction]:
    """gloo's chunks: whole segments, at least two a rank, of at most 1 MiB; the last ranks get the rest."""
    check_size(nbytes, ranks, itemsize)
    if itemsize is None:
        return [Fraction(nbytes, ranks)] * ranks
    longest = max(1, _LONGEST_SEGMENT // itemsize) * itemsize
    segments = max(-(-nbytes // longest), 2 * ranks)
    segments = -(-segments // ranks) * ranks
    segment = -(-nbytes // (segments * itemsize)) * itemsize
    chunk = segments // ranks * segment
    return [Fraction(min(chunk, max(0, nbytes - rank * chunk))) for rank in range(ranks)]
