"""How many rounds each algorithm takes: steps in a row, in each of which a rank sends at most one message.

Same names and arguments as `volume`, less `itemsize`. An empty message is not sent, so an empty tensor takes
0 rounds; any other size takes all of them, also where some chunks are empty. In the full-mesh forms a rank
sends to all others at once, one message a link, and a round is one message on each link. In ring attention
keys and values count as one message.
"""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.chunks import check_size
from mindlab.predict.heads import heads_per_rank
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole, times
from mindlab.predict.trees import ceil_log2, floor_log2


def ring_reduce_scatter(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a ring reduce-scatter: p - 1."""
    return _rounds("ring_reduce_scatter", nbytes, ranks, ranks - 1, "p-1", sources.THAKUR)


def ring_all_gather(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a ring all-gather: p - 1."""
    return _rounds("ring_all_gather", nbytes, ranks, ranks - 1, "p-1", sources.THAKUR)


def ring_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a ring all-reduce: 2(p - 1), the two rings one after the other."""
    return _rounds("ring_all_reduce", nbytes, ranks, 2 * (ranks - 1), "2(p-1)", sources.PATARASUK_YUAN)


def halving_doubling_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of recursive halving and doubling: 2 lg p; 2 floor(lg p) + 2 where p is no power of two."""
    check_size(nbytes, ranks)
    fold = 2 if ranks & (ranks - 1) else 0
    formula = r"2\lfloor\log_2 p\rfloor + 2" if fold else r"2\log_2 p"
    count = 2 * floor_log2(ranks) + fold
    return _rounds("halving_doubling_all_reduce", nbytes, ranks, count, formula, sources.THAKUR)


def tree_broadcast(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a binomial-tree broadcast: ceil(lg p)."""
    check_size(nbytes, ranks)
    formula = r"\lceil\log_2 p\rceil"
    return _rounds("tree_broadcast", nbytes, ranks, ceil_log2(ranks), formula, sources.THAKUR)


def direct_all_to_all(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a pairwise all-to-all: p - 1, one partner a round."""
    return _rounds("direct_all_to_all", nbytes, ranks, ranks - 1, "p-1", sources.THAKUR)


def bruck_all_to_all(nbytes: int, ranks: int) -> Quantity:
    """Rounds of Bruck's all-to-all: ceil(lg p)."""
    check_size(nbytes, ranks)
    return _rounds(
        "bruck_all_to_all", nbytes, ranks, ceil_log2(ranks), r"\lceil\log_2 p\rceil", sources.BRUCK
    )


def unchunked_ring_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a ring that passes the whole tensor on: p - 1."""
    return _rounds("unchunked_ring_all_reduce", nbytes, ranks, ranks - 1, "p-1", sources.PYTORCH_TUTORIAL)


def root_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a reduction at a root and a broadcast: 2(p - 1), one message at a time at the root."""
    return _rounds("root_all_reduce", nbytes, ranks, 2 * (ranks - 1), "2(p-1)", sources.COUNTED_BY_HAND)


def root_all_gather(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a gather at a root and a broadcast from it: 2(p - 1), one message at a time at the root."""
    return _rounds("root_all_gather", nbytes, ranks, 2 * (ranks - 1), "2(p-1)", sources.COUNTED_BY_HAND)


def mesh_reduce_scatter(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a full-mesh reduce-scatter: 1, on all links at once."""
    return _rounds("mesh_reduce_scatter", nbytes, ranks, int(ranks > 1), "1", sources.HCCL_MESH)


def mesh_all_gather(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a full-mesh all-gather: 1, on all links at once."""
    return _rounds("mesh_all_gather", nbytes, ranks, int(ranks > 1), "1", sources.HCCL_MESH)


def mesh_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of a full-mesh all-reduce (reduce-scatter, then all-gather): 2."""
    return _rounds("mesh_all_reduce", nbytes, ranks, 2 * int(ranks > 1), "2", sources.HCCL_MESH)


def one_shot_all_reduce(nbytes: int, ranks: int) -> Quantity:
    """Rounds of an all-reduce in which everyone sends all it has to everyone: 1, on all links at once."""
    return _rounds("one_shot_all_reduce", nbytes, ranks, int(ranks > 1), "1", sources.COUNTED_BY_HAND)


def tensor_parallel(tokens: int, hidden: int, ranks: int, *, all_reduces: int = 2) -> Quantity:
    """Rounds of a tensor-parallel layer: 2(p - 1) for each ring all-reduce."""
    check_whole(0, tokens=tokens, all_reduces=all_reduces)
    check_whole(1, hidden=hidden)
    count = all_reduces * 2 * (ranks - 1)
    formula = rf"{times(all_reduces)}2(p-1)"
    return _rounds("tensor_parallel", tokens * hidden, ranks, count, formula, sources.SHOEYBI)


def sequence_parallel(batch: int, sequence: int, hidden: int, ranks: int, *, pairs: int = 2) -> Quantity:
    """Rounds of a sequence-parallel layer: 2(p - 1) for each pair of ring all-gather and reduce-scatter."""
    check_whole(0, batch=batch, sequence=sequence, pairs=pairs)
    check_whole(1, hidden=hidden)
    count, nbytes = pairs * 2 * (ranks - 1), batch * sequence * hidden
    return _rounds("sequence_parallel", nbytes, ranks, count, rf"{times(pairs)}2(p-1)", sources.KORTHIKANTI)


def ring_attention(batch: int, sequence: int, kv_heads: int, head_dim: int, ranks: int) -> Quantity:
    """Rounds of ring attention: p - 1 transfers between p steps of computing."""
    check_whole(1, batch=batch, kv_heads=kv_heads, head_dim=head_dim)
    check_whole(0, sequence=sequence)
    return _rounds("ring_attention", sequence, ranks, ranks - 1, "p-1", sources.LIU)


def ulysses_attention(
    batch: int, sequence: int, heads: int, kv_heads: int, head_dim: int, ranks: int
) -> Quantity:
    """Rounds of Ulysses attention with a pairwise all-to-all: p - 1 for each of q, k, v and the result."""
    check_whole(1, batch=batch, head_dim=head_dim)
    check_whole(0, sequence=sequence)
    heads_per_rank(heads, kv_heads, ranks)
    return _rounds("ulysses_attention", sequence, ranks, 4 * (ranks - 1), "4(p-1)", sources.JACOBS)


def _rounds(name: str, nbytes: int, ranks: int, count: int, formula: str, source: str) -> Quantity:
    check_size(nbytes, ranks)
    return Quantity(count if nbytes else 0, "rounds", formula, source, name=name, ranks=ranks)
