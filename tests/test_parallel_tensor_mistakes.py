"""Wrong ways to split a layer that a lesson shows, as facts: they run, and are wrong by a known amount."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tensor_runs import FULL, HIDDEN, B, S, error, filled, full_layer, numbers, split
from torch import nn

import mindlab as ml
from mindlab.models.layers import MLP
from mindlab.parallel import tensor
from mindlab.parallel.linear import ColumnParallelLinear, RowParallelLinear, gathered, shard, summed

X = numbers(1, 8, 64)


def columns_then_all_reduce() -> torch.Tensor:
    """In a rank: the published sample that cuts columns and adds them up, seeded."""
    linear = filled(nn.Linear(64, 64))
    chunk = linear.weight.data.chunk(dist.get_world_size(), dim=0)[dist.get_rank()]
    out = X @ chunk.T
    dist.all_reduce(out)
    return out


@pytest.mark.parametrize("ranks", [2, 4])
def test_columns_then_all_reduce_adds_up_different_features(ranks: int) -> None:
    """Would catch the claim that the sum joins columns: it adds features that have nothing to do with each
    other, of which 64/p are left, and the bias is missing."""
    linear = filled(nn.Linear(64, 64))
    with torch.no_grad():
        right = linear(X)
        pieces = (X @ linear.weight.T).chunk(ranks, -1)
    for rank, out in enumerate(ml.launch(columns_then_all_reduce, ranks=ranks).values):
        assert out.shape == (1, 8, 64 // ranks)
        assert error(out, sum(pieces)) < 1e-5
        assert error(out, right.chunk(ranks, -1)[rank]) > 0.5


def rows_then_all_gather() -> torch.Tensor:
    """In a rank: the published text's other half: rows, and then joined."""
    row = RowParallelLinear.from_full(filled(nn.Linear(64, 64)))
    ranks = dist.get_world_size()
    return gathered(row.partial(X.tensor_split(ranks, -1)[dist.get_rank()]), [64] * ranks)


def test_rows_then_all_gather_joins_partial_sums() -> None:
    """Would catch the claim that rows are joined: p times too many features, whose sum is what was wanted."""
    linear = filled(nn.Linear(64, 64))
    for out in ml.launch(rows_then_all_gather, ranks=4).values:
        assert out.shape == (1, 8, 256)
        with torch.no_grad():
            assert error(sum(out.chunk(4, -1)) + linear.bias, linear(X)) < 1e-5


def bias_inside(zero: bool, only_rank: int | None) -> list[torch.Tensor]:
    """In a rank: a row layer with its bias inside the partial sums, on all ranks or on one."""
    linear = filled(nn.Linear(64, 64))
    if zero:
        nn.init.zeros_(linear.bias)
    row = RowParallelLinear.from_full(linear)
    partial = row.partial(X.tensor_split(dist.get_world_size(), -1)[dist.get_rank()])
    if only_rank in (None, dist.get_rank()):
        partial += row.bias
    dist.all_reduce(partial)
    with torch.no_grad():
        return [partial - linear(X), linear.bias.data]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_bias_in_every_partial_sum_comes_p_times(ranks: int) -> None:
    """Would catch a wrong amount ((p-1) b too much); a zero bias that is believed to prove anything; and the
    false report against a bias on one rank only, which is right."""
    for excess, bias in ml.launch(bias_inside, False, None, ranks=ranks).values:
        assert error(excess, ((ranks - 1) * bias).expand_as(excess)) < 1e-5 and excess.abs().max() > 0.5
    for excess, _ in ml.launch(bias_inside, True, None, ranks=ranks).values:
        assert excess.abs().max() < 1e-5
    for excess, _ in ml.launch(bias_inside, False, 0, ranks=ranks).values:
        assert excess.abs().max() < 1e-5


