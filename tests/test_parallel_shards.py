"""Cutting a sequence and joining it: no token lost, none twice, at any length."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

import mindlab as ml
from mindlab.parallel.shards import (
    agreed_sizes,
    check_sizes,
    chunk_sizes,
    join_sequence,
    sequence_sizes,
    split_sequence,
)

LAYOUTS = ["contiguous", "zigzag"]


@settings(max_examples=80, deadline=None)
@given(
    length=st.integers(0, 70),
    ranks=st.integers(1, 9),
    layout=st.sampled_from(LAYOUTS),
    dim=st.sampled_from([0, 1, -1]),
)
def test_there_and_back(length: int, ranks: int, layout: str, dim: int) -> None:
    """Would catch a rest that is dropped, a chunk that is joined in another place, another dimension cut."""
    shape = [2, 3, 4]
    shape[dim] = length
    x = torch.arange(math.prod(shape)).view(shape)
    parts = split_sequence(x, ranks, layout=layout, dim=dim)
    assert [part.shape[dim] for part in parts] == sequence_sizes(length, ranks, layout=layout)
    assert torch.equal(join_sequence(parts, layout=layout, dim=dim), x)
    check_sizes([part.shape[dim] for part in parts], layout)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 30, 31, 66, 56700])
def test_lengths(length: int, ranks: int) -> None:
    """Would catch floor division, which loses the rest, and shards that differ by more than that."""
    positions = torch.arange(length)
    assert chunk_sizes(length, ranks) == [len(c) for c in positions.tensor_split(ranks)]
    for layout, most in (("contiguous", 1), ("zigzag", 2)):
        sizes = sequence_sizes(length, ranks, layout=layout)
        assert sum(sizes) == length and max(sizes) - min(sizes) <= most
        shards = split_sequence(positions, ranks, layout=layout, dim=0)
        assert sorted(torch.cat(shards).tolist()) == positions.tolist()
        assert all(shard.tolist() == sorted(shard.tolist()) for shard in shards)


def test_zigzag_is_an_early_and_a_late_chunk() -> None:
    """Would catch another balanced order (striped, or the late chunks not mirrored), which the ring's rule
    for causal masks would get wrong in silence."""
    shards = split_sequence(torch.arange(13), 3, layout="zigzag", dim=0)
    assert [shard.tolist() for shard in shards] == [[0, 1, 2, 11, 12], [3, 4, 9, 10], [5, 6, 7, 8]]


def test_contiguous_shards_of_any_lengths_join() -> None:
    """Would catch a join that insists on even shards."""
    assert join_sequence([torch.zeros(2, 5), torch.zeros(2, 0), torch.zeros(2, 1)]).shape == (2, 6)


def test_what_is_refused() -> None:
    """Would catch a misspelt layout that is taken for the usual one, and shards joined in a wrong layout."""
    x = torch.arange(12)
    for call, say in [
        (
            lambda: split_sequence(x, 2, layout="zig-zag", dim=0),
            "'zig-zag' is unknown: choose one of contiguous, zigzag",
        ),
        (lambda: join_sequence([x], layout="striped", dim=0), "layout='striped' is unknown"),
        (lambda: sequence_sizes(4, 2, layout=""), "layout='' is unknown"),
        (lambda: split_sequence(x, 0, dim=0), "cannot be cut for 0 ranks"),
        (lambda: join_sequence([]), "cannot be cut for 0 ranks"),
        (lambda: sequence_sizes(-1, 2), "length=-1"),
        (
            lambda: join_sequence([x[:4], x[4:]], layout="zigzag", dim=0),
            "lengths \\[4, 8\\] are not a zigzag layout of 12",
        ),
    ]:
        with pytest.raises(ValueError, match=say):
            call()


def lengths_told(given: Any) -> Any:
    shard = torch.zeros(2, [3, 0, 5][dist.get_rank()], 1, 1)
    return agreed_sizes(shard, given)


def test_lengths_are_exchanged_only_if_they_are_not_given() -> None:
    """Would catch equal lengths taken for granted, and bytes that a check of volumes does not expect."""
    run = ml.launch(lengths_told, None, ranks=3)
    assert run.values == [[3, 0, 5]] * 3 and run.sent.tolist() == [16] * 3
    run = ml.launch(lengths_told, [3, 0, 5], ranks=3)
    assert run.values == [[3, 0, 5]] * 3 and not run.events
    for wrong in ([3, 1, 5], [3, 0], [4, -1, 5]):
        with pytest.raises(ml.MindlabError, match="give the length of every rank's shard"):
            ml.launch(lengths_told, wrong, ranks=3)


def outside(given: Any) -> Any:
    group = dist.new_group([0, 1])
    return agreed_sizes(torch.zeros(2, 3, 1, 1), given, group) if dist.get_rank() == 2 else None


@pytest.mark.parametrize("given", [None, [3, 3]])
def test_a_rank_outside_the_group(given: Any) -> None:
    """Would catch the shard of a rank that does not belong, taken for the last one's."""
    with pytest.raises(ml.MindlabError, match="rank 2 is not in the group"):
        ml.launch(outside, given, ranks=3)
