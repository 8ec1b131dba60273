"""The status board: read from another process, at any moment, whatever the writer does."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from mindlab.trace import board as boards
from mindlab.trace.board import ROWS, Board
from mindlab.trace.row import PAYLOAD, Row

_FIELDS = {
    "op": "all_reduce",
    "group": (0, 1),
    "nbytes": 16,
    "dtype": "float32",
    "shape": (4,),
    "root": None,
    "tag": 0,
    "reduction": "sum",
    "asynchronous": False,
    "communicator": "0",
    "out_sizes": (),
    "in_sizes": (),
    "created": (),
    "file": "/srv/course/ring.py",
    "lineno": 41,
}


def _payload(**changed):
    return tuple({**_FIELDS, **changed}[name] for name in PAYLOAD)


@pytest.fixture
def board():
    made = Board.create(2)
    yield made
    made.close()


def _enter(slot, number=0, peer=None, **changed):
    return slot.enter(_payload(**changed), number=number, peer=peer, start=time.monotonic_ns())


def test_a_row_comes_back_as_it_was_written(board):
    """Would catch fields that change places on the way, or a row that looks open after it was left."""
    slot = board.slot(1)
    slot.begin(3)
    index = _enter(slot, number=7, peer=0, op="send", tag=5)
    (inside,) = board.rows(1)
    assert inside.blocking and inside.end is None and board.state(1).standing == index
    slot.leave(index)
    (row,) = board.rows(1)
    assert (row.op, row.number, row.peer, row.tag, row.shape) == ("send", 7, 0, 5, (4,))
    assert row.line == "ring.py, line 41" and not row.blocking and row.end >= row.start
    state = board.state(1)
    assert (state.phase, state.job, state.last_index, state.standing) == ("running", 3, 0, -1)
    assert board.rows(0) == [] and board.state(0).phase == "idle"


def test_an_asynchronous_row_blocks_only_inside_wait(board):
    """Would catch a standstill declared while a rank computes beside an open isend."""
    slot = board.slot(0)
    slot.begin(1)
    index = _enter(slot, peer=1, op="isend", asynchronous=True)
    slot.issued(index)
    assert not board.rows(0)[0].blocking and board.state(0).standing == -1
    slot.waiting(index)
    assert board.rows(0)[0].blocking and board.state(0).standing == index
    slot.leave(index, peer=1, number=4)
    assert board.rows(0)[0].number == 4 and board.rows(0)[0].end is not None


def test_old_rows_make_room_and_a_new_job_starts_empty(board):
    """Would catch a reader that mixes laps of the ring, or shows the last job's calls in this one."""
    slot = board.slot(0)
    slot.begin(1)
    for number in range(ROWS + 50):
        slot.leave(_enter(slot, number=number))
    rows = board.rows(0)
    assert [row.number for row in rows] == list(range(50, ROWS + 50)) and ROWS >= 128
    slot.begin(2)
    assert board.rows(0) == []
    _enter(slot, number=0, op="barrier")
    assert [row.op for row in board.rows(0)] == ["barrier"]


def test_a_torn_row_is_left_out(board):
    """Would catch a reader that crashes on, or believes, a row which a killed rank wrote by half."""
    slot = board.slot(0)
    slot.begin(1)
    for number in range(3):
        slot.leave(_enter(slot, number=number))
    at = boards._HEADER + 1 * boards._ROW + 8 * boards._CELLS
    board._parts[0][at + 3 : at + 30] = b"\xff" * 27
    assert [row.number for row in board.rows(0)] == [0, 2]


def test_a_row_that_is_too_long_is_cut_not_lost(board):
    """Would catch a call over many ranks, or from a deep folder, that overwrites the next row or vanishes."""
    slot = board.slot(0)
    slot.begin(1)
    many = tuple(range(1000, 1400))
    slot.leave(_enter(slot, file="/very/deep" * 400 + "/ring.py", group=many, out_sizes=many, in_sizes=many))
    slot.leave(_enter(slot, op="barrier"))
    first, second = board.rows(0)
    assert first.op == "all_reduce" and first.line == "ring.py, line 41" and second.op == "barrier"


def test_a_killed_process_stays_readable():
    """Would catch a board that needs the rank's help: the rank here is gone by SIGKILL inside a call."""
    board = Board.create(1)
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        slot = Board.attach(board.fd, 1).slot(0)
        slot.begin(9)
        _enter(slot, op="barrier")
        os.write(tell, b"x")
        time.sleep(30)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(tell)
    (row,) = board.rows(0)
    assert row.op == "barrier" and row.blocking and board.state(0).job == 9
    assert board.waits(0.0) and not board.waits(3600)
    board.close()


def test_the_board_leaves_no_file_and_no_descriptor():
    """Would catch a leak in /dev/shm, the temporary folder or the descriptor table."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        Board.create(4).close()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


def test_an_unknown_phase_is_refused(board):
    """Would catch a misspelt phase that the watchdog then takes for something else."""
    with pytest.raises(ValueError, match="choose one of"):
        board.slot(0).phase("finished")


def test_every_payload_field_is_a_field_of_a_row():
    """Would catch a field added on one side only."""
    assert set(PAYLOAD) <= set(Row.__dataclass_fields__) and set(PAYLOAD) == set(_FIELDS)


def test_rows_read_while_they_are_overwritten_are_whole(board):
    """Would catch a row whose number is already the next one's: two calls that fit would seem not to."""
    writer = os.fork()
    if writer == 0:
        slot = board.slot(0)
        slot.begin(1)
        for index in range(200_000):
            row = slot.enter(_payload(nbytes=index, lineno=index), number=index, peer=1, start=index)
            if index % 3:
                slot.leave(row, end=index)
        os._exit(0)
    looks = 0
    try:
        while os.waitpid(writer, os.WNOHANG) == (0, 0):
            looks += 1
            for row in board.rows(0):
                assert row.index == row.number == row.nbytes == row.lineno, row
                assert row.end is None or row.end == row.start
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
    assert looks > 3, "the reader never looked while the writer wrote"
