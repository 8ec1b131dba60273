"""The two layout changes of Ulysses: every element at its place, the bytes and memory that are promised."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads

CASES = [(batch, length, heads) for batch in (1, 2) for length in (1, 5, 24, 66) for heads in (24, 48)]


def coded(batch: int, length: int, heads: int, head_dim: int = 3) -> torch.Tensor:
    """A tensor of which every element says where it belongs."""
    return torch.arange(batch * length * heads * head_dim).reshape(batch, length, heads, head_dim)


def shard_of(x: torch.Tensor, dim: int) -> torch.Tensor:
    """This rank's part."""
    return x.tensor_split(dist.get_world_size(), dim=dim)[dist.get_rank()]


def lengths_of(x: torch.Tensor) -> list[int]:
    """All ranks' lengths along the sequence."""
    return [part.shape[1] for part in x.tensor_split(dist.get_world_size(), dim=1)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_element_at_its_place(ranks: int) -> None:
    """Would catch heads or sequence in another order, batch and sequence mixed up, a rest that is dropped."""

    def there_and_back() -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = []
        for case in CASES:
            whole = coded(*case)
            mine = sequence_to_heads(shard_of(whole, 1), sizes=lengths_of(whole))
            back = heads_to_sequence(mine, sizes=lengths_of(whole))
            assert back.is_contiguous()  # asked here: on its way to the test every tensor becomes so
            found.append((mine, back))
        return found

    run = ml.launch(there_and_back, ranks=ranks)
    for index, case in enumerate(CASES):
        whole = coded(*case)
        for rank in range(ranks):
            by_heads, back = run.values[rank][index]
            assert torch.equal(by_heads, whole.tensor_split(ranks, dim=2)[rank]), (case, rank)
            assert torch.equal(back, whole.tensor_split(ranks, dim=1)[rank]), (case, rank)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_lengths_that_are_not_given_are_exchanged(ranks: int) -> None:
    """Would catch lengths that are guessed: shards of 0, 2, 4, … positions are no even cut."""
    lengths = [2 * rank for rank in range(ranks)]

    def there_and_back() -> tuple[torch.Tensor, torch.Tensor]:
        whole = coded(2, sum(lengths), 12)
        by_heads = sequence_to_heads(whole.split(lengths, dim=1)[dist.get_rank()])
        return by_heads, heads_to_sequence(by_heads, sizes=lengths)

    run = ml.launch(there_and_back, ranks=ranks)
    whole = coded(2, sum(lengths), 12)
    for rank, (by_heads, back) in enumerate(run.values):
        assert torch.equal(by_heads, whole.tensor_split(ranks, dim=2)[rank]), rank
        assert torch.equal(back, whole.split(lengths, dim=1)[rank]), rank
    exchange = [event for event in run.events if event.op == "isend"]
    assert len(exchange) == ranks * (ranks - 1)
    assert {event.nbytes for event in exchange} == {8}


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_fewer_heads_than_ranks(ranks: int) -> None:
    """Would catch key-value heads that are tiled (0 1 0 1) where the queries' order wants 0 0 1 1."""

    def there() -> list[torch.Tensor]:
        wholes = [coded(2, 11, heads) for heads in (1, 2)]
        return [sequence_to_heads(shard_of(whole, 1), sizes=lengths_of(whole)) for whole in wholes]

    run = ml.launch(there, ranks=ranks)
    for rank in range(ranks):
        assert torch.equal(run.values[rank][0], coded(2, 11, 1)), rank
        head = rank * 2 // ranks
        assert torch.equal(run.values[rank][1], coded(2, 11, 2)[:, :, head : head + 1]), rank


@pytest.mark.parametrize("ranks", [3, 4])
def test_bytes_of_each_layout_change(ranks: int) -> None:
    """Would catch a byte too many on any rank: a length exchange beside given lengths, a rank's own block."""
    batch, length, heads, head_dim = 2, 66, 12, 3

    def there_and_back() -> None:
        whole = coded(batch, length, heads, head_dim).float()
        ml.step("there")
        mine = sequence_to_heads(shard_of(whole, 1), sizes=lengths_of(whole))
        ml.step("back")
        heads_to_sequence(mine, sizes=lengths_of(whole))

    run = ml.launch(there_and_back, ranks=ranks)
    lengths = [len(part) for part in torch.arange(length).tensor_split(ranks)]
    unit = batch * head_dim * 4 * heads // ranks
    right = [unit * (mine * (ranks - 1) + length - mine) for mine in lengths]
    assert run.sent.tolist() == right
    assert [event.op for event in run.events] == ["all_to_all_single"] * 2 * ranks
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == right


@pytest.mark.parametrize("batch", [1, 2])
def test_memory_of_each_layout_change(batch: int) -> None:
    """Would catch one more copy: a packed tensor and its arrived one are all that lives beside the input.

    The least of five, for gloo's thread can hold what it sent for a moment after the call returned.
    """

    def peaks() -> tuple[int, int, int]:
        x = coded(batch, 24, 12).float()
        there, back = [], []
        for _ in range(5):
            with ml.ExtraMemory() as extra:
                mine = sequence_to_heads(shard_of(x, 1), sizes=lengths_of(x))
            there.append(extra.peak)
            mine = mine.contiguous()
            with ml.ExtraMemory() as extra:
                heads_to_sequence(mine, sizes=lengths_of(x))
            back.append(extra.peak)
        return x.nbytes // dist.get_world_size(), min(there), min(back)

    for block, there, back in ml.launch(peaks, ranks=3).values:
        assert there == 2 * block
        assert back == 2 * block


def test_a_group_of_some_ranks() -> None:
    """Would catch a global rank taken for the group's: here rank 1 has place 0."""

    def in_group() -> Any:
        group = dist.new_group([1, 2, 3])
        if dist.get_rank() == 0:
            return None
        place, whole = dist.get_rank(group), coded(2, 10, 6)
        lengths = [4, 3, 3]
        mine = sequence_to_heads(whole.split(lengths, dim=1)[place], sizes=lengths, group=group)
        return place, mine, heads_to_sequence(mine, sizes=lengths, group=group)

    whole = coded(2, 10, 6)
    for found in ml.launch(in_group, ranks=4).values[1:]:
        place, mine, back = found
        assert torch.equal(mine, whole.tensor_split(3, dim=2)[place])
        assert torch.equal(back, whole.split([4, 3, 3], dim=1)[place])
