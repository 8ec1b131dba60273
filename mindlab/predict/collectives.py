"""How many bytes each rank sends in a collective, one function for each textbook algorithm.

All take `f(nbytes, ranks, *, itemsize=None)`; see `volume`, through which they are reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from mindlab.predict import sources
from mindlab.predict.chunks import check_size, cut
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import sent
from mindlab.predict.trees import ceil_log2, children, floor_log2

_ONE_PHASE = r"\frac{p-1}{p}\,D"
_TWO_PHASES = r"2\,\frac{p-1}{p}\,D"


def ring_reduce_scatter(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a ring reduce-scatter: (p-1)/p D. D is the tensor before it is scattered.

    Every rank passes on each chunk but the one it keeps.

    >>> ring_reduce_scatter(4096, 4).value
    3072
    """
    chunks = cut(nbytes, ranks, itemsize)
    by_rank = [nbytes - own for own in chunks]
    return sent(
        "ring_reduce_scatter", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.THAKUR, itemsize
    )


def ring_all_gather(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a ring all-gather: (p-1)/p D. D is the gathered tensor, not one shard.

    Every rank passes on each chunk but its right neighbour's own.

    >>> ring_all_gather(4096, 4).value
    3072
    """
    chunks = cut(nbytes, ranks, itemsize)
    by_rank = [nbytes - chunks[(rank + 1) % ranks] for rank in range(ranks)]
    return sent("ring_all_gather", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.THAKUR, itemsize)


def ring_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a ring all-reduce: 2(p-1)/p D, a reduce-scatter and an all-gather.

    >>> ring_all_reduce(4096, 4).value
    6144
    """
    chunks = cut(nbytes, ranks, itemsize)
    by_rank = [2 * nbytes - own - chunks[(rank + 1) % ranks] for rank, own in enumerate(chunks)]
    closed = 2 * _one_phase(nbytes, ranks)
    return sent("ring_all_reduce", by_rank, closed, _TWO_PHASES, sources.PATARASUK_YUAN, itemsize)


def halving_doubling_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in an all-reduce by recursive halving and doubling: 2(p-1)/p D, for any p.

    For p = 2^k all ranks send alike. Else, with q the power of two below p, the ranks from q on hand their
    tensor to a partner and get the result back: they send D, their partners D more than 2(q-1)/q D.

    >>> halving_doubling_all_reduce(6144, 3).per_rank
    (12288, 6144, 6144)
    """
    check_size(nbytes, ranks, itemsize)
    core = 2 ** floor_log2(ranks)
    chunks = cut(nbytes, core, itemsize)
    by_rank = [nbytes - own + _doubling(chunks, rank) for rank, own in enumerate(chunks)]
    folded = [held + nbytes * (rank + core < ranks) for rank, held in enumerate(by_rank)]
    folded += [Fraction(nbytes)] * (ranks - core)
    closed = 2 * _one_phase(nbytes, ranks)
    return sent("halving_doubling_all_reduce", folded, closed, _TWO_PHASES, sources.THAKUR, itemsize)


def tree_broadcast(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a binomial-tree broadcast from rank 0: (p-1)/p D on average.

    The root sends ceil(lg p) D, a leaf nothing. For another root, `per_rank` turns with it.

    >>> tree_broadcast(1024, 4).per_rank
    (2048, 1024, 0, 0)
    """
    check_size(nbytes, ranks, itemsize)
    by_rank = [Fraction(nbytes * children(rank, ranks)) for rank in range(ranks)]
    return sent("tree_broadcast", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.THAKUR, itemsize)


def direct_all_to_all(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends if every block goes straight to its owner: (p-1)/p D.

    D is all that one rank hands in, its own block included.

    >>> direct_all_to_all(4096, 4).value
    3072
    """
    by_rank = [nbytes - own for own in cut(nbytes, ranks, itemsize)]
    return sent("direct_all_to_all", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.THAKUR, itemsize)


def bruck_all_to_all(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    r"""Bytes each rank sends in Bruck's all-to-all: D/p times the ones in the binary digits of 0 .. p-1.

    For p = 2^k that is D/2 lg p: more bytes than the direct way, in ceil(lg p) rounds. D is all that one rank
    hands in. A block that has j ranks to go hops once for each one in j's binary digits.

    >>> bruck_all_to_all(4096, 8).value
    6144
    """
    chunks = cut(nbytes, ranks, itemsize)
    by_rank = [_bruck(chunks, rank) for rank in range(ranks)]
    hops = sum(bin(distance).count("1") for distance in range(ranks))
    formula = r"\frac{D}{p}\sum_{j=0}^{p-1}\mathrm{ones}(j)"
    return sent("bruck_all_to_all", by_rank, Fraction(nbytes * hops, ranks), formula, sources.BRUCK, itemsize)


def unchunked_ring_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends if the whole tensor goes round the ring: (p-1) D, p/2 times what is needed.

    At p = 2 it equals the ring in chunks.

    >>> unchunked_ring_all_reduce(4096, 4).value
    12288
    """
    check_size(nbytes, ranks, itemsize)
    by_rank = [Fraction((ranks - 1) * nbytes)] * ranks
    return sent(
        "unchunked_ring_all_reduce", by_rank, by_rank[0], r"(p-1)\,D", sources.PYTORCH_TUTORIAL, itemsize
    )


def root_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends if rank 0 adds everything and sends the result to each: 2(p-1)/p D on average.

    The root alone sends (p-1) D and receives as much; the mean hides it.

    >>> root_all_reduce(1024, 4).per_rank
    (3072, 1024, 1024, 1024)
    """
    check_size(nbytes, ranks, itemsize)
    by_rank = [Fraction(nbytes * (ranks - 1)), *[Fraction(nbytes)] * (ranks - 1)]
    closed = 2 * _one_phase(nbytes, ranks)
    return sent("root_all_reduce", by_rank, closed, _TWO_PHASES, sources.COUNTED_BY_HAND, itemsize)


def root_all_gather(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends if rank 0 gathers the shards and sends the whole to each.

    D is the gathered tensor. The root sends (p-1) D, each other rank its shard.

    >>> root_all_gather(4096, 4).per_rank
    (12288, 1024, 1024, 1024)
    """
    chunks = cut(nbytes, ranks, itemsize)
    by_rank = [Fraction(nbytes * (ranks - 1)), *chunks[1:]]
    closed = sum(by_rank, Fraction(0)) / ranks
    formula = r"\frac{p-1}{p}\left(1+\frac{1}{p}\right)D"
    return sent("root_all_gather", by_rank, closed, formula, sources.COUNTED_BY_HAND, itemsize)


def mesh_reduce_scatter(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a full-mesh reduce-scatter: (p-1)/p D, as the ring, over p-1 links at once.

    >>> mesh_reduce_scatter(4096, 4).value
    3072
    """
    by_rank = [nbytes - own for own in cut(nbytes, ranks, itemsize)]
    return sent(
        "mesh_reduce_scatter", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.HCCL_MESH, itemsize
    )


def mesh_all_gather(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a full-mesh all-gather: (p-1)/p D, as the ring. D is the gathered tensor.

    >>> mesh_all_gather(4096, 4).value
    3072
    """
    by_rank = [(ranks - 1) * own for own in cut(nbytes, ranks, itemsize)]
    return sent(
        "mesh_all_gather", by_rank, _one_phase(nbytes, ranks), _ONE_PHASE, sources.HCCL_MESH, itemsize
    )


def mesh_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends in a full-mesh all-reduce (reduce-scatter, then all-gather): 2(p-1)/p D.

    >>> mesh_all_reduce(4096, 4).value
    6144
    """
    by_rank = [nbytes + (ranks - 2) * own for own in cut(nbytes, ranks, itemsize)]
    closed = 2 * _one_phase(nbytes, ranks)
    return sent("mesh_all_reduce", by_rank, closed, _TWO_PHASES, sources.HCCL_MESH, itemsize)


def one_shot_all_reduce(nbytes: int, ranks: int, *, itemsize: int | None = None) -> Quantity:
    """Bytes each rank sends if everyone sends its whole tensor to everyone: (p-1) D, in one round.

    >>> one_shot_all_reduce(4096, 4).value
    12288
    """
    check_size(nbytes, ranks, itemsize)
    by_rank = [Fraction((ranks - 1) * nbytes)] * ranks
    return sent("one_shot_all_reduce", by_rank, by_rank[0], r"(p-1)\,D", sources.COUNTED_BY_HAND, itemsize)


def _one_phase(nbytes: int, ranks: int) -> Fraction:
    return Fraction(nbytes * (ranks - 1), ranks)


def _doubling(chunks: Sequence[Fraction], rank: int) -> Fraction:
    """What a rank sends while gathering: its block of 1, 2, 4 … chunks."""
    total, width = Fraction(0), 1
    while width < len(chunks):
        first = rank // width * width
        total += sum(chunks[first : first + width], Fraction(0))
        width *= 2
    return total


def _bruck(chunks: Sequence[Fraction], rank: int) -> Fraction:
    """In round k the blocks with digit k in their distance leave; their owner is the upper digits away."""
    ranks, total = len(chunks), Fraction(0)
    for k in range(ceil_log2(ranks)):
        for distance in range(ranks):
            if distance >> k & 1:
                total += chunks[(rank + (distance >> k << k)) % ranks]
    return total
