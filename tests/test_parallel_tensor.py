"""Tensor-parallel layers: one card's numbers on every rank, the all-reduces and the bytes promised."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from tensor_runs import HIDDEN, B, S, error, filled, fitting, full_layer, numbers, on_ranks, one_card, split
from torch import nn

import mindlab as ml
from mindlab.models.layers import MLP, Block
from mindlab.parallel import tensor
from mindlab.parallel.linear import ColumnParallelLinear, RowParallelLinear, split_sizes

# float32: other orders of sums of dozens of terms of size 1. bfloat16: three digits, and p roundings more.
WITHIN = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_cards_numbers_on_every_rank(ranks: int, dtype: torch.dtype) -> None:
    """Would catch a wrong cut, a dropped rest, a bias added p times, gates that meet other features, a wrong
    key head, ranks that differ, a full layer or an input that changes."""
    names = fitting(ranks)
    assert len(names) > 5
    run = ml.launch(on_ranks, names, dtype, ranks=ranks)
    for name in names:
        wanted = one_card(name, dtype)
        for rank in range(ranks):
            out, untouched = run.values[rank][name]
            assert untouched and out.dtype == dtype, (name, rank)
            assert error(out, wanted) < WITHIN[dtype], (name, rank, error(out, wanted))
            assert torch.equal(out, run.values[0][name][0]), (name, rank)
            assert not out.requires_grad


def linears(ranks: int, features: tuple[int, int]) -> list[Any]:
    """In a rank: a linear layer of these sizes cut both ways, whole and gathered."""
    full = filled(nn.Linear(*features))
    x = numbers(B, S, features[0])
    own = x.tensor_split(ranks, -1)[dist.get_rank()]
    columns = ColumnParallelLinear.from_full(full)
    whole = ColumnParallelLinear.from_full(full, gather_output=True)(x)
    return [
        columns(x),
        whole,
        RowParallelLinear.from_full(full)(own),
        whole.is_contiguous() and not columns.weight.requires_grad,
    ]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("features", [(24, 24), (7, 5), (1, 3), (17, 30)])
def test_one_linear_layer_both_ways(ranks: int, features: tuple[int, int]) -> None:
    """Would catch shards joined in the wrong order or along the wrong dim, and ranks without any feature."""
    run = ml.launch(linears, ranks, features, ranks=ranks)
    with torch.no_grad():
        wanted = filled(nn.Linear(*features))(numbers(B, S, features[0]))
    assert split_sizes(features[1], ranks) == [part.shape[-1] for part in wanted.tensor_split(ranks, -1)]
    for rank, (columns, gathered, rows, tidy) in enumerate(run.values):
        assert error(columns, wanted.tensor_split(ranks, -1)[rank]) < 1e-5 if columns.numel() else True
        assert columns.shape == wanted.tensor_split(ranks, -1)[rank].shape
        assert error(gathered, wanted) < 1e-5 and tidy
        assert error(rows, wanted) < 1e-5, rank


def once(name: str) -> None:
    """In a rank: one forward."""
    split(filled(full_layer(name)))(numbers(B, S, HIDDEN))


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize(
    ("name", "all_reduces"),
    [
        ("mlp", 1),
        ("gated", 1),
        ("attention: 12 heads, 2 kv", 1),
        ("block: 12 heads, 2 kv", 2),
        ("block, gated: 12 heads, 2 kv", 2),
        ("block, beside: 12 heads, 2 kv", 1),
        ("block, gated, beside: 12 heads, 2 kv", 1),
    ],
)
def test_all_reduces_and_bytes(name: str, all_reduces: int, ranks: int) -> None:
    """Would catch one all-reduce too many, another collective beside them, and bytes off the formula.

    2 key heads on 3 ranks do not fit: there 6 heads with 3 stand in.
    """
    if ranks == 3:
        name = name.replace("12 heads, 2 kv", "6 heads, 3 kv")
    run = ml.launch(once, name, ranks=ranks)
    for rank in range(ranks):
        assert [e.op for e in run.events if e.rank == rank] == ["all_reduce"] * all_reduces
    nbytes = B * S * HIDDEN * 4
    exact = ml.volume.gloo_all_reduce(nbytes, ranks, itemsize=4).by_rank(ranks)
    if run.wire is not None:
        assert run.wire.payload is not None, run.wire.note
        assert run.wire.payload.sum(axis=1).tolist() == [all_reduces * sent for sent in exact]
    assert sum(exact) == 2 * (ranks - 1) * nbytes


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_work_is_stated(ranks: int) -> None:
    """Would catch a replay that thinks that ranks do nothing, or each all of it: 2 tokens in out a product,
    4 head_dim a visible (query, key) pair of each head."""
    run = ml.launch(once, "block: 6 heads, 3 kv", ranks=ranks)
    linear = 2 * B * S * HIDDEN * (2 * 6 * 4 + 2 * 3 * 4 + 2 * 37)
    attention = 4 * B * 6 * 4 * S * (S + 1) // 2
    assert sum(work.flop for work in run.work) == linear + attention
    by_rank = [sum(work.flop for work in run.work if work.rank == rank) for rank in range(ranks)]
    share = [len(part) for part in torch.arange(37).tensor_split(ranks)]
    rest = (linear + attention - 2 * B * S * HIDDEN * 2 * 37) // ranks
    assert by_rank == [2 * B * S * HIDDEN * 2 * own + rest for own in share]


def in_groups() -> list[Any]:
    """In a rank: a block and a gathered layer on two groups at once, each with weights of its own."""
    members = [[4, 1], [3, 0, 2]]
    groups = [dist.new_group(ranks) for ranks in members]
    mine = next(n for n, ranks in enumerate(members) if dist.get_rank() in ranks)
    full = filled(Block(HIDDEN, 6, 6 // (mine + 1)))
    x = numbers(B, S, HIDDEN, seed=mine)
    linear = filled(nn.Linear(HIDDEN, 7))
    gathered = ColumnParallelLinear.from_full(linear, groups[mine], gather_output=True)(x)
    outside = ""
    try:
        tensor.ParallelMLP.from_full(full.mlp, groups[1 - mine])
    except ValueError as problem:
        outside = str(problem)
    return [mine, tensor.ParallelBlock.from_full(full, groups[mine])(x), gathered, outside]


def test_sub_groups() -> None:
    """Would catch a layer that uses all ranks, or global numbers where the group's own are meant."""
    run = ml.launch(in_groups, ranks=5)
    for rank, (mine, block, gathered, outside) in enumerate(run.values):
        x = numbers(B, S, HIDDEN, seed=mine)
        with torch.no_grad():
            assert error(block, filled(Block(HIDDEN, 6, 6 // (mine + 1)))(x)) < 1e-5, rank
            assert error(gathered, filled(nn.Linear(HIDDEN, 7))(x)) < 1e-5, rank
        assert f"rank {rank} is not in the group" in outside


def test_refusals() -> None:
    """Would catch heads cut off in silence, a message without a way out, a shard of the wrong rank."""

    def refused(full: nn.Module, x: torch.Tensor | None = None) -> str:
        try:
            part = split(full)
            part.down(x) if x is not None else None
        except (ValueError, TypeError) as problem:
            return str(problem)
        return "accepted"

    texts = ml.launch(refused, filled(Block(32, 32, head_dim=4)), ranks=3).values
    wanted = "ranks=3 cannot split 32 heads: choose a divisor of 32 (1, 2, 4, 8, 16, 32)"
    assert texts == [wanted] * 3
    texts = ml.launch(refused, filled(Block(24, 12, 6)), ranks=4).values
    wanted = (
        "ranks=4 cannot split 12 heads with 6 of keys and values: choose a divisor of 12 that divides 6 or"
    )
    assert texts == [wanted + " is a multiple of it (1, 2, 3, 6, 12)"] * 4
    texts = ml.launch(refused, filled(MLP(24, 37)), numbers(2, 24), ranks=3).values
    assert all("takes 1" in text and "tensor_split" in text for text in texts)

    class Other(nn.Module):
        pass

    with pytest.raises(TypeError, match="Other cannot be split: give an MLP or a GatedMLP"):
        tensor.parallel_mlp(Other())
