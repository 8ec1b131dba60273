"""Runs as files: everything comes back, nothing is executed, nothing is dropped in silence."""

from __future__ import annotations

import collections
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run


def _run(*values):
    return Run(
        values=list(values),
        printed=["said\n"] * len(values),
        seconds=Measured([0.5] * len(values), unit="s", provenance="timed", note="warm"),
        events=[Event(0, 0, "send", (0,), 4, "float32", 0.1, None, peer=0, shape=(1,), sends=((0, 4),))],
        backend="gloo",
        seed=3,
        name="ring",
        code_hash="ab" * 6,
        why_no_wire="not measured",
        notes=["a note"],
        versions={"torch": "2"},
        host="x86_64, 2 cores",
        date="2026-01-02",
    )


def _through(run, tmp_path):
    return ml.load(run.save(tmp_path / "a.run"))


def test_a_real_run_comes_back_whole(tmp_path):
    """Would catch a field that is forgotten: events, wire, provenance, notes, printed text."""

    def work():
        print("hello")
        ml.step("first")
        x = torch.ones(3)
        dist.all_reduce(x)
        dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0)
        return {"x": x, "rank": dist.get_rank()}

    run = ml.launch(work, ranks=2)
    back = _through(run, tmp_path)
    assert back.events == run.events and back.printed == run.printed and back.notes == run.notes
    assert torch.equal(back.values[1]["x"], run.values[1]["x"]) and back.values[1]["rank"] == 1
    assert back.seconds.tolist() == run.seconds.tolist() and back.seconds.provenance == "timed"
    assert (back.traffic == run.traffic).all() and back.provenance == run.provenance
    assert (back.code_hash, back.seed, back.name) == (run.code_hash, run.seed, run.name)
    if run.wire is not None:
        assert (back.wire.payload == run.wire.payload).all() and back.wire.payload.provenance == "wire"
        assert back.wire.source == run.wire.source
    else:
        assert back.why_no_wire == run.why_no_wire
    assert repr(back) == repr(run)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(3, dtype=torch.bfloat16),
        torch.tensor(True),
        torch.empty(0, 4, dtype=torch.int64),
        torch.full((2,), 1 + 2j).conj(),
        torch.ones(2, requires_grad=True),
        torch.tensor([1, -1], dtype=torch.int8),
        torch.ones(2).to(torch.float8_e4m3fn),
    ],
)
def test_tensors_of_any_dtype_and_shape(tensor, tmp_path):
    """Would catch bytes read with another dtype, lost strides, and numpy's missing bfloat16."""
    (back,) = _through(_run(tensor), tmp_path).values
    assert back.dtype == tensor.dtype and back.shape == tensor.shape
    assert torch.equal(back.to(torch.complex64), tensor.detach().to(torch.complex64))
    back.view(-1)[:1] = 0  # its own memory, and writable


def test_containers_and_numbers(tmp_path):
    """Would catch a tuple that comes back as a list, a key that becomes a string, or nan."""
    value = {
        1: (1.5, None, True, "x"),
        "k": [{2, 3}, frozenset({4}), b"\x00\xff", 2 + 1j],
        (0, 1): np.arange(3, dtype=np.int16),
        "inf": float("-inf"),
        "scalar": np.float32(0.1),
        "big": 2**80,
    }
    (back,) = _through(_run(value), tmp_path).values
    array, mine = back.pop((0, 1)), value.pop((0, 1))
    assert back == value and type(back[1]) is tuple and type(back["scalar"]) is np.float32
    assert array.dtype == mine.dtype and array.tolist() == mine.tolist()
    (nan,) = _through(_run(float("nan")), tmp_path).values
    assert nan != nan


def test_other_objects_become_their_repr_and_a_note(tmp_path):
    """Would catch a value dropped in silence, or pickled."""
    itself = []
    itself.append(itself)
    run = _run(collections.deque([1]), {"a": object}, itself, torch.ones(2).to_sparse())
    back = _through(run, tmp_path)
    assert back.values[0] == "deque([1])" and back.values[1] == {"a": "<class 'object'>"}
    assert sum("saved as its repr" in note for note in back.notes) == 4
    assert any("rank 1['a'] (type)" in note for note in back.notes)


def test_loading_executes_nothing(tmp_path):
    """Would catch a loader that unpickles what a stranger put into the file."""

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("a .run file was unpickled",))

    path = _run(1).save(tmp_path / "a.run")
    with zipfile.ZipFile(path) as archive:
        head = json.loads(archive.read("run.json"))
    head["values"] = [{"$": "pickle", "file": "values/0.bin"}]
    _rewrite(path, head, pickle.dumps(Evil()))
    with pytest.raises(MindlabError, match="unknown kind of value"):
        ml.load(path)
    head["values"] = [{"$": "array", "dtype": "|O", "shape": [1], "file": "values/0.bin"}]
    _rewrite(path, head, pickle.dumps(Evil()))
    with pytest.raises(MindlabError):
        ml.load(path)


def _rewrite(path, head, data=b""):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.json", json.dumps(head))
        archive.writestr("values/0.bin", data)


def test_files_that_are_none_are_refused(tmp_path):
    """Would catch a half-written, foreign or newer file taken for a run."""
    whole = _run(torch.ones(3)).save(tmp_path / "a.run")
    cut = tmp_path / "cut.run"
    cut.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(MindlabError, match="not a whole"):
        ml.load(cut)
    with zipfile.ZipFile(whole) as archive:
        head = json.loads(archive.read("run.json"))
    _rewrite(whole, head, b"123")
    with pytest.raises(MindlabError, match="holds 3 B"):
        ml.load(whole)
    _rewrite(whole, {**head, "version": 99})
    with pytest.raises(MindlabError, match="update mindlab"):
        ml.load(whole)
    _rewrite(whole, {"format": "something else"})
    with pytest.raises(MindlabError, match=r"not written by run\.save"):
        ml.load(whole)
    with pytest.raises(FileNotFoundError):
        ml.load(tmp_path / "none.run")


def test_unknown_suffixes_are_refused(tmp_path):
    """Would catch a file of an unknown kind written, or a viewer's file read as a run."""
    for name in ("a.pt", "a", "a.run.bak"):
        with pytest.raises(ValueError, match=r"\.run .*\.json"):
            _run(1).save(tmp_path / name)
    with pytest.raises(ValueError, match="for viewers"):
        ml.load(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    """Would catch an old run destroyed by a save that could not end."""
    path = _run(1).save(tmp_path / "a.run")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        _run(2).save(path)
    assert ml.load(path).values == [1] and len(list(tmp_path.iterdir())) == 1
