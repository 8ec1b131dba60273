"""How many bytes of payload the recorded calls of a rank explain, by the rank that gets them. Pure.

Point to point, and collectives whose arguments say who gets what, are counted; in a tree or a ring the bytes
go as gloo passes them on (see `frames`). Where the kernel saw another number, something moved data that
nobody recorded, or lost some: then no payload is given at all (see `meter`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mindlab.trace import frames
from mindlab.trace.calls import CREATIONS, RECEIVES, SAME, SENDS
from mindlab.trace.record import Record
from mindlab.trace.row import Row

Bytes = Counter[tuple[int, int]]
_REPORT = 4  # bytes of a monitored barrier's messages
_SIZE = 8  # bytes of the number that an object form sends ahead


def by_pair(records: Sequence[Record]) -> Bytes:
    """Bytes by (from, to); what `frames` does not know is left out, and `frames` says so."""
    found: Bytes = Counter()
    for record in records:
        for row, inner in zip(record.rows, record.inner, strict=True):
            if row.failed or record.rank not in row.group:
                continue
            for to, nbytes in outgoing(row, record.rank, inner).items():
                found[record.rank, to] += nbytes
    return found


def outgoing(row: Row, me: int, inner: tuple[Any, ...] = ()) -> Counter[int]:
    """Bytes that rank `me` sends in this call, by the global rank that gets them.

    `inner`: what an object form's own calls moved, as (bytes, sends, receives).
    """
    op, size = SAME.get(row.op, row.op), len(row.group)
    if op in SENDS:
        nbytes = inner[0] if inner else row.nbytes
        return Counter({row.peer: nbytes} if row.peer is not None else {})
    if op in RECEIVES or op in CREATIONS or size == 1 or op == "barrier":
        return Counter()
    place = row.group.index(me)
    root = row.group.index(row.root) if row.root in row.group else 0
    sent = _object(op, size, place, root, row, inner) if inner else _tensors(op, size, place, root, row)
    return Counter({row.group[to]: nbytes for to, nbytes in sent.items()})


def _tensors(op: str, size: int, place: int, root: int, row: Row) -> Counter[int]:
    if op in ("all_reduce", "all_reduce_coalesced", "reduce_scatter_single"):
        return _all_reduce(size, place, row.nbytes, row.dtype)
    if op == "reduce_scatter":
        total: Counter[int] = Counter()
        for nbytes in row.out_sizes:
            total.update(_all_reduce(size, place, nbytes, row.dtype))
        return total
    if op == "reduce":
        return _reduce(size, place, root, row)
    if op.startswith("all_gather"):
        return _ring(size, place, row.nbytes)
    if op == "monitored_barrier":  # everyone reports to the first member, which answers
        return Counter(dict.fromkeys(range(1, size) if place == 0 else [0], _REPORT))
    if op == "broadcast":
        return _tree(size, place, root, row.nbytes)
    if op == "gather":
        return Counter({root: row.nbytes} if place != root else {})
    if op == "scatter":
        sizes = row.out_sizes if place == root else ()
        return Counter({to: nbytes for to, nbytes in enumerate(sizes) if to != root})
    return Counter({to: nbytes for to, nbytes in enumerate(row.out_sizes) if to != place})


def _object(op: str, size: int, place: int, root: int, row: Row, inner: tuple[Any, ...]) -> Counter[int]:
    total, sends, _ = inner
    if op == "all_gather_object":
        return _ring(size, place, total)
    if op == "broadcast_object_list":
        return _tree(size, place, root, total)
    if op == "gather_object":
        found = _ring(size, place, _SIZE)
        found.update({root: total - _SIZE} if place != root else {})
        return found
    found = _tree(size, place, root, _SIZE)  # scatter_object_list: the tree's bytes are among the sends, too
    if place == root:
        found.update({row.group.index(to): nbytes - _SIZE for to, nbytes in sends})
    return found


def _ring(size: int, place: int, nbytes: int) -> Counter[int]:
    return Counter({(place + 1) % size: (size - 1) * nbytes})


def _tree(size: int, place: int, root: int, nbytes: int) -> Counter[int]:
    edges = frames.binomial(size, root)
    return Counter({to: count * nbytes for (source, to), count in edges.items() if source == place})


def _all_reduce(size: int, place: int, nbytes: int, dtype: str) -> Counter[int]:
    if not nbytes:
        return Counter()
    cut = frames.all_reduce_cut(size, nbytes, dtype)
    count = cut.segments - cut.each
    both = sum(_held(cut, first * cut.each, count, nbytes) for first in (place + 1, place))
    return Counter({(place - 1) % size: both})


def _reduce(size: int, place: int, root: int, row: Row) -> Counter[int]:
    if not row.nbytes:
        return Counter()
    cut = frames.reduce_cut(size, row.nbytes, row.dtype)
    found = Counter({(place - 1) % size: _held(cut, (place + 1) * cut.each, cut.segments - 2, row.nbytes)})
    if place != root:
        found[root] += _held(cut, place * cut.each, cut.each, row.nbytes)
    return found


def _held(cut: frames.Cut, first: int, count: int, nbytes: int) -> int:
    """Bytes in `count` segments from `first` on (around the ring)."""
    starts = (((first + step) % cut.segments) * cut.length for step in range(count))
    return sum(min(cut.length, nbytes - start) for start in starts if start < nbytes)
