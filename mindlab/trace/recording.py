"""One recording: from `begin` to `end` in one rank."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from mindlab.trace import guards, places
from mindlab.trace.arguments import Reader
from mindlab.trace.arrivals import UNNUMBERED, Arrivals
from mindlab.trace.board import Slot
from mindlab.trace.calls import CREATIONS, OBJECTS, RECEIVES, SENDS, Call, transfers
from mindlab.trace.entry import Entry, Group, inner, row
from mindlab.trace.places import Place
from mindlab.trace.record import Record
from mindlab.trace.stated import amount, events_before
from mindlab.trace.work import RecordedFuture, RecordedWork

_NOTHING = Entry("", Call(), Group("", ()), places.NOWHERE, "")
_PATIENCE = 0.1  # seconds
_MANY = 5  # notes of one kind; more are counted


class Recording:
    """Writes the rows of one rank. A call made inside a recorded call of the same thread is not a row."""

    def __init__(self, slot: Slot | None, rank: int, origin: float, guarded: bool) -> None:
        self.slot, self.rank, self.origin, self.guarded = slot, rank, origin, guarded
        self.entries: list[Entry] = []
        self.stated: list[tuple[Any, ...]] = []
        """(entries before it, flop, nbytes, what, label) of each work that the code stated."""
        self.notes: list[str] = []
        self.label = ""
        self.inside: dict[int, Entry | None] = {}
        """Thread -> the call that it stands in; None inside a call of an object form."""
        self.places: dict[int, list[Place]] = {}
        """Thread -> the places of the P2POps that a batch is about to issue."""
        self.counts: Counter[tuple[Any, ...]] = Counter()
        self.arrivals = Arrivals(self.counts)
        self.groups: dict[Any, Group] = {}

    def call(
        self,
        op: str,
        reader: Reader,
        names: Sequence[str],
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What `original` returns, after a row was written for it."""
        outer = self.inside.get(get_ident(), _NOTHING)
        if outer is None or (outer is not _NOTHING and outer.op not in OBJECTS):
            return original(*args, **kwargs)
        bound = dict(zip(names, args, strict=False))
        bound.update(kwargs)
        if outer is not _NOTHING:
            return self._run_inner(outer, op, reader, bound, lambda: original(*args, **kwargs))
        entry = self._read(op, reader, bound)
        if entry is None:
            return original(*args, **kwargs)
        return self._run(entry, original, args, kwargs)

    def batch(self, original: Callable[..., Any], ops: Any) -> Any:
        """What batch_isend_irecv returns: each isend and irecv in it is a row, with its P2POp's line."""
        thread = get_ident()
        here = places.find(sys._getframe(2))
        spots = [getattr(op, "_mindlab_place", here) for op in ops] if isinstance(ops, list) else []
        if self.guarded:
            for op, spot in zip(ops, spots, strict=False):
                guards.refuse_strided(op.op.__name__, (op.tensor,), spot)
        first = len(self.entries)
        self.places[thread] = spots
        try:
            works = original(ops)
        finally:
            self.places.pop(thread, None)
        loose = [entry for entry in self.entries[first:] if entry.asynchronous and entry.index >= 0]
        if works and not isinstance(works[0], RecordedWork):  # one work for the whole batch (nccl, hccl)
            buffers = [
                guards.watch(e.op, e.call.sent, e.call.received) if self.guarded else [] for e in loose
            ]
            return [RecordedWork(self, list(zip(loose, buffers, strict=True)), work) for work in works]
        return works

    def compute(self, flop: Any, nbytes: Any, what: Any) -> None:
        """Keep a work that the code stated; a note where it is no amount of work."""
        amounts = amount(flop), amount(nbytes)
        if None in amounts:
            line = f"compute({flop!r}, {nbytes!r}) was not recorded: give numbers from 0 on"
            if line not in self.notes:
                self.notes.append(line)
        else:
            self.stated.append((len(self.entries), *amounts, str(what), self.label))

    def close(self, entry: Entry, end: int, failed: bool = False) -> None:
        """The call of this entry is over."""
        entry.end, entry.failed = end, failed
        entry.call.sent = entry.call.received = ()  # the record must not keep the person's tensors alive
        peer = number = None
        if entry.op in RECEIVES:
            (self.arrivals.failed if failed else self.arrivals.over)(entry)
            peer = entry.call.peer
            number = entry.number if peer is not None else None
        if self.slot is not None:
            self.slot.leave(entry.index, end=end, peer=peer, number=number, failed=failed)

    def waited_twice(self, entry: Entry) -> None:
        """Note a second wait() on a message; without MindLab it would never return."""
        line = (
            f"rank {self.rank}: {entry.op} ({entry.place.words}) was waited for twice; the second wait() was "
            "left out: gloo stands still in it"
        )
        if line not in self.notes[-_MANY:]:
            self.notes.append(line)

    def group_of(self, given: Any) -> Group | None:
        """The group of a call; None if this rank is not in it (torch then only warns)."""
        found = self.groups.get(given)
        if found is None:
            from torch.distributed import distributed_c10d as c10d

            group = c10d._get_default_group() if given is None else given
            if not isinstance(group, c10d.ProcessGroup):
                return None
            ranks = tuple(c10d.get_process_group_ranks(group))
            found = self.groups[given] = Group(str(getattr(group, "group_name", id(group))), ranks)
        return found

    def finish(self) -> Record:
        """The record; what nobody waited for is said."""
        self._await_callbacks()
        self.slot = None  # a work that is waited for later must not touch the next experiment's rows
        record = Record(self.rank, origin=self.origin, notes=self.notes, guarded=self.guarded)
        if not self.guarded:
            record.notes.append("guards were off")
        entries = [entry for entry in self.entries if not entry.failed]
        left = [
            f"{e.op} ({e.place.words})" for e in entries if e.asynchronous and (not e.waited or e.end is None)
        ]
        self._note_left(left)
        texts: dict[Place, tuple[str, str]] = {}
        for index, entry in enumerate(entries):
            if entry.place not in texts:
                texts[entry.place] = (places.text(entry.place), places.argument(entry.place))
            code, argument = texts[entry.place]
            argument = argument if entry.is_pair else ""
            record.calls.append((*row(entry, index), entry.label, code, argument, inner(entry)))
        before = events_before(self.entries)
        record.stated = [(before[entry], *rest) for entry, *rest in self.stated]
        marks = [entry.mark for entry in entries if entry.op not in CREATIONS]
        record.waits = [None if mark is None else before[mark[0]] + mark[1] for mark in marks]
        return record

    def _await_callbacks(self) -> None:
        """Let the backend's threads say when it ended what the person waited for through a future."""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience and any(e.waited and e.end is None for e in self.entries):
            time.sleep(0.001)

    def _note_left(self, left: list[str]) -> None:
        for line, count in list(Counter(left).items())[:_MANY]:
            times = f" ({count} times)" if count > 1 else ""
            self.notes.append(f"rank {self.rank}: nobody waited for {line}{times}; when it ended is unknown")
        if len(set(left)) > _MANY:
            self.notes.append(f"rank {self.rank}: … and for {len(set(left)) - _MANY} more calls")

    def _read(self, op: str, reader: Reader, bound: dict[str, Any]) -> Entry | None:
        """The entry of a call that the guards let pass; None if it cannot be read (torch then says why)."""
        group = self.group_of(bound.get("parent_pg" if op in CREATIONS else "group"))
        if group is None:
            return None
        spots = self.places.get(get_ident()) if self.places else None
        place = spots.pop(0) if spots else places.find(sys._getframe(3))
        try:
            call = reader(bound, group.ranks, self.rank)
        except (KeyError, AttributeError, TypeError, IndexError, ValueError, RuntimeError):
            self.notes.append(f"rank {self.rank}: {op} ({place.words}) was not recorded: unusual arguments")
            return None
        if self.guarded:
            guards.refuse_stranger(op, call.peer, group.ranks, place)
            guards.refuse_strided(op, call.sent, place)
            if call.received is not call.sent:
                guards.refuse_strided(op, call.received, place)
        if op == "new_group" and bound.get("use_local_synchronization"):
            group = Group(f"local {call.created}", call.created)
        elif op in CREATIONS:
            group = Group(f"{op} {group.name}", group.ranks)
        entry = Entry(op, call, group, place, self.label)
        entry.asynchronous = bool(bound.get("async_op")) or op in ("isend", "irecv")
        entry.inner = [] if op in OBJECTS else None
        self._count(entry)
        return entry

    def _count(self, entry: Entry) -> None:
        """Number the call on its channel."""
        name, peer, tag = entry.communicator, entry.call.peer, entry.call.tag
        if entry.op in SENDS:
            entry.key = (name, "s", peer, tag)
        elif entry.op in RECEIVES:
            entry.key = (name, "r", peer, tag)
        else:
            entry.key = (name,)
        entry.number = self._next(entry.key)
        if entry.op in RECEIVES:
            self.arrivals.post(entry, self.slot)

    def _next(self, key: tuple[Any, ...]) -> int:
        number = self.counts[key]
        self.counts[key] = number + 1
        return number

    def _run(
        self, entry: Entry, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        thread = get_ident()
        watched = self.guarded and entry.asynchronous
        call, slot = entry.call, self.slot
        buffers = guards.watch(entry.op, call.sent, call.received) if watched else []
        entry.start = start = time.monotonic_ns()
        if slot is not None:
            entry.index = slot.enter(entry.payload(), number=entry.number, peer=call.peer, start=start)
        else:
            entry.index = len(self.entries)
        self.entries.append(entry)
        self.inside[thread] = entry
        try:
            result = original(*args, **kwargs)
        except BaseException:
            self._undo(entry)
            raise
        finally:
            del self.inside[thread]
        return self._returned(entry, result, buffers)

    def _undo(self, entry: Entry) -> None:
        """The call raised: it moved nothing that counts."""
        self.close(entry, time.monotonic_ns(), failed=True)
        if entry.number in (UNNUMBERED, self.counts[entry.key] - 1):
            self.counts[entry.key] -= 1

    def _returned(self, entry: Entry, result: Any, buffers: list[guards.Buffer]) -> Any:
        if not entry.asynchronous:
            end = time.monotonic_ns()
            if entry.call.peer is None and entry.op in RECEIVES and isinstance(result, int) and result >= 0:
                self.arrivals.learn(entry, result)
            self.close(entry, end)
            return result
        if self.slot is not None:
            self.slot.issued(entry.index)
        if result is None:  # collected by a batch, or this rank is not in the group
            return None
        if hasattr(result, "wait") and not hasattr(result, "get_future"):
            return RecordedFuture(self, [(entry, buffers)], result)
        return RecordedWork(self, [(entry, buffers)], result)

    def _run_inner(
        self, outer: Entry, op: str, reader: Reader, bound: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """What `run` returns, a call inside an object form: its bytes are added to that one's."""
        group = self.group_of(bound.get("group"))
        if group is not None and outer.inner is not None:
            call = reader(bound, group.ranks, self.rank)
            sends, receives = transfers(
                op,
                group.ranks,
                self.rank,
                nbytes=call.nbytes,
                peer=call.peer,
                root=call.root,
                out_sizes=call.out_sizes,
                in_sizes=call.in_sizes,
            )
            outer.inner.append((call.nbytes, sends, receives))
        thread = get_ident()
        self.inside[thread] = None
        try:
            return run()
        finally:
            self.inside[thread] = outer