def own_weights() -> list[Any]:
    """In a rank: every rank with its own random weights and input, as an unseeded script has them."""
    torch.manual_seed(dist.get_rank())
    mlp, x = MLP(HIDDEN, 37, bias=False), torch.randn(B, S, HIDDEN)
    with torch.no_grad():
        out = tensor.ParallelMLP.from_full(mlp)(x)
        try:
            tensor.same_on_every_rank(mlp)
            told = ""
        except ml.MindlabError as problem:
            told = str(problem)
        return [out, mlp(x), told]


def test_every_rank_with_its_own_weights() -> None:
    """Would catch the belief that ranks that agree are right: all have one result, which is nobody's."""
    run = ml.launch(own_weights, ranks=3)
    for out, _, told in run.values:
        assert torch.equal(out, run.values[0][0]), "the all-reduce makes them agree"
        assert all(error(out, alone) > 0.05 for _, alone, _ in run.values)
        assert told.startswith("up.weight on ranks 1, 2 is not that of rank 0")


def test_a_chunk_frees_nothing() -> None:
    """Would catch the claim that `chunk` saves memory: it is a view that keeps all of the weight alive."""

    def storage() -> list[int]:
        weight = torch.ones(64, 64)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        return [t.untyped_storage().nbytes() for t in (weight.chunk(ranks)[rank], shard(weight, rank, ranks))]

    assert ml.launch(storage, ranks=4).values == [[64 * 64 * 4, 64 * 64]] * 4


def gelu_of_partial_sums() -> list[torch.Tensor]:
    """In a rank: rows first, GeLU before the sum; and the sum first."""
    linear = filled(nn.Linear(64, 64, bias=False))
    row = RowParallelLinear.from_full(linear)
    partial = row.partial(X.tensor_split(dist.get_world_size(), -1)[dist.get_rank()])
    return [summed(F.gelu(partial)), F.gelu(summed(partial))]


def test_gelu_of_partial_sums_is_not_gelu_of_the_sum() -> None:
    """Would catch the belief that the order row, then column needs no all-reduce in the middle."""
    with torch.no_grad():
        right = F.gelu(filled(nn.Linear(64, 64, bias=False))(X))
    for early, late in ml.launch(gelu_of_partial_sums, ranks=3).values:
        assert error(early, right) > 0.05 and error(late, right) < 1e-5


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_sum_of_tensors_with_gaps(ranks: int) -> None:
    """Would catch a contiguous copy that is summed and then forgotten, and a sum of the wrong elements."""

    def sums() -> list[torch.Tensor]:
        mine = float(dist.get_rank() + 1)
        transposed, gapped = torch.ones(3, 2).t() * mine, (torch.ones(2, 2) * mine)[:, 0]
        return [summed(transposed), summed(gapped), gathered(gapped[None], [2] * dist.get_world_size())]

    total = float(ranks * (ranks + 1) // 2)
    for transposed, gapped, joined in ml.launch(sums, ranks=ranks).values:
        assert torch.equal(transposed, torch.full((2, 3), total)) and torch.equal(
            gapped, torch.full((2,), total)
        )
        assert joined.tolist() == [[float(rank + 1) for rank in range(ranks) for _ in range(2)]]


def test_no_gradient_flows() -> None:
    """Would catch a backward pass that runs and is wrong: these layers do not send gradients."""

    def flows() -> list[bool]:
        x = numbers(B, S, HIDDEN).requires_grad_()
        names = [
            "mlp",
            "gated",
            "attention: 6 heads, 3 kv",
            "block: 6 heads, 3 kv",
            "block, beside: 6 heads, 3 kv",
        ]
        outs = [split(filled(full_layer(name)))(x) for name in names]
        full = filled(nn.Linear(HIDDEN, 7))
        outs += [ColumnParallelLinear.from_full(full)(x), tensor.VocabParallelLogits.from_full(full)(x)]
        return [out.requires_grad for out in outs]

    assert len(FULL) == 5
    assert ml.launch(flows, ranks=3).values == [[False] * 7] * 3
