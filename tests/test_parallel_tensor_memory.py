"""What a rank holds of tensor-parallel layers: weights by the formula, and no more than it needs in a run."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from tensor_runs import filled, numbers
from torch import nn

import mindlab as ml
from mindlab.models.layers import MLP, Block, GatedMLP
from mindlab.parallel import heads, linear, sameness, tensor, vocabulary


def held(gated: bool) -> tuple[int, int]:
    """In a rank: bytes that the part of a block keeps alive, and how many of its storages are the full's."""
    full = filled(Block(32, 8, 2, 65, head_dim=4, mlp=GatedMLP if gated else MLP))
    part = tensor.ParallelBlock.from_full(full)
    storages = [t.untyped_storage() for t in part.state_dict().values()]
    own = {storage.data_ptr(): storage.nbytes() for storage in storages}
    shared = {t.untyped_storage().data_ptr() for t in full.state_dict().values()} & set(own)
    return sum(own.values()), len(shared)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("gated", [False, True])
def test_a_rank_holds_its_part_only(gated: bool, ranks: int) -> None:
    """Would catch a view that keeps the whole weight alive, a part that shares memory with the full one."""
    formula = ml.memory.block_weights(
        32, 8, ranks, itemsize=4, kv_heads=2, head_dim=4, inner=65, gated=gated
    ).by_rank(ranks)
    for rank, (total, shared) in enumerate(ml.launch(held, gated, ranks=ranks).values):
        assert total == formula[rank] and not shared


def test_vocabulary_weights() -> None:
    """Would catch a table that every rank keeps whole."""

    def kept() -> list[int]:
        table = nn.Embedding(29, 6)
        parts = tensor.VocabParallelEmbedding.from_full(table), tensor.VocabParallelLogits.from_full(table)
        return [part.weight.untyped_storage().nbytes() for part in parts]

    formula = ml.memory.vocabulary_weights(29, 6, 4, itemsize=4).by_rank(4)
    assert ml.launch(kept, ranks=4).values == [[own, own] for own in formula]


def peaks() -> dict[str, int]:
    """In a rank: the most bytes of new tensors during one forward, by layer: the least of five forwards.

    gloo's thread lets a summed tensor go when it next runs, on a busy machine after the caller went on.
    """
    x = numbers(2, 8, 32)
    mlp, gated, block = filled(MLP(32, 64)), filled(GatedMLP(32, 64)), filled(Block(32, 4, inner=64))
    beside = filled(Block(32, 4, inner=64, parallel=True))
    layers: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "mlp": tensor.ParallelMLP.from_full(mlp),
        "gated": tensor.ParallelGatedMLP.from_full(gated),
        "attention": tensor.ParallelAttention.from_full(block.attention),
        "block": tensor.ParallelBlock.from_full(block),
        "beside": tensor.ParallelBlock.from_full(beside),
    }
    return {name: min(peak(layer, x) for _ in range(5)) for name, layer in layers.items()}


def peak(layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> int:
    """In a rank: the most bytes of new tensors during one forward."""
    with ml.ExtraMemory() as extra:
        layer(x)
    return extra.peak


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_no_more_than_the_layer_and_its_working_block(ranks: int) -> None:
    """Would catch a gathered middle, a copy for the all-reduce, a partial sum that lives on beside the sum.

    8 positions of 32 features (whole), or of this rank's; 64 / p inner features; the LSE of 4 / p heads.
    """
    whole, inner, own = 2 * 8 * 32 * 4, 2 * 8 * 64 * 4 // ranks, 2 * 8 * 32 * 4 // ranks
    scores = 2 * 4 * 8 * 4 // ranks
    for found in ml.launch(peaks, ranks=ranks).values:
        assert found["mlp"] <= max(2 * inner, inner + whole)
        assert found["gated"] <= max(3 * inner, inner + whole)
        assert found["attention"] <= max(4 * own + 3 * scores, own + scores + whole)
        # the norm's output, and before the MLP x + attention: two more that are whole
        assert found["block"] <= 2 * whole + max(found["mlp"], found["attention"])
        assert found["beside"] <= 2 * whole + max(found["mlp"], found["attention"])


@pytest.mark.parametrize("module", [linear, heads, tensor, vocabulary, sameness])
def test_the_examples_run(module: ModuleType) -> None:
    """Would catch an example that was right once."""
    scope = {"ml": ml, "torch": torch, "dist": torch.distributed, "nn": nn}
    found = doctest.testmod(module, extraglobs=scope)
    assert found.attempted >= 1 and not found.failed
