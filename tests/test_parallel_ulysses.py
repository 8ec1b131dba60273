"""Ulysses: one card's attention on every rank, the formula's bytes, no more memory, and clear refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from ulysses_runs import Shape, attend, inputs, one_card, sent_by

import mindlab as ml
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads, ulysses_attention

# Each head is one kernel's softmax over the same sequence as on one card: only float32's rounding is left.
CLOSE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
LENGTHS = (1, 2, 3, 5, 7, 9, 30, 66)


def shapes(ranks: int) -> list[Shape]:
    """Lengths below, beside and above p that p does not divide; D != H; every kind of sharing."""
    heads = 24 if ranks == 3 else 16
    kv_heads = sorted({1, 2, ranks, heads} if ranks != 3 else {1, 3, heads})
    fit = [kv for kv in kv_heads if not (heads % kv or (kv % ranks and ranks % kv))]
    return [Shape(2, length, heads, kv, 10) for length in LENGTHS for kv in fit]


def every(cases: list[Shape], dtype: torch.dtype) -> list[torch.Tensor]:
    """On a rank: its shards of all cases, causal and not; with the lengths given and exchanged in turn."""
    calls = [(shape, causal) for shape in cases for causal in (False, True)]
    return [attend(shape, causal, dtype, given=index % 3 > 0) for index, (shape, causal) in enumerate(calls)]


@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_card_on_every_rank(ranks: int, dtype: torch.dtype) -> None:
    """Would catch another head's keys, batch and sequence mixed up, a mask that starts anew in a shard."""
    cases = shapes(ranks) if dtype == torch.float32 else shapes(ranks)[-6:]
    run = ml.launch(every, cases, dtype, ranks=ranks)
    calls = [(shape, causal) for shape in cases for causal in (False, True)]
    for index, (shape, causal) in enumerate(calls):
        right = one_card(*inputs(shape, dtype), causal).tensor_split(ranks, dim=1)
        for rank in range(ranks):
            out = run.values[rank][index]
            assert out.dtype == dtype, (shape, causal, rank)
            assert out.shape == right[rank].shape, (shape, causal, rank)
            error = float((out - right[rank]).abs().max()) if out.numel() else 0.0
            assert error <= CLOSE[dtype], (shape, causal, rank)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_lengths_as_they_come(ranks: int) -> None:
    """Would catch a shard's place computed from p and S: these are 1, 6, 11, … long, or …, 11, 6, 1."""
    lengths = [1 + 5 * rank for rank in range(ranks)]
    shape = Shape(2, sum(lengths), 12, 12, 5)
    for order in (lengths, lengths[::-1]):
        for given in (True, False):
            run = ml.launch(attend, shape, True, given=given, lengths=order, ranks=ranks)
            right = one_card(*inputs(shape), True).split(order, dim=1)
            for rank in range(ranks):
                assert float((run.values[rank] - right[rank]).abs().max()) <= 1e-5, (order, given, rank)


@pytest.mark.parametrize("heads", [4, 8])
@pytest.mark.parametrize("head_dim", [16, 32])
def test_batch_first(heads: int, head_dim: int) -> None:
    """Would catch a batch above one taken for the sequence: DeepSpeed's grid of shapes, on four ranks."""
    cases = [Shape(batch, 4 * part, heads, heads, head_dim) for batch in (2, 4) for part in (4, 8)]
    run = ml.launch(every, cases, torch.float32, ranks=4)
    for index, shape in enumerate(cases):
        for causal in (False, True):
            right = one_card(*inputs(shape), causal).tensor_split(4, dim=1)
            for rank in range(4):
                error = (run.values[rank][2 * index + causal] - right[rank]).abs().max()
                assert float(error) <= 1e-5, (shape, causal, rank)


