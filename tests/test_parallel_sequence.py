"""A block between shards of the sequence: one card's numbers on every rank, the formula's bytes sent."""

from __future__ import annotations

import doctest
import warnings
import weakref
from collections import Counter
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tensor_runs import error, filled, numbers
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.layers import Block, GatedMLP
from mindlab.parallel import sequence
from mindlab.parallel.sequence import (
    SequenceParallelBlock,
    gather_sequence,
    library_reduce_scatter,
    ring_reduce_scatter,
    scatter_sequence,
)
from mindlab.parallel.shards import sequence_sizes, split_sequence
from mindlab.parallel.tensor import ParallelBlock

B, HIDDEN = 2, 48
BLOCKS: dict[str, dict[str, Any]] = {
    # 24 heads: divided by 1, 2, 3, 4 and 8; 50 inner features: by 1 and 2 only; head_dim 5, not HIDDEN / 24.
    "after each other": {"heads": 24, "inner": 50, "head_dim": 5},
    "beside each other": {"heads": 24, "kv_heads": 1, "head_dim": 5, "parallel": True},
    "gated, RMS": {"heads": 24, "inner": 50, "norm": nn.RMSNorm, "mlp": GatedMLP, "causal": False},
}


def block(kind: str, dtype: torch.dtype = torch.float32) -> Block:
    """The one-card block; no bias is 0 and no norm's weight is 1."""
    made = filled(Block(HIDDEN, **BLOCKS[kind]), dtype)
    assert isinstance(made, Block) and made.norm1.weight.std() > 0.1
    return made


def one_card(kind: str, x: Tensor) -> Tensor:
    """The block on one card."""
    with torch.no_grad():
        out: Tensor = block(kind, x.dtype)(x)
    return out


