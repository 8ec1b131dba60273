"""Lists of objects and of tensors whose lengths differ between ranks; shapes that may differ."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
from trace_rows import Script, look

import mindlab as ml
from mindlab.errors import Mismatch
from mindlab.trace.matching import find_fault

warnings.simplefilter("ignore", FutureWarning)


def test_object_lists_of_other_lengths_are_found():
    """Would catch a list that is cut on its way without a word."""
    with pytest.raises(Mismatch, match="lists of other lengths") as caught:
        ml.launch(lambda: dist.broadcast_object_list(["x"] * (3 - dist.get_rank()), 0), ranks=2, timeout=20)
    assert "2 objects" in str(caught.value) and "3 objects" in str(caught.value)
    scripts = [
        Script(r).call("broadcast_object_list", root=0, dtype="object", shape=(2 + r,)) for r in (0, 1)
    ]
    assert find_fault(*look(*scripts)).kind == "mismatch"


def test_sent_objects_need_a_list_of_their_length():
    """Would catch a sent list of three cut down to two."""

    def work():
        if dist.get_rank() == 0:
            dist.send_object_list(["a", "b", "c"], 1)
        else:
            dist.recv_object_list([None, None], 0)

    with pytest.raises(Mismatch, match="sends 3 objects, rank 1 has a list for 2 objects"):
        ml.launch(work, ranks=2, timeout=20)


def test_coalesced_tensors_of_other_sizes_are_found():
    """Would catch sums over the wrong elements: 3 and 5 elements meet 5 and 3."""

    def work():
        sizes = (3, 5) if dist.get_rank() == 0 else (5, 3)
        dist.all_reduce_coalesced([torch.ones(size) for size in sizes])

    with pytest.raises(Mismatch, match="other shapes") as caught:
        ml.launch(work, ranks=2, timeout=20)
    assert "tensors of 12, 20 B" in str(caught.value) and "tensors of 20, 12 B" in str(caught.value)


def test_a_broadcast_into_another_shape_is_right():
    """Would catch a false alarm: the elements of (2, 3) arrive in a flat buffer of 6 in their order."""

    def work():
        x = torch.arange(6.0).view(2, 3) if dist.get_rank() == 0 else torch.zeros(6)
        dist.broadcast(x, 0)
        return x.flatten().tolist()

    assert ml.launch(work, ranks=2, timeout=20).values == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 2
    with pytest.raises(Mismatch, match="other sizes"):
        ml.launch(lambda: dist.broadcast(torch.ones(5 + dist.get_rank()), 0), ranks=2, timeout=20)
