"""The functions of torch.distributed that move data: their kinds, and who gets what in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Members = tuple[int, ...]

SENDS = frozenset({"send", "isend", "send_object_list"})
RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})
CREATIONS = frozenset({"new_group", "split_group"})
OBJECTS = frozenset(
    {
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "send_object_list",
        "recv_object_list",
    }
)
REDUCTIONS = frozenset(
    {
        "all_reduce",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_single",
        "all_reduce_coalesced",
    }
)
# One operation under several names: ranks that use different ones still do the same.
SAME = {
    "all_gather_into_tensor": "all_gather_single",
    "_all_gather_base": "all_gather_single",
    "reduce_scatter_tensor": "reduce_scatter_single",
    "_reduce_scatter_base": "reduce_scatter_single",
}


class Call:
    """What the arguments of one call say. Sizes are bytes, ranks are global."""

    nbytes = 0
    dtype = ""
    shape: tuple[int, ...] = ()
    peer: int | None = None
    root: int | None = None
    tag = 0
    reduction = ""
    out_sizes: tuple[int, ...] = ()
    in_sizes: tuple[int, ...] = ()
    created: tuple[int, ...] = ()
    sent: Sequence[Any] = ()
    """Tensors that this rank hands in."""
    received: Sequence[Any] = ()
    """Tensors that the call fills."""


def transfers(
    op: str,
    ranks: Members,
    me: int,
    *,
    nbytes: int,
    peer: int | None,
    root: int | None,
    out_sizes: Sequence[int],
    in_sizes: Sequence[int],
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """(sends, receives) as (rank, bytes) pairs to and from other ranks; both empty for a reduction.

    What a rank keeps for itself and pairs that carry no byte are left out.
    """
    others = [rank for rank in ranks if rank != me]
    if op in SENDS or op in RECEIVES:
        pair = ((peer, nbytes),) if peer is not None and nbytes else ()
        return (pair, ()) if op in SENDS else ((), pair)
    if op == "broadcast":
        return _rooted(others, me, root, nbytes)
    if op in ("scatter", "gather"):
        return _scattered(op, ranks, me, root, nbytes, out_sizes, in_sizes)
    if op.startswith(("all_to_all", "all_gather", "_all_gather")) and op not in OBJECTS:
        sends = _pairs(ranks, out_sizes or (nbytes,) * len(ranks), me)
        return sends, _pairs(ranks, in_sizes, me)
    return (), ()


def _pairs(ranks: Members, sizes: Sequence[int], me: int) -> tuple[tuple[int, int], ...]:
    return tuple([(rank, size) for rank, size in zip(ranks, sizes, strict=False) if rank != me and size])


def _rooted(
    others: Sequence[int], me: int, root: int | None, nbytes: int
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    if root is None or not nbytes:
        return (), ()
    if root == me:
        return tuple([(rank, nbytes) for rank in others]), ()
    return (), ((root, nbytes),)


def _scattered(
    op: str,
    ranks: Members,
    me: int,
    root: int | None,
    nbytes: int,
    out_sizes: Sequence[int],
    in_sizes: Sequence[int],
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    sizes = _pairs(ranks, out_sizes or in_sizes, me) if root == me else ()
    mine = ((root, nbytes),) if root is not None and root != me and nbytes else ()
    return (sizes, mine) if op == "scatter" else (mine, sizes)
