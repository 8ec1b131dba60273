"""The recorder beside its rows: labels, lines, installation, what it holds on to."""

from __future__ import annotations

import time
import warnings

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.trace import recorder

warnings.simplefilter("ignore", FutureWarning)


def _of(run, rank=0):
    return [event for event in run.events if event.rank == rank]


def test_steps_label_what_follows():
    """Would catch a label that stays behind for the next experiment, or goes to the call before."""

    def work():
        dist.barrier()
        ml.step("forward")
        dist.barrier()

    assert [e.label for e in _of(ml.launch(work, ranks=2))] == ["", "forward"]
    assert [e.label for e in _of(ml.launch(lambda: dist.barrier(), ranks=2))] == [""]
    with pytest.raises(ml.MindlabError, match="inside the function that you give"):
        ml.step("forward")


def test_the_library_is_named_only_where_no_person_is():
    """Would catch rows of ml.collectives that point into our own files instead of the person's call."""

    def work():
        return ml.collectives.ring_all_reduce(torch.ones(4))

    assert all("test_trace_recording.py" in event.line for event in ml.launch(work, ranks=2).events)


def test_without_guards_the_run_says_so():
    """Would catch a timing that nobody can tell from a guarded run."""
    with ml.timing():
        run = ml.launch(lambda: dist.barrier(), ranks=2)
    assert "guards were off" in run.notes


def test_installing_again_wraps_only_what_is_new():
    """Would catch a call recorded twice, or torch_npu's own functions, put in later, not at all."""

    def work():
        wrapped, original = dist.all_reduce, dist.barrier.__wrapped__
        dist.barrier = lambda *args, **kwargs: original(*args, **kwargs)
        recorder.install()
        assert dist.all_reduce is wrapped and dist.barrier.__wrapped__ is not original
        dist.all_reduce(torch.ones(1))
        dist.barrier()
        dist.barrier = dist.distributed_c10d.barrier

    assert [e.op for e in _of(ml.launch(work, ranks=2))] == ["all_reduce", "barrier"]


def test_end_needs_a_begin():
    """Would catch a worker that loses a record in silence."""
    with pytest.raises(ml.MindlabError, match="without begin"):
        recorder.end()


def test_a_record_keeps_no_tensor_alive():
    """Would catch an experiment that runs out of memory because every tensor it sent is still held."""

    def work():
        import gc
        import weakref

        x = torch.ones(4)
        alive = weakref.ref(x)
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        del x
        patience = time.monotonic() + 5  # the backend's thread lets go a moment after wait() returned
        while alive() is not None and time.monotonic() < patience:
            gc.collect()
        return alive() is None

    assert ml.launch(work, ranks=2).values == [True, True]
