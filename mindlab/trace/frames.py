"""How many messages gloo sends for each call, from member to member of a group.

Only the number of messages is modelled here, because each costs 96 bytes at its sender and 48 at its receiver
on top of its payload; the bytes themselves are always the kernel's. The patterns are gloo's (allreduce.cc,
reduce.cc, allgather.cc, broadcast.cc … of github.com/facebookincubator/gloo, and torch's ProcessGroupGloo),
and each was compared with the counters for 2 to 5 ranks on torch 2.13. Members are numbered by their place
in the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mindlab.trace.calls import CREATIONS, RECEIVES, SAME, SENDS
from mindlab.trace.row import Row

HEADER = 96
"""Bytes that a message costs its sender beside the payload: "ready to send", and the message's own header."""
ANSWER = 48
"""Bytes that a message costs its receiver: "ready to receive"."""
GREETING = 8
"""Bytes that the connecting side of a new connection sends."""

_SEGMENT = 1024 * 1024
_PARTS = {
    "all_gather_object": ("all_gather", "all_gather"),
    "gather_object": ("all_gather", "gather"),
    "broadcast_object_list": ("broadcast", "broadcast"),
    "scatter_object_list": ("broadcast", "scatter", "scatter"),
}
"""The object forms, by what they call inside: sizes first, then the pickled bytes."""

Messages = Counter[tuple[int, int]]


def messages(row: Row) -> Messages | None:
    """(from, to) in global ranks -> messages of the whole collective that `row` is one rank's side of.

    None for a call whose pattern is not known. Point to point and group creations send nothing here.
    """
    if row.op in CREATIONS or row.op in SENDS or row.op in RECEIVES:
        return Counter()
    places = _pattern(row)
    if places is None:
        return None
    group = row.group
    return Counter({(group[source], group[to]): count for (source, to), count in places.items()})


def of_message(row: Row) -> int:
    """How many messages one send is: a list of objects goes as sizes and bytes."""
    return 2 if row.dtype == "object" else 1


def _pattern(row: Row) -> Messages | None:
    size = len(row.group)
    op = SAME.get(row.op, row.op)
    root = row.group.index(row.root) if row.root in row.group else 0
    if size == 1:
        return Counter()
    if op in _PARTS:
        total: Messages = Counter()
        for part in _PARTS[op]:
            total.update(_simple(part, size, root, nbytes=1))
        return total
    if op in ("all_reduce", "all_reduce_coalesced", "reduce_scatter_single"):
        return _all_reduce(size, row.nbytes, row.dtype)
    if op == "reduce_scatter":  # one all-reduce for each part
        total = Counter()
        for nbytes in row.out_sizes:
            total.update(_all_reduce(size, nbytes, row.dtype))
        return total
    if op == "reduce":
        return _reduce(size, row.nbytes, row.dtype, root)
    if op in ("all_gather", "all_gather_single", "all_gather_coalesced"):
        return _simple("all_gather", size, root, row.nbytes)
    return _simple(op, size, root, row.nbytes) if op in _SIMPLE else None


_SIMPLE = {
    "broadcast",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "monitored_barrier",
}


def _simple(op: str, size: int, root: int, nbytes: int) -> Messages:
    """The patterns that do not depend on the size, but for an all_gather of nothing."""
    others = [place for place in range(size) if place != root]
    if op == "all_gather":  # a ring, each block in two halves
        return Counter({(place, (place + 1) % size): 2 * (size - 1) for place in range(size) if nbytes})
    if op == "broadcast":
        return binomial(size, root)
    if op == "gather":
        return Counter({(place, root): 1 for place in others})
    if op == "scatter":
        return Counter({(root, place): 1 for place in others})
    if op.startswith("all_to_all"):
        return Counter({(source, to): 1 for source in range(size) for to in range(size) if source != to})
    if op == "barrier":  # dissemination: to the neighbour at distance 1, 2, 4 …
        steps = [1 << bit for bit in range((size - 1).bit_length())]
        return Counter({(place, (place + step) % size): 1 for place in range(size) for step in steps})
    assert op == "monitored_barrier", op  # everyone reports to the first member, which answers
    return Counter({pair: 1 for place in range(1, size) for pair in ((place, 0), (0, place))})