def test_groups_beside_each_other() -> None:
    """Would catch a global rank taken for a group's, and a collective on all ranks instead of the group."""
    shape = Shape(2, 11, 6, 2, 4)

    def in_groups() -> Any:
        groups = [dist.new_group([4, 1, 2]), dist.new_group([3, 0])]
        mine = groups[dist.get_rank() in (0, 3)]
        return [attend(shape if mine is groups[1] else shape._replace(kv_heads=3), True, group=mine,
                       given=given) for given in (True, False)]  # fmt: skip

    run = ml.launch(in_groups, ranks=5)
    for members, kv_heads in (([1, 2, 4], 3), ([0, 3], 2)):
        right = one_card(*inputs(shape._replace(kv_heads=kv_heads)), True).tensor_split(len(members), dim=1)
        for place, rank in enumerate(members):
            for out in run.values[rank]:
                assert float((out - right[place]).abs().max()) <= 1e-5, rank


def test_two_models_in_one_process() -> None:
    """Would catch head counts that are kept from the first model for all that follow."""
    cases = [Shape(2, 9, 12, kv_heads, 4) for kv_heads in (1, 12, 4, 2)]

    def one_after_another() -> list[torch.Tensor]:
        return [attend(shape) for shape in cases]

    run = ml.launch(one_after_another, ranks=4)
    for index, shape in enumerate(cases):
        right = one_card(*inputs(shape), False).tensor_split(4, dim=1)
        for rank in range(4):
            assert float((run.values[rank][index] - right[rank]).abs().max()) <= 1e-5, (shape, rank)


def test_without_a_mask_any_order_of_positions_will_do() -> None:
    """Would catch a text that is wrong: a permuted sequence gives the permuted result, without a mask."""
    shape = Shape(2, 24, 4, 2, 6)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))

    def permuted(causal: bool) -> torch.Tensor:
        shards = [x[:, order].tensor_split(4, dim=1)[dist.get_rank()] for x in inputs(shape)]
        return ulysses_attention(*shards, causal=causal)

    errors = []
    for causal in (False, True):
        right = one_card(*inputs(shape), causal)[:, order]
        found = torch.cat(ml.launch(permuted, causal, ranks=4).values, dim=1)
        errors.append(float((found - right).abs().max()))
    assert errors[0] <= 1e-5
    assert errors[1] > 0.1


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_bytes_of_the_formula(ranks: int) -> None:
    """Would catch one byte more or less on any rank, for even and uneven shards and every kind of sharing."""
    for shape in [Shape(2, length, 24, kv, 8) for length in (48, 66) for kv in (1, 24)]:
        run = ml.launch(attend, shape, ranks=ranks)
        right = sent_by(shape, ranks)
        assert right == list(ml.volume.ulysses_attention(*shape, ranks, itemsize=4).by_rank(ranks)), shape
        assert run.sent.tolist() == right, shape
        assert [event.op for event in run.events if event.rank == 0] == ["all_to_all_single"] * 4
        if run.wire is not None and run.wire.sent is not None:
            assert run.wire.sent.tolist() == right, shape
        if shape.length == 48:
            batch, length, heads, kv_heads, head_dim = shape
            kept = max(kv_heads, ranks)
            formula = (2 * heads + 2 * kept) * head_dim * batch * length * 4 * (ranks - 1) / ranks**2
            assert right == [formula] * ranks


def test_volume_when_ranks_and_sequence_grow_together() -> None:
    """Would catch volume that grows with p: beside (p-1)/p, the share that leaves, it stays what it was."""
    per_share = []
    for ranks in (2, 4, 8):
        run = ml.launch(attend, Shape(1, 16 * ranks, 8, 8, 4), ranks=ranks)
        per_share.append([nbytes * ranks / (ranks - 1) for nbytes in run.sent.tolist()])
    assert {share for shares in per_share for share in shares} == {4 * 16 * 8 * 4 * 4}


def test_few_key_value_heads_cost_as_many_as_ranks() -> None:
    """Would catch replication that is sent twice, or that is not in the price: K=1 and K=p send alike."""
    sent = [ml.launch(attend, Shape(1, 16, 8, kv, 4), ranks=4).sent.tolist() for kv in (1, 2, 4, 8)]
    assert sent[0] == sent[1] == sent[2]
    assert sent[3][0] / sent[2][0] == (8 + 8) / (8 + 4)


