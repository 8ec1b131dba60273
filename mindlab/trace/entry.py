"""One call while it is recorded, and the process group that it belongs to."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mindlab.trace.calls import RECEIVES, SENDS, Call
from mindlab.trace.places import Place
from mindlab.trace.stated import Mark


class Group:
    """A process group as the recorder knows it."""

    __slots__ = ("name", "ranks")

    def __init__(self, name: str, ranks: tuple[int, ...]) -> None:
        self.name, self.ranks = name, ranks


class Entry:
    """One call while it is recorded."""

    number = 0
    index = -1
    start = 0
    end: int | None = None
    asynchronous = False
    waited = False
    failed = False
    from_any = False
    inner: list[Any] | None = None
    mark: Mark | None = None
    """Where in the program it was waited for."""
    key: tuple[Any, ...] = ()

    def __init__(self, op: str, call: Call, group: Group, place: Place, label: str) -> None:
        self.op, self.call, self.place, self.label = op, call, place, label
        self.group, self.communicator = group.ranks, group.name

    @property
    def is_pair(self) -> bool:
        """Point to point."""
        return self.op in SENDS or self.op in RECEIVES

    @property
    def on_host(self) -> bool:
        """No tensor of the call lies on a card."""
        return all(tensor.is_cpu for tensor in (*self.call.sent, *self.call.received))

    def payload(self) -> tuple[Any, ...]:
        """The fields of board.PAYLOAD."""
        call = self.call
        return (
            self.op, self.group, call.nbytes, call.dtype, call.shape, call.root, call.tag, call.reduction,
            self.asynchronous, self.communicator, call.out_sizes, call.in_sizes, call.created,
            self.place.name, self.place.lineno,
        )  # fmt: skip


def row(entry: Entry, index: int) -> tuple[Any, ...]:
    """The fields of board.Row, in its order."""
    call = entry.call
    end = None if entry.end is None or (entry.asynchronous and not entry.waited) else entry.end / 1e9
    return (
        index, entry.op, entry.group, entry.number, call.nbytes, call.dtype, call.shape, call.peer, call.root,
        call.tag, call.reduction, entry.asynchronous, entry.communicator, call.out_sizes, call.in_sizes,
        call.created, entry.place.name, entry.place.lineno, False, False, entry.start / 1e9, end, 0, False,
    )  # fmt: skip


def inner(entry: Entry) -> tuple[Any, ...]:
    """(bytes, sends, receives) of an object form; () for all others."""
    if not entry.inner:
        return ()
    sends: Counter[int] = Counter()
    receives: Counter[int] = Counter()
    for _, outgoing, incoming in entry.inner:
        sends.update(dict(outgoing))
        receives.update(dict(incoming))
    total = sum(nbytes for nbytes, _, _ in entry.inner)
    return total, tuple(sorted(sends.items())), tuple(sorted(receives.items()))