def binomial(size: int, root: int) -> Messages:
    """The tree of a broadcast: one message for each (parent, child)."""
    found: Messages = Counter()
    for virtual in range(1, size):
        parent = virtual - (1 << (virtual.bit_length() - 1))
        found[(parent + root) % size, (virtual + root) % size] += 1
    return found


class Cut(NamedTuple):
    """How gloo cuts a buffer for its ring: segments of `length` bytes, `each` of them for every member."""

    segments: int
    length: int
    each: int


def all_reduce_cut(size: int, nbytes: int, dtype: str) -> Cut:
    """Segments of at most 1 MiB, at least two a member."""
    item = _item(dtype)
    longest = item * max(1, _SEGMENT // item)
    segments = _up(max(-(-nbytes // longest), 2 * size), size)
    return Cut(segments, _up(-(-nbytes // segments), item), segments // size)


def reduce_cut(size: int, nbytes: int, dtype: str) -> Cut:
    """The same for a reduce, which rounds in another order."""
    item = _item(dtype)
    length = _up(min(-(-nbytes // (2 * size)), item * (_SEGMENT // item)), item)
    segments = _up(max(-(-nbytes // length), 2 * size), size)
    return Cut(segments, length, segments // size)


def _all_reduce(size: int, nbytes: int, dtype: str) -> Messages:
    """A ring of reduce-scatter and all-gather, towards the smaller rank."""
    if not nbytes:
        return Counter()
    segments, length, each = all_reduce_cut(size, nbytes, dtype)
    found: Messages = Counter()
    for place in range(size):
        for first in (place + 1, place):
            found[place, (place - 1) % size] += _filled(
                first * each, segments - each, segments, length, nbytes
            )
    return found


def _reduce(size: int, nbytes: int, dtype: str, root: int) -> Messages:
    """The ring of a reduce-scatter (two segments short of a whole turn), then every chunk to the root."""
    if not nbytes:
        return Counter()
    segments, length, each = reduce_cut(size, nbytes, dtype)
    found: Messages = Counter()
    for place in range(size):
        count = _filled((place + 1) * each, segments - 2, segments, length, nbytes)
        found[place, (place - 1) % size] += count
        if place != root and place * each * length < nbytes:
            found[place, root] += 1
    return found


def _filled(first: int, count: int, segments: int, length: int, nbytes: int) -> int:
    """How many of `count` segments from `first` on (around the ring) hold a byte: others are not sent."""
    return sum(((first + step) % segments) * length < nbytes for step in range(count))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _item(dtype: str) -> int:
    """Bytes of one element as gloo counts them: a complex number is two real ones."""
    digits = "".join(character for character in dtype.split("_")[0] if character.isdigit())
    if dtype.startswith("complex"):
        return int(digits) // 16
    return max(1, int(digits) // 8) if digits else 1


def of_experiment(rows: Sequence[Sequence[Row]]) -> tuple[Messages, dict[tuple[int, int], set[str]]]:
    """(messages, unknown): messages by (from, to), and the calls whose messages cannot be told, by pair.

    `rows` are all calls by rank; each collective is counted once, by the first rank that made it.
    """
    found: Messages = Counter()
    unknown: dict[tuple[int, int], set[str]] = {}
    met: set[tuple[str, int]] = set()
    for rank, mine in enumerate(rows):
        for row in mine:
            if row.op in SENDS and row.peer is not None:
                found[rank, row.peer] += of_message(row)
            if row.op in SENDS or row.op in RECEIVES or (row.communicator, row.number) in met:
                continue
            met.add((row.communicator, row.number))
            counted = messages(row)
            if counted is not None:
                found.update(counted)
                continue
            for pair in ((a, b) for a in row.group for b in row.group if a != b):
                unknown.setdefault(pair, set()).add(row.op)
    return found, unknown
