"""Damaged `.run` files: whatever is wrong in them, the reader learns that the file is broken."""

from __future__ import annotations

import json
import random
import zipfile

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import MindlabError


def _work():
    dist.all_reduce(torch.ones(100))
    return torch.arange(100.0), {"a": [1, 2]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return ml.launch(_work, ranks=2).save(tmp_path_factory.mktemp("runs") / "whole.run")


def test_flipped_bytes_and_cut_files_are_broken_files(whole, tmp_path):
    """Would catch zlib's, struct's or torch's own error where the file is at fault."""
    data, rng, refused = whole.read_bytes(), random.Random(1), 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            damaged = damaged[: rng.randrange(len(damaged))]
        path = tmp_path / "damaged.run"
        path.write_bytes(damaged)
        try:
            ml.load(path)
        except MindlabError:
            refused += 1
    assert refused > 100


def _tensor(**given):
    return {"$": "tensor", "dtype": "float32", "shape": [100], "file": "values/0.bin", **given}


_HEADS = {
    "deep": lambda head: {**head, "values": [json.loads("[" * 900 + "]" * 900), 1]},
    "seconds": lambda head: {**head, "seconds": 5},
    "provenance": lambda head: {**head, "seconds": {**head["seconds"], "provenance": "guessed"}},
    "seconds of one": lambda head: {**head, "seconds": {**head["seconds"], "values": [1.0]}},
    "events": lambda head: {**head, "events": 5},
    "values": lambda head: {**head, "values": 5},
    "wire": lambda head: {**head, "wire": [1]},
    "wire of one": lambda head: {**head, "wire": _wire_of_one(head)},
    "version": lambda head: {**head, "version": "x"},
    "notes": lambda head: {**head, "notes": 7},
    "note": lambda head: {**head, "notes": [7]},
    "printed": lambda head: {**head, "printed": {"a": 1}},
    "name": lambda head: {**head, "name": 3},
    "rank": lambda head: _with_event(head, "rank", 99),
    "peer": lambda head: _with_event(head, "peer", 2),
    "sends": lambda head: _with_event(head, "sends", [[5, 1]]),
    "start": lambda head: _with_event(head, "start", "soon"),
    "shape": lambda head: {**head, "values": [_tensor(shape=[-10, -10]), 1]},
    "huge": lambda head: {**head, "values": [_tensor(shape=[0, 2**63], file="values/9.bin"), 1]},
    "dtype": lambda head: {**head, "values": [_tensor(dtype="nn"), 1]},
    "quantized": lambda head: {**head, "values": [_tensor(dtype="quint8", shape=[400]), 1]},
    "kind": lambda head: {**head, "values": [{"$": [1]}, 1]},
    "hex": lambda head: {**head, "values": [{"$": "bytes", "hex": 5}, 1]},
}


def _with_event(head, column, value):
    row = list(head["events"]["rows"][0])
    row[head["events"]["columns"].index(column)] = value
    return {**head, "events": {**head["events"], "rows": [row]}}


def _wire_of_one(head):
    total = {**head["seconds"], "values": [[0]]}
    return {"total": total, "framing": None, "payload": None, "source": "", "note": ""}


@pytest.mark.parametrize("damage", _HEADS)
def test_wrong_contents_are_a_broken_file(damage, whole, tmp_path):
    """Would catch a run of 2 ranks with an event of rank 99, or a traceback from inside the reader."""
    with zipfile.ZipFile(whole) as archive:
        head = json.loads(archive.read("run.json"))
    path = tmp_path / "wrong.run"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.json", json.dumps(_HEADS[damage](head)))
        archive.writestr("values/0.bin", bytes(400))
        archive.writestr("values/9.bin", b"")
    with pytest.raises(MindlabError):
        ml.load(path)
    assert ml.load(whole).ranks == 2
