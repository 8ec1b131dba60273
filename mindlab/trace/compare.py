"""Two calls that should be one: what differs, and the sentence for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mindlab.trace import words
from mindlab.trace.calls import CREATIONS, OBJECTS, SAME
from mindlab.trace.ledger import Channel
from mindlab.trace.row import Row

Rows = Mapping[int, Row]


def collective(rows: Rows) -> str:
    """The sentences for one collective call that the ranks make differently; "" if they agree so far."""
    if len(rows) < 2:
        return ""
    for feature, title, advice in _RULES:
        if len({feature(row) for row in rows.values()}) > 1:
            return _told(title, rows, advice)
    wrong = _sizes(rows)
    return _told(wrong, rows, _FIT) if wrong else ""


def message(channel: Channel, sent: Row, taken: Row) -> str:
    """The sentences for a message whose two ends differ; "" if they agree."""
    if (sent.dtype == "object") != (taken.dtype == "object"):
        title = f"{sent.op} on rank {channel.source} meets {taken.op} on rank {channel.to}."
        advice = "Objects go by send_object_list and recv_object_list, tensors by send and recv."
    elif sent.dtype != taken.dtype:
        title = (
            f"rank {channel.source} sends {sent.dtype}, rank {channel.to} receives {taken.dtype}: "
            "the bytes would be read as other numbers."
        )
        advice = f"Make the receive buffer {sent.dtype}, or convert before sending."
    elif sent.dtype == "object" and sent.shape != taken.shape:
        title = (
            f"rank {channel.source} sends {words.data(sent)}, "
            f"rank {channel.to} has a list for {words.data(taken)}."
        )
        advice = "Give the receiving list the length of what is sent."
    elif sent.nbytes != taken.nbytes:
        title = (
            f"rank {channel.source} sends {sent.nbytes} B, rank {channel.to} has room for {taken.nbytes} B: "
            + ("the end of its buffer would stay as it was." if sent.nbytes < taken.nbytes else "too little.")
        )
        advice = f"Give the receive buffer the size of what is sent: {words.data(sent)}."
    else:
        return ""
    lines = [words.full(channel.source, sent), words.full(channel.to, taken)]
    return "\n".join([title, *(f"    {line}" for line in lines), advice])


def swapped(channel: Channel, sent: list[str], taken: list[str]) -> bool:
    """True if both ends name the same tensors in another order: k, v sent and v, k received."""
    if len(sent) != len(taken) or sent == taken or not all(sent) or not all(taken):
        return False
    return len(set(sent)) > 1 and sorted(sent) == sorted(taken)


_FIT = "Every rank must give sizes that fit together; uneven shards are the usual cause."
_ORDER = "Every rank of a group must make the same calls in the same order."
_GROUPS = "Create all groups in the same order on every rank, also those that a rank is not in."

_RULES: tuple[tuple[Callable[[Row], object], str, str], ...] = (
    (lambda row: row.created, "the ranks create their groups in another order.", _GROUPS),
    (lambda row: row.group, "the ranks mean different groups by the same one.", _GROUPS),
    (lambda row: SAME.get(row.op, row.op), "the ranks call different collectives.", _ORDER),
    (lambda row: row.dtype, "the ranks give other dtypes to the same call.", "Convert on every rank alike."),
    (lambda row: row.root, "the ranks name other roots for the same call.", "Give every rank the same root."),
    (lambda row: row.reduction, "the ranks reduce by other operations.", "Give every rank the same op."),
)


def _told(title: str, rows: Rows, advice: str) -> str:
    first = next(iter(rows.values()))
    group = (
        "" if first.op in CREATIONS else f" (call {first.number} of the group of {words.ranks(first.group)})"
    )
    lines = [f"    {words.full(rank, row)}" for rank, row in sorted(rows.items())]
    return "\n".join([f"{title[:-1]}{group}:", *lines, advice])


def _sizes(rows: Rows) -> str:
    """What is wrong with the sizes of one call whose kind all ranks agree on; "" if nothing."""
    op = SAME.get(next(iter(rows.values())).op, next(iter(rows.values())).op)
    if op == "broadcast_object_list":
        return _unequal(rows, lambda row: row.shape, "lists of other lengths")
    if op in OBJECTS or op in CREATIONS or "barrier" in op:
        return ""
    if op == "broadcast":  # the elements keep their order, whatever the shape
        return _unequal(rows, lambda row: row.nbytes, "other sizes")
    if op in ("all_reduce", "all_reduce_coalesced", "reduce"):
        return _unequal(rows, lambda row: (row.nbytes, _plain(row.shape), row.out_sizes))
    if op in ("reduce_scatter", "reduce_scatter_single"):
        return _unequal(rows, lambda row: (row.nbytes, row.out_sizes))
    if op in ("gather", "scatter"):
        return _at_root(rows)
    return _pairwise(rows)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without dimensions of one: () and (1,) are the same data."""
    return tuple(size for size in shape if size != 1)


def _unequal(rows: Rows, feature: Callable[[Row], object], what: str = "other shapes") -> str:
    if len({feature(row) for row in rows.values()}) > 1:
        return f"the ranks give {what} to the same call."
    return ""


def _at_root(rows: Rows) -> str:
    """gather and scatter: what the root expects from or holds for each rank against what that rank has."""
    for rank, row in rows.items():
        root = rows.get(rank if row.root is None else row.root)
        if root is None or rank == row.root:
            continue
        sizes = root.in_sizes if row.op == "gather" else root.out_sizes
        part = _part(root, sizes, rank)
        if part is not None and part != row.nbytes:
            holds = "expects from" if row.op == "gather" else "holds for"
            return f"rank {row.root} {holds} rank {rank} {part} B, but that tensor has {row.nbytes} B."
    return ""


def _pairwise(rows: Rows) -> str:
    """all_gather and all_to_all: what each rank hands to another against what that one expects."""
    for giver, given in rows.items():
        for taker, taken in rows.items():
            out = _part(given, given.out_sizes, taker) if given.out_sizes else given.nbytes
            room = _part(taken, taken.in_sizes, giver)
            if out is not None and room is not None and out != room:
                return f"rank {giver} hands {out} B to rank {taker}, which expects {room} B."
    return ""


def _part(row: Row, sizes: tuple[int, ...], rank: int) -> int | None:
    """The entry of `sizes` for this global rank."""
    if rank not in row.group or row.group.index(rank) >= len(sizes):
        return None
    return sizes[row.group.index(rank)]