def on_shards(
    kind: str, x: Tensor, sizes: list[int] | None, reduce_scatter: Any, group: Any = None
) -> Tensor:
    """In a rank: what the block makes of this rank's shard of x."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    split = SequenceParallelBlock.from_full(block(kind, x.dtype), group, reduce_scatter=reduce_scatter)
    lengths = sizes or sequence_sizes(x.shape[1], ranks)
    mine = x.split(lengths, dim=1)[rank]
    before = mine.clone()
    out = split(mine, sizes)
    assert out.is_contiguous() and out.dtype == x.dtype and torch.equal(mine, before)
    return out


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("kind", BLOCKS)
def test_one_card_on_every_rank(kind: str, ranks: int) -> None:
    """Would catch a bias added p times or not at all, a causal mask that begins at each shard, batch and
    sequence exchanged (B = 2), a shard that is lost, or empty (p-1 positions).

    1e-5: float32 sums of up to 120 terms, added in another order; outputs up to 5.
    """
    for length in (ranks - 1, 30, 31, 66):
        x = numbers(B, length, HIDDEN)
        sizes = sequence_sizes(length, ranks)
        for reduce_scatter in (ring_reduce_scatter, library_reduce_scatter):
            run = ml.launch(on_shards, kind, x, sizes, reduce_scatter, ranks=ranks)
            for mine, right in zip(run.values, split_sequence(one_card(kind, x), ranks), strict=True):
                torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("kind", BLOCKS)
def test_bfloat16(kind: str, ranks: int) -> None:
    """Would catch sums or norms that lose more than bfloat16 must.

    2e-2 of the largest value: some roundings by 2^-9 each, on the way and after every addition.
    """
    x = numbers(B, 31, HIDDEN).bfloat16()
    run = ml.launch(on_shards, kind, x, sequence_sizes(31, ranks), ring_reduce_scatter, ranks=ranks)
    with torch.no_grad():
        exact = block(kind, torch.bfloat16).float()(x.float())
    for mine, right in zip(run.values, split_sequence(exact, ranks), strict=True):
        assert error(mine, right) < 2e-2


@pytest.mark.parametrize("sizes", [[5, 1, 3], [0, 9, 0], [1, 1, 7]])
def test_any_lengths(sizes: list[int]) -> None:
    """Would catch shards that are cut as tensor_split whatever their lengths are, given or exchanged."""
    x = numbers(B, 9, HIDDEN)
    right = one_card("after each other", x).split(sizes, dim=1)

    def unsaid() -> Tensor:
        split = SequenceParallelBlock.from_full(block("after each other"))
        return split(x.split(sizes, dim=1)[dist.get_rank()])

    for reduce_scatter in (ring_reduce_scatter, library_reduce_scatter):
        run = ml.launch(on_shards, "after each other", x, sizes, reduce_scatter, ranks=3)
        assert all(error(*pair) < 1e-5 for pair in zip(run.values, right, strict=True) if pair[1].numel())
    asked = ml.launch(unsaid, ranks=3)
    assert all(error(*pair) < 1e-5 for pair in zip(asked.values, right, strict=True) if pair[1].numel())
    run = ml.launch(on_shards, "after each other", x, sizes, ring_reduce_scatter, ranks=3)
    assert (asked.sent - run.sent).tolist() == [2 * 8] * 3  # a length to each other rank, 8 bytes


def test_wrong_sizes_are_refused() -> None:
    """Would catch lengths that do not fit and hang, or leave rows unwritten."""
    x = numbers(B, 4, HIDDEN)
    for wrong in ([4, 3], [4, 4, 4], [3, 4]):
        with pytest.raises(ml.MindlabError, match="does not fit"):
            ml.launch(
                lambda wrong: SequenceParallelBlock.from_full(block("gated, RMS"))(x, wrong), wrong, ranks=2
            )


def tensor_parallel(kind: str, x: Tensor) -> Tensor:
    """In a rank: the block whose norms and residuals are whole."""
    out: Tensor = ParallelBlock.from_full(block(kind))(x)
    return out


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize(("kind", "pairs"), [("after each other", 2), ("beside each other", 1)])
def test_bytes_of_the_all_reduce(kind: str, pairs: int, ranks: int) -> None:
    """Would catch a third collective, a whole tensor sent for a shard, an all-reduce for a reduce-scatter.

    On the wire, framing apart: with our ring the formula to the byte on every rank, and tensor parallel's
    bytes to 0.5 % in all (each cuts elsewhere); with gloo's reduce_scatter, an all-reduce inside, 1.5 times.
    60 is divided by 3 and 4, 66 by 3, 61 by none.
    """
    for length in (60, 61, 66):
        x = numbers(B, length, HIDDEN)
        sizes = sequence_sizes(length, ranks)
        ring, library = (
            ml.launch(on_shards, kind, x, sizes, how, ranks=ranks)
            for how in (ring_reduce_scatter, library_reduce_scatter)
        )
        beside = ml.launch(tensor_parallel, kind, x, ranks=ranks)
        wanted = ml.volume.sequence_parallel(B, length, HIDDEN, ranks, itemsize=4, pairs=pairs)
        assert ring.sent.tolist() == list(wanted.by_rank(ranks))
        if ring.wire_sent is None or beside.wire_sent is None or library.wire_sent is None:
            continue
        assert ring.wire_sent.tolist() == list(wanted.by_rank(ranks))
        assert ring.wire_sent.sum() == pytest.approx(beside.wire_sent.sum(), rel=5e-3)
        assert library.wire_sent.sum() == pytest.approx(1.5 * ring.wire_sent.sum(), rel=5e-3)
        gloo = ml.volume.gloo_sequence_parallel(B, length, HIDDEN, ranks, itemsize=4, pairs=pairs)
        assert library.wire_sent.tolist() == list(gloo.by_rank(ranks))


@pytest.mark.parametrize("ranks", [3, 4])
def test_what_is_called(ranks: int) -> None:
    """Would catch a collective more than two pairs, or one pair where attention and MLP stand beside each
    other: p-1 messages each way for every ring, and one call for the library's reduce-scatter."""
    for kind, pairs in (("after each other", 2), ("beside each other", 1)):
        for length, name in ((60, "reduce_scatter_single"), (61, "reduce_scatter")):
            x, sizes = numbers(B, length, HIDDEN), sequence_sizes(length, ranks)
            ring = ml.launch(on_shards, kind, x, sizes, ring_reduce_scatter, ranks=ranks)
            library = ml.launch(on_shards, kind, x, sizes, library_reduce_scatter, ranks=ranks)
            for rank in range(ranks):
                calls = Counter(event.op for event in ring.events if event.rank == rank)
                assert calls == {"isend": 2 * pairs * (ranks - 1), "irecv": 2 * pairs * (ranks - 1)}
                calls = Counter(event.op for event in library.events if event.rank == rank)
                assert calls.pop(name, calls.pop("reduce_scatter_tensor", 0)) == pairs
                assert calls == {"isend": pairs * (ranks - 1), "irecv": pairs * (ranks - 1)}


