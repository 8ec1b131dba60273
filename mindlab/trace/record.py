"""What one rank brings home from an experiment: plain data, ready to travel."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from mindlab.trace.calls import CREATIONS, transfers
from mindlab.trace.events import Event
from mindlab.trace.row import Row
from mindlab.trace.stated import Work

_ROW_FIELDS = tuple(entry.name for entry in fields(Row))


@dataclass
class Record:
    """The calls of one rank, in order, with what a reader must know about them.

    It travels as tuples; `rows` and `events` are built once, when they are first looked at.
    """

    rank: int
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    """One tuple a call: the fields of Row, then label, code, argument, and the bytes of an object form."""
    origin: float = 0.0
    """Second 0 of the experiment, on `time.monotonic()`."""
    notes: list[str] = field(default_factory=list)
    guarded: bool = True
    stated: list[tuple[Any, ...]] = field(default_factory=list)
    """The fields of Work but the rank, one tuple a work, in order."""
    waits: list[int | None] = field(default_factory=list)
    """Event by event, how many events and works came before its wait(); empty where nobody kept it."""

    @cached_property
    def rows(self) -> list[Row]:
        """All calls as the board would hold them, group creations too."""
        return [Row(*call[: len(_ROW_FIELDS)]) for call in self.calls]

    @property
    def arguments(self) -> list[str]:
        """How the person wrote the tensor of each call ("k"); "" where it cannot be told."""
        return [call[len(_ROW_FIELDS) + 2] for call in self.calls]

    @property
    def inner(self) -> list[tuple[Any, ...]]:
        """(bytes, sends, receives) of the calls inside each object form; () for all other calls."""
        return [call[len(_ROW_FIELDS) + 3] for call in self.calls]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The groups that this rank helped to create, in order, as global ranks."""
        return [row.created for row in self.rows if row.op in CREATIONS]

    @cached_property
    def events(self) -> list[Event]:
        """One row a call that moves data (group creations are none)."""
        events: list[Event] = []
        for row, call in zip(self.rows, self.calls, strict=True):
            if row.op not in CREATIONS:
                label, code, _, inner = call[len(_ROW_FIELDS) :]
                events.append(self._event(row, len(events), label, code, inner))
        return events

    @property
    def work(self) -> list[Work]:
        """What the rank's code stated that it computed, in order."""
        return [Work(self.rank, *fields) for fields in self.stated]

    def _event(self, row: Row, index: int, label: str, code: str, inner: Any) -> Event:
        nbytes = row.nbytes
        if inner:
            nbytes, sends, receives = inner
        else:
            sends, receives = transfers(
                row.op,
                row.group,
                self.rank,
                nbytes=nbytes,
                peer=row.peer,
                root=row.root,
                out_sizes=row.out_sizes,
                in_sizes=row.in_sizes,
            )
        return Event(
            rank=self.rank,
            index=index,
            op=row.op,
            group=row.group,
            nbytes=nbytes,
            dtype=row.dtype,
            start=row.start - self.origin,
            end=None if row.end is None else row.end - self.origin,
            peer=row.peer,
            root=row.root,
            shape=row.shape,
            tag=row.tag,
            reduction=row.reduction,
            asynchronous=row.asynchronous,
            label=label,
            line=row.line,
            code=code,
            sends=sends,
            receives=receives,
            waited=self.waits[index] if self.waits else None,
        )