@pytest.mark.parametrize(("batch", "kv_heads"), [(1, 8), (2, 8), (2, 2), (1, 1)])
def test_memory_of_the_formula(batch: int, kv_heads: int) -> None:
    """Would catch q, k, v and their packed copies held together.

    Allowed: the formula's q, k, v and result by heads, one more block of the queries' size, and the
    log-sum-exp twice (a kernel may write it in another order). The least of five, for gloo's thread can hold
    what it sent for a moment after the call returned.
    """
    shape = Shape(batch, 256, 8, kv_heads, 32)

    def peak() -> tuple[int, int]:
        shards = [x.tensor_split(4, dim=1)[dist.get_rank()] for x in inputs(shape)]
        peaks = []
        for _ in range(5):
            with ml.ExtraMemory() as extra:
                ulysses_attention(*shards, sizes=[64] * 4)
            peaks.append(extra.peak)
        return min(peaks), shards[0].nbytes

    for found, block in ml.launch(peak, ranks=4).values:
        by_heads = 2 * block + 2 * block * max(kv_heads, 4) // 8
        lse = batch * 2 * 256 * 4
        assert 0 < found <= by_heads + block + 2 * lse


REFUSED = [
    (
        (2, 6, 6, 6),
        4,
        r"ranks=4 cannot split 6 heads: choose a divisor of 6 \(1, 2, 3, 6\); or ring_attention",
    ),
    ((1, 6, 2, 2), 4, r"ranks=4 cannot split 2 heads"),
    ((1, 6, 28, 7), 2, r"ranks=2 cannot split 28 heads with 7 .* \(1, 7, 14, 28\); or ring_attention"),
    ((1, 6, 12, 3), 4, r"ranks=4 cannot split 12 heads with 3 of keys and values: .* \(1, 3, 6, 12\)"),
    ((1, 6, 8, 3), 4, r"kv_heads=3 cannot serve 8 query heads"),
    ((1, 6, 8, 16), 4, r"kv_heads=16 cannot serve 8 query heads"),
]


@pytest.mark.parametrize(("shape", "ranks", "words"), REFUSED)
def test_heads_that_do_not_fit_are_refused(shape: tuple[int, ...], ranks: int, words: str) -> None:
    """Would catch heads that are dropped, padded or given another's keys; advice that would not work."""
    with pytest.raises(ml.MindlabError, match=words):
        ml.launch(attend, Shape(*shape, 4), ranks=ranks)


def test_other_refusals() -> None:
    """Would catch shapes or lengths that do not fit and are taken, and a stranger to the group that hangs."""

    def call(what: str) -> None:
        x, short = torch.ones(1, 3, 4, 2), torch.ones(1, 2, 4, 2)
        wrong = {
            "keys": lambda: ulysses_attention(x, short, short),
            "values": lambda: ulysses_attention(x, x, short),
            "flat": lambda: sequence_to_heads(x[0], sizes=[3, 3]),
            "ranks": lambda: ulysses_attention(x, x, x, sizes=[3]),
            "mine": lambda: sequence_to_heads(x, sizes=[2, 4]),
            "sum": lambda: heads_to_sequence(x, sizes=[1, 1]),
            "heads": lambda: sequence_to_heads(torch.ones(1, 3, 3, 2), sizes=[3, 3]),
        }
        wrong[what]()

    words = {
        "keys": "q has 3 positions, k and v have 2",
        "values": "k and v must have one batch, sequence and heads",
        "flat": r"\(batch, sequence, heads, head_dim\)",
        "ranks": r"sizes=\[3\] does not fit: 2 ranks",
        "mine": r"sizes=\[2, 4\] does not fit: 2 ranks, and rank 0 has a shard of 3",
        "sum": r"sizes=\[1, 1\] does not fit: 2 ranks, and a sequence of 3 positions",
        "heads": r"ranks=2 cannot split 3 heads .* choose a divisor of 3 \(1, 3\), or a multiple",
    }
    for what, match in words.items():
        with pytest.raises(ml.MindlabError, match=match):
            ml.launch(call, what, ranks=2)

    def stranger() -> None:
        group = dist.new_group([0, 1])
        x = torch.ones(1, 3, 4, 2)
        if dist.get_rank() == 2:
            ulysses_attention(x, x, x, group=group)

    with pytest.raises(ml.MindlabError, match="not in the group"):
        ml.launch(stranger, ranks=3)
