"""A status board in shared memory: where every rank stands, readable without the rank's help.

A rank writes one row for each call and one state; the notebook's process reads both, also when the rank is
stuck inside the backend, was killed, or crashed. Writing a row costs a few microseconds.

Layout, one slot a rank: a page of 64-bit cells (the state), then ROWS rows. A row is ten cells and a payload
(`marshal`: plain values only, quick, and never run as code) under a checksum. The cells that change while a
call is open carry the row's index, so that a reader never takes a half-written row for a whole one.
All times on the board are `time.monotonic_ns()`: on one host that clock is common to all processes.
"""

from __future__ import annotations

import marshal
import mmap
import os
import struct
import time
import zlib
from _thread import _count as count_threads  # all but the first; threading counts the same, more slowly
from dataclasses import dataclass, field, replace
from typing import Any

from mindlab.trace.row import PAYLOAD, Row, State
from mindlab.trace.shared_file import anonymous_file

ROWS = 256
"""How many rows of the present job a rank keeps."""
PHASES = ("idle", "ready", "running", "done", "failed")

_HEADER = 4096
_ROW = 2048
_CELLS = 10
_SLOT = _HEADER + ROWS * _ROW
_ROOM = _ROW - 8 * _CELLS

# Cells of the state.
_JOB, _PHASE, _SINCE, _COUNT, _STANDING_SINCE, _STANDING = range(6)
# Cells of a row.
_INDEX, _ROW_JOB, _LENGTH, _CHECKSUM, _START, _END, _PEER, _NUMBER, _STATUS, _THREADS = range(10)
_PACK = struct.Struct("@10q").pack_into
_PACK_STANDING = struct.Struct("@3q").pack_into
# What the rank does with a row's call; stored as index * 8 + status.
_INSIDE, _ISSUED, _WAITING, _CLOSED, _FAILED, _DROPPED = range(6)
_UNKNOWN_PEER = -1


class Slot:
    """The part of the board that one rank writes, from one thread at a time.

    Writing is on the way of every call, and between two calls other work has emptied the caches: few steps
    count for more here than plain ones.
    """

    def __init__(self, cells: memoryview, raw: memoryview) -> None:
        self._cells, self._raw = cells, raw
        self._own_threads = 0

    def begin(self, job: int) -> None:
        """Clear the rows and start a job: its phase is "running"."""
        cells = self._cells
        self._own_threads = count_threads()
        cells[_COUNT] = 0
        cells[_JOB] = job
        cells[_STANDING] = -1
        self.phase("running")

    def phase(self, name: str) -> None:
        """Set the phase: one of PHASES."""
        if name not in PHASES:
            raise ValueError(f"phase {name!r}: choose one of {', '.join(PHASES)}")
        self._cells[_SINCE] = time.monotonic_ns()
        self._cells[_PHASE] = PHASES.index(name)

    def enter(self, payload: tuple[Any, ...], *, number: int, peer: int | None, start: int) -> int:
        """The row's number, once it is written. `payload` holds the fields of PAYLOAD; `start` in ns."""
        cells, raw = self._cells, self._raw
        index = cells[_COUNT]
        data = marshal.dumps(payload)
        if len(data) > _ROOM:
            data = _cut(payload)
        byte = _HEADER + (index % ROWS) * _ROW
        body = byte + 8 * _CELLS
        raw[body : body + len(data)] = data
        check = zlib.crc32(data, index & 0xFFFFFFFF)
        peer = _UNKNOWN_PEER if peer is None else peer
        threads = count_threads() - self._own_threads
        # One call for all cells of the row, in the order of _INDEX … _THREADS.
        _PACK(raw, byte, index, cells[_JOB], len(data), check, start, 0, peer, number, index * 8, threads)
        _PACK_STANDING(raw, 8 * _COUNT, index + 1, start, index)
        return int(index)

    def issued(self, index: int) -> None:
        """The call returned and its work goes on."""
        self._status(index, _ISSUED)

    def dropped(self, index: int) -> None:
        """The handle of this row's work is gone, and nobody waited for it."""
        self._status(index, _DROPPED)

    def unnumber(self, index: int) -> None:
        """Nobody can say any more which message this row's receive takes."""
        cells = self._cells
        at = (_HEADER + (index % ROWS) * _ROW) >> 3
        if cells[at + _INDEX] == index:
            cells[at + _NUMBER] = -1

    def waiting(self, index: int) -> None:
        """The rank stands in the wait() of this row's work."""
        at = (_HEADER + (index % ROWS) * _ROW) >> 3
        if self._cells[at + _INDEX] == index:
            self._cells[at + _THREADS] = count_threads() - self._own_threads
        self._cells[_STANDING_SINCE] = time.monotonic_ns()
        self._status(index, _WAITING)
        self._cells[_STANDING] = index

    def leave(
        self,
        index: int,
        *,
        end: int | None = None,
        peer: int | None = None,
        number: int | None = None,
        failed: bool = False,
    ) -> None:
        """Close a row. `peer` and `number` where only the return says them (a receive from any rank)."""
        cells = self._cells
        at = (_HEADER + (index % ROWS) * _ROW) >> 3
        if cells[at] == index:
            cells[at + _END] = time.monotonic_ns() if end is None else end
            if number is not None and peer is not None:
                cells[at + _PEER], cells[at + _NUMBER] = peer, number
            cells[at + _STATUS] = index * 8 + (_FAILED if failed else _CLOSED)
        if cells[_STANDING] == index:
            cells[_STANDING] = -1

    def _status(self, index: int, status: int) -> None:
        cells = self._cells
        at = (_HEADER + (index % ROWS) * _ROW) >> 3
        if cells[at + _INDEX] == index:
            cells[at + _STATUS] = index * 8 + status
        if cells[_STANDING] == index:
            cells[_STANDING] = -1


