"""Ulysses beside other ways to do the same: the list form of all-to-all, the ring, a published package."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ulysses_runs import Shape, attend, inputs, one_card

import mindlab as ml
from mindlab.parallel import ulysses
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.ulysses import sequence_to_heads, ulysses_attention


def list_form(x: torch.Tensor) -> torch.Tensor:
    """`sequence_to_heads` by one tensor a rank: p pieces, p arrived ones, and their join."""
    ranks = dist.get_world_size()
    pieces = [piece.contiguous() for piece in x.tensor_split(ranks, dim=2)]
    arrived = [torch.empty_like(piece) for piece in pieces]
    dist.all_to_all(arrived, pieces)
    del pieces
    return torch.cat(arrived, dim=1)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_list_form_sends_the_same_and_holds_no_less(ranks: int) -> None:
    """Would catch a chapter that prefers one form for its bytes: they are equal, counted and on the wire."""

    def one(form: str) -> tuple[torch.Tensor, int]:
        whole = inputs(Shape(1, 12 * ranks, 12, 12, 8))[0]
        x = whole.tensor_split(ranks, dim=1)[dist.get_rank()].contiguous()
        peaks = []
        for _ in range(5):  # the least: gloo's thread can hold what it sent for a moment
            with ml.ExtraMemory() as extra:
                out = list_form(x) if form == "list" else sequence_to_heads(x, sizes=[12] * ranks)
            peaks.append(extra.peak)
            del out
        return list_form(x) if form == "list" else sequence_to_heads(x, sizes=[12] * ranks), min(peaks)

    runs = {form: ml.launch(one, form, ranks=ranks) for form in ("list", "single")}
    block = 12 * 12 * 8 * 4
    for rank in range(ranks):
        (theirs, much), (ours, little) = (runs[form].values[rank] for form in ("list", "single"))
        assert torch.equal(theirs, ours)
        assert little == 2 * block <= much
    assert (
        runs["list"].sent.tolist()
        == runs["single"].sent.tolist()
        == [6 * block * (ranks - 1) // ranks] * ranks
    )
    wires = [run.wire.sent for run in runs.values() if run.wire is not None and run.wire.sent is not None]
    assert all(wire.tolist() == runs["single"].sent.tolist() for wire in wires)


@pytest.mark.parametrize(("ranks", "kv_heads"), [(2, 2), (2, 8), (4, 4), (4, 8), (8, 8)])
def test_ring_against_ulysses(ranks: int, kv_heads: int) -> None:
    """Would catch the advice that Ulysses always sends less: the ring sends p K / (H + K) times as much."""
    shape = Shape(1, 512, 8, kv_heads, 64)

    def ring() -> torch.Tensor:
        shards = [x.tensor_split(ranks, dim=1)[dist.get_rank()].contiguous() for x in inputs(shape)]
        return ring_attention(*shards, sizes=[512 // ranks] * ranks)

    runs = ml.launch(ring, ranks=ranks), ml.launch(attend, shape, ranks=ranks)
    right = one_card(*inputs(shape), False).tensor_split(ranks, dim=1)
    for run in runs:
        for rank in range(ranks):
            assert float((run.values[rank] - right[rank]).abs().max()) <= 1e-5
    by_ring, by_ulysses = (set(run.sent.tolist()) for run in runs)
    assert len(by_ring) == len(by_ulysses) == 1
    ratio = by_ring.pop() / by_ulysses.copy().pop()
    assert ratio == ranks * kv_heads / (8 + kv_heads)
    if (ranks, kv_heads) == (2, 2):
        assert by_ulysses == {655360} and ratio == 0.4


def test_the_work_of_the_attention_is_stated_once() -> None:
    """Would catch a replay that sees no work, or p times as much: 4 D FLOP a pair and head, shared by p."""
    run = ml.launch(attend, Shape(2, 24, 8, 4, 16), ranks=4)
    for rank in range(4):
        assert [(work.flop, work.index) for work in run.work if work.rank == rank] == [
            (4 * 16 * 2 * 24 * 24 * 8 / 4, 3)
        ]


@pytest.mark.parametrize("ranks", [2, 4])
def test_beside_yunchang(ranks: int) -> None:
    """Would catch another result, or other bytes, than a published package (0.6.4) with our kernel."""
    pytest.importorskip("yunchang", reason="a peer that is compared where it is installed")
    shape = Shape(2, 64, 8, 4, 16)

    def theirs(causal: bool) -> Any:
        from yunchang import UlyssesAttention
        from yunchang.kernels import AttnType

        from mindlab.parallel.attention import attention_with_lse

        attention = UlyssesAttention(dist.group.WORLD, attn_type=AttnType.TORCH_MATH)
        attention.attn_fn = lambda q, k, v, *, causal, **_: attention_with_lse(q, k, v, causal=causal)[0]
        shards = [x.tensor_split(ranks, dim=1)[dist.get_rank()].contiguous() for x in inputs(shape)]
        ml.step("theirs")
        found = attention(*shards, causal=causal)
        ml.step("ours")
        return found, ulysses_attention(*shards, causal=causal, sizes=[64 // ranks] * ranks)

    for causal in (False, True):
        run = ml.launch(theirs, causal, ranks=ranks)
        right = one_card(*inputs(shape), causal).tensor_split(ranks, dim=1)
        for rank, (found, ours) in enumerate(run.values):
            assert float((found - right[rank]).abs().max()) <= 1e-5
            assert float((ours - found).abs().max()) <= 1e-5
            sent = {"theirs": 0, "ours": 0}
            for event in run.events:
                sent[event.label] += event.nbytes if event.rank == rank else 0
            assert sent["theirs"] == sent["ours"] > 0


@pytest.mark.parametrize("name", ["ulysses_attention", "sequence_to_heads", "heads_to_sequence"])
def test_examples(name: str) -> None:
    """Would catch an example in the documentation that is wrong."""
    scope = {**vars(ulysses), "ml": ml}
    test = doctest.DocTestParser().get_doctest(getattr(ulysses, name).__doc__, scope, name, None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
