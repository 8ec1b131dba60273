"""Work that the code states, and where calls were waited for: in order, and counted as no event."""

from __future__ import annotations

import doctest
import json
import math
import subprocess
import sys
import zipfile

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError, RankFailed
from mindlab.trace import recorder
from mindlab.trace.stated import Work


def _ring_step():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = torch.ones(3), torch.empty(3)
    recorder.compute(10, nbytes=20, what="before")
    ml.step("turn")
    sent = dist.isend(x, (rank + 1) % ranks)
    taken = dist.irecv(y, (rank - 1) % ranks)
    recorder.compute(100 + rank, what="beside")
    recorder.compute(2.5)
    taken.wait()
    dist.new_group([0, 1])
    recorder.compute(1000, what="after")
    dist.barrier()
    sent.wait()


@pytest.fixture(scope="module")
def run():
    return ml.launch(_ring_step, ranks=3)


def test_work_keeps_its_place_and_is_no_event(run):
    """Would catch work counted among the calls, a creation of a group counted, and rows of another rank."""
    for rank in range(3):
        assert [work for work in run.work if work.rank == rank] == [
            Work(rank, 0, 10, 20, "before", ""),
            Work(rank, 2, 100 + rank, 0, "beside", "turn"),
            Work(rank, 2, 2.5, 0, "", "turn"),
            Work(rank, 2, 1000, 0, "after", "turn"),
        ]
        assert [e.op for e in run.events if e.rank == rank] == ["isend", "irecv", "barrier"]


def test_a_wait_keeps_its_place_between_calls_and_works(run):
    """Would catch a wait that is put before the work that it came after, or at the call itself."""
    waited = {(event.rank, event.op): event.waited for event in run.events}
    for rank in range(3):
        # in order: before, isend, irecv, beside, 2.5 | irecv's wait | after, barrier | isend's wait
        assert waited[rank, "irecv"] == 5 and waited[rank, "isend"] == 7 and waited[rank, "barrier"] is None


def test_every_way_of_waiting_is_seen_and_a_future_is_not_guessed():
    """Would catch the wait of a batch, of a collective or of a poll that leaves no place."""

    def waits():
        rank = dist.get_rank()
        x, y = torch.ones(2), torch.empty(2)
        work = dist.all_reduce(x, async_op=True)
        recorder.compute(1)
        work.wait()
        ops = [dist.P2POp(dist.irecv, y, 1 - rank), dist.P2POp(dist.isend, x, 1 - rank)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            pass
        recorder.compute(1)
        work.wait()
        dist.all_reduce(x, async_op=True).get_future().wait()

    run = ml.launch(waits, ranks=2)
    for rank in range(2):
        assert [event.waited for event in run.events if event.rank == rank] == [2, 4, 4, 5, None]


def test_a_call_that_raised_takes_no_place():
    """Would catch places that are counted by calls which the record leaves out."""

    def fails():
        with ml.expect_error(Exception):
            dist.all_reduce("no tensor")
        with ml.expect_error(Exception):
            dist.broadcast(torch.ones(2), src=7)
        recorder.compute(8)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()

    run = ml.launch(fails, ranks=2)
    assert [(work.rank, work.index) for work in run.work] == [(0, 0), (1, 0)]
    assert [event.waited for event in run.events] == [2, 2]


def test_nothing_is_kept_and_nothing_raises_where_nothing_is_recorded():
    """Would catch attention on one card that fails outside a rank, and a paused block that leaves rows."""
    for odd in (1, -1, math.nan, "many", None, object(), 10**400):
        assert recorder.compute(odd, nbytes=odd, what=odd) is None

    def paused():
        with recorder.paused():
            recorder.compute(5)

    assert ml.launch(paused, ranks=2).work == []


def test_what_is_no_amount_of_work_is_noted_not_raised():
    """Would catch a run that fails, or silently loses work, for a wrong FLOP count."""

    def odd():
        for flop in (-1, math.nan, math.inf, "many", None):
            recorder.compute(flop)
        recorder.compute(torch.tensor(7.0), nbytes=3)

    run = ml.launch(odd, ranks=2)
    assert [(work.flop, work.nbytes) for work in run.work] == [(7.0, 3), (7.0, 3)]
    assert len([note for note in run.notes if "was not recorded: give numbers from 0 on" in note]) == 5


def test_work_of_a_run_that_fails_does_not_reach_the_next():
    """Would catch rows that stay behind in a warm rank."""

    def fails():
        recorder.compute(1)
        raise ValueError("stop")

    with pytest.raises(RankFailed):
        ml.launch(fails, ranks=2)
    assert [work.flop for work in ml.launch(lambda: recorder.compute(2), ranks=2).work] == [2, 2]


def test_a_file_keeps_work_and_waits(run, tmp_path):
    """Would catch a field that a file forgets, and whole numbers that come back as floats."""
    back = ml.load(run.save(tmp_path / "a.run"))
    assert back.work == run.work and back.events == run.events
    assert type(back.work[0].flop) is int


def _rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(parts["run.json"])
    change(head)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**parts, "run.json": json.dumps(head).encode()}.items():
            archive.writestr(name, data)
    return path


def test_a_file_of_the_first_format_still_loads(run, tmp_path):
    """Would catch files that became unreadable when work was added."""

    def old(head):
        head["version"] = 1
        del head["work"]
        at = head["events"]["columns"].index("waited")
        for row in (head["events"]["columns"], *head["events"]["rows"]):
            del row[at]

    back = ml.load(_rewritten(run.save(tmp_path / "a.run"), old))
    assert back.work == [] and {event.waited for event in back.events} == {None}
    assert [event.op for event in back.events] == [event.op for event in run.events]


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["work"][0].__setitem__(0, 3),
        lambda head: head["work"][0].__setitem__(1, -1),
        lambda head: head["work"][0].__setitem__(2, "much"),
        lambda head: head["work"][0].__setitem__(3, -5),
        lambda head: head["work"][0].__setitem__(4, None),
        lambda head: head["work"][0].append(1),
        lambda head: head["events"]["rows"][0].__setitem__(head["events"]["columns"].index("waited"), 0),
    ],
)
def test_damaged_work_is_refused(run, tmp_path, change):
    """Would catch a rank 3 of 3, a text for a number, a wait before its call, that come out of a file."""
    with pytest.raises(MindlabError, match="not a whole"):
        ml.load(_rewritten(run.save(tmp_path / "a.run"), change))


def test_the_example_runs():
    """Would catch an example that was right once."""
    scope = {"ml": ml, "recorder": recorder, "dist": dist, "torch": torch}
    test = doctest.DocTestParser().get_doctest(recorder.compute.__doc__, scope, "compute", None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_importing_the_recorder_imports_nothing_heavy():
    """Would catch strategies that pull torch or numpy in only because they state their work."""
    code = "import mindlab.trace.recorder, sys; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout == "[]\n"