@dataclass
class _Seen:
    """What a reader already knows of one rank's rows: closed rows are not read twice."""

    job: int = -1
    rows: dict[int, Row] = field(default_factory=dict)


class Board:
    """A slot for each rank. One process creates it; the others attach to its file descriptor."""

    def __init__(self, fd: int, ranks: int) -> None:
        self.fd, self.ranks = fd, ranks
        self._map = mmap.mmap(fd, ranks * _SLOT)
        self._raw = memoryview(self._map)
        self._parts = [self._raw[rank * _SLOT : (rank + 1) * _SLOT] for rank in range(ranks)]
        self._cells = [part.cast("q") for part in self._parts]
        self._seen = [_Seen() for _ in range(ranks)]

    @classmethod
    def create(cls, ranks: int) -> Board:
        """A new board, all ranks "idle". Its memory has no file name and ends with its users."""
        fd = anonymous_file(ranks * _SLOT)
        board = cls(fd, ranks)
        for cells in board._cells:
            cells[_STANDING] = -1
            cells[_SINCE] = time.monotonic_ns()
        return board

    @classmethod
    def attach(cls, fd: int, ranks: int) -> Board:
        """The board behind a file descriptor that another process handed over."""
        return cls(fd, ranks)

    def slot(self, rank: int) -> Slot:
        """The part that this rank writes."""
        return Slot(self._cells[rank], self._parts[rank])

    def state(self, rank: int) -> State:
        """What the rank is doing as a whole."""
        cells = self._cells[rank]
        phase = cells[_PHASE]
        return State(
            phase=PHASES[phase] if 0 <= phase < len(PHASES) else "failed",
            since=cells[_SINCE] / 1e9,
            job=cells[_JOB],
            last_index=cells[_COUNT] - 1,
            standing=cells[_STANDING],
            standing_since=cells[_STANDING_SINCE] / 1e9,
        )

    def rows(self, rank: int) -> list[Row]:
        """The last calls of the rank's present job, oldest first, at most ROWS; without unreadable ones."""
        cells, seen = self._cells[rank], self._seen[rank]
        job, count = cells[_JOB], cells[_COUNT]
        known = seen.rows if seen.job == job else {}
        rows: dict[int, Row] = {}
        for index in range(max(0, count - ROWS), count):
            row = known.get(index)
            if row is None or row.end is None:
                row = self._row(rank, index, job, row)
            if row is not None:
                rows[index] = row
        seen.job, seen.rows = job, rows
        return list(rows.values())

    def forget(self) -> None:
        """Read every row anew the next time, also those that were closed."""
        self._seen = [_Seen() for _ in range(self.ranks)]

    def waits(self, seconds: float) -> bool:
        """True if a rank has stood inside one call for so long: only then is a fault worth a search."""
        now = time.monotonic()
        states = [self.state(rank) for rank in range(self.ranks)]
        return any(state.standing >= 0 and now - state.standing_since >= seconds for state in states)

    def close(self) -> None:
        """Give the memory and the file descriptor back."""
        if self._map.closed:
            return
        for view in [*self._cells, *self._parts, self._raw]:
            view.release()
        self._map.close()
        os.close(self.fd)

    def _row(self, rank: int, index: int, job: int, known: Row | None) -> Row | None:
        cells = self._cells[rank]
        at = (_HEADER + (index % ROWS) * _ROW) >> 3
        status = cells[at + _STATUS] - index * 8
        if cells[at + _INDEX] != index or cells[at + _ROW_JOB] != job or not 0 <= status <= _DROPPED:
            return None
        closed = status in (_CLOSED, _FAILED)
        moving: dict[str, Any] = {
            "peer": None if cells[at + _PEER] == _UNKNOWN_PEER else cells[at + _PEER],
            "number": cells[at + _NUMBER],
            "blocking": status in (_INSIDE, _WAITING),
            "failed": status == _FAILED,
            "threads": cells[at + _THREADS],
            "dropped": status == _DROPPED,
            "end": cells[at + _END] / 1e9 if closed else None,
        }
        start = cells[at + _START] / 1e9
        still = {} if known is not None else self._still(rank, index)
        if still is None or cells[at + _INDEX] != index:  # the rank wrote another row over it meanwhile
            return None
        return (
            replace(known, **moving)
            if known is not None
            else Row(index=index, start=start, **still, **moving)
        )

    def _still(self, rank: int, index: int) -> dict[str, Any] | None:
        """The fields that never change once the row is written; None if they cannot be read."""
        cells = self._cells[rank]
        byte = _HEADER + (index % ROWS) * _ROW
        at, body = byte >> 3, byte + 8 * _CELLS
        length = cells[at + _LENGTH]
        if not 0 < length <= _ROOM:
            return None
        data = bytes(self._parts[rank][body : body + length])
        if zlib.crc32(data, index & 0xFFFFFFFF) != cells[at + _CHECKSUM]:
            return None
        return dict(zip(PAYLOAD, marshal.loads(data), strict=True))


def _cut(payload: tuple[Any, ...]) -> bytes:
    """A payload that is too long for a row (a deep path, many ranks), cut so that it fits."""
    values = dict(zip(PAYLOAD, payload, strict=True))
    values["file"] = values["file"].replace("\\", "/").rsplit("/", 1)[-1][-100:]
    values["communicator"], values["shape"] = values["communicator"][-100:], values["shape"][:16]
    if len(data := marshal.dumps(tuple(values.values()))) <= _ROOM:
        return data
    for name in ("out_sizes", "in_sizes", "created", "group"):
        values[name] = ()
    return marshal.dumps(tuple(values.values()))


def rows_of(board: Board) -> tuple[list[list[Row]], list[State]]:
    """All rows and states, by rank: what `matching.find_fault` and `matching.where` take."""
    states = [board.state(rank) for rank in range(board.ranks)]
    return [board.rows(rank) for rank in range(board.ranks)], states