def test_groups() -> None:
    """Would catch collectives over all ranks where a group was named, or global ranks for the group's."""
    xs = {3: numbers(B, 9, HIDDEN, seed=1), 2: numbers(B, 7, HIDDEN, seed=2)}

    def in_groups() -> list[Tensor]:
        groups = [dist.new_group([4, 1, 2]), dist.new_group([3, 0])]
        mine = groups[dist.get_rank() in (0, 3)]
        x = xs[mine.size()]
        return [
            on_shards("after each other", x, None, how, mine)
            for how in (ring_reduce_scatter, library_reduce_scatter)
        ]

    values = ml.launch(in_groups, ranks=5).values
    for members in ([1, 2, 4], [0, 3]):
        right = one_card("after each other", xs[len(members)])
        for found in zip(*(values[member] for member in members), strict=True):
            assert error(torch.cat(found, dim=1), right) < 1e-5


def test_there_and_back() -> None:
    """Would catch positions or batches exchanged on the way: every number says where it stands."""
    whole = torch.arange(2 * 7 * 3.0).reshape(2, 7, 3)

    def round_trip() -> tuple[Tensor, Tensor]:
        sizes = [4, 0, 3]
        mine = whole.split(sizes, dim=1)[dist.get_rank()]
        gathered = gather_sequence(mine, sizes)
        return gathered, scatter_sequence(gathered, sizes)

    run = ml.launch(round_trip, ranks=3)
    for (gathered, mine), right in zip(run.values, whole.split([4, 0, 3], dim=1), strict=True):
        assert torch.equal(gathered, whole) and torch.equal(mine, 3 * right)


def test_the_librarys_reduce_scatter_in_old_and_new_torch() -> None:
    """Would catch a name that the installed torch lacks, and a warning of a deprecated name that reaches a
    learner."""

    def by_name(*, old: bool) -> Tensor:
        x = torch.arange(6.0).reshape(6, 1) * (dist.get_rank() + 1)
        new = dist.__dict__.pop("reduce_scatter_single", None) if old else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if old else "error")
            out = library_reduce_scatter(x)
        if new is not None:
            dist.reduce_scatter_single = new
        return out

    for old in (False, True):
        run = ml.launch(by_name, old=old, ranks=3)
        for rank, out in enumerate(run.values):
            assert torch.equal(out, 6 * torch.arange(6.0).reshape(6, 1)[2 * rank : 2 * rank + 2])


@pytest.mark.parametrize("kind", [SequenceParallelBlock, ParallelBlock])
def test_the_full_block_is_left_alone(kind: Any) -> None:
    """Would catch norms that are shared with the full block: frozen there, or changed with it."""

    def call() -> bool:
        full, x = block("after each other"), numbers(1, 4, HIDDEN)
        split = kind.from_full(full)
        before = split(x)
        untouched = all(weight.requires_grad for weight in full.parameters())
        with torch.no_grad():
            for weight in full.parameters():
                weight.zero_()
        return untouched and torch.equal(split(x), before)

    assert ml.launch(call, ranks=2).values == [True, True]


@pytest.mark.parametrize("kind", ["after each other", "beside each other"])
def test_what_was_gathered_is_gone_when_the_sum_is_made(kind: str) -> None:
    """Would catch the whole sequence kept beside the terms and the sum: one activation more at the peak."""

    def call() -> list[bool]:
        gathered, gone = [], []

        def gather(*args: Any) -> Tensor:
            whole = gather_sequence(*args)
            gathered.append(weakref.ref(whole))
            return whole

        def scatter(x: Tensor, group: Any = None, *, sizes: Any = None) -> Tensor:
            gone.append(gathered[-1]() is None)
            return ring_reduce_scatter(x, group, sizes=sizes)

        sequence.gather_sequence = gather
        try:
            on_shards(kind, numbers(1, 6, HIDDEN), None, scatter)
        finally:
            sequence.gather_sequence = gather_sequence
        return gone

    pairs = 1 if kind == "beside each other" else 2
    assert ml.launch(call, ranks=2).values == [[True] * pairs] * 2


def test_heads_that_do_not_divide_are_refused() -> None:
    """Would catch a block that is made all the same."""
    with pytest.raises(ml.MindlabError, match="ranks=5 cannot split 24 heads"):
        ml.launch(lambda: SequenceParallelBlock.from_full(block("after each other")), ranks=5)


def test_the_example() -> None:
    """Would catch an example that was right once."""
    text = SequenceParallelBlock.from_full.__doc__ or ""
    test = doctest.DocTestParser().get_doctest(text, {**vars(sequence), "ml": ml}, "block", None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
