"""Beside torch's own tensor-parallel styles, and the mappings that Megatron-LM tests its own with."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from tensor_runs import error, filled, numbers

import mindlab as ml
from mindlab.models.layers import MLP, GatedMLP
from mindlab.parallel import tensor
from mindlab.parallel.linear import gathered, shard, summed


def styled(kind: str, x: torch.Tensor) -> list[torch.Tensor]:
    """In a rank: one MLP by torch's ColwiseParallel and RowwiseParallel, and by ours."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    make = {"mlp": lambda: MLP(x.shape[-1], 16), "gated": lambda: GatedMLP(x.shape[-1], 16, bias=True)}[kind]
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {"up": ColwiseParallel(), "gate": ColwiseParallel(), "down": RowwiseParallel()}
    theirs, full = filled(make()), filled(make())
    named = {name for name, _ in theirs.named_children()}
    parallelize_module(theirs, mesh, {name: style for name, style in plan.items() if name in named})
    with torch.no_grad():
        ours = tensor.parallel_mlp(full)
        return [ours(x), theirs(x).clone(), theirs.down.weight.to_local().clone(), ours.down.weight.data]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("kind", ["mlp", "gated"])
def test_beside_torchs_styles(kind: str, ranks: int) -> None:
    """Would catch another cut, or another result, than torch's DTensor has. (18 inner features on 4 ranks,
    which ours splits, break it.)"""
    x = numbers(8, 10)
    with torch.no_grad():
        wanted = filled(MLP(10, 16) if kind == "mlp" else GatedMLP(10, 16, bias=True))(x)
    for ours, theirs, their_shard, our_shard in ml.launch(styled, kind, x, ranks=ranks, timeout=120).values:
        # float32 sums of 16 terms
        assert error(theirs, wanted) < 1e-5 and error(ours, wanted) < 1e-5 and error(ours, theirs) < 1e-5
        assert torch.equal(our_shard, their_shard)


def mappings() -> list[torch.Tensor]:
    """In a rank: scatter a (8, 4) tensor by columns, gather (8, 1) tensors of the rank's number, add them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    full = torch.arange(4.0).expand(8, 4)
    mine = torch.full((8, 1), float(rank))
    return [shard(full, rank, ranks, dim=1), gathered(mine, [1] * ranks), summed(mine.clone())]


def test_the_mappings_of_megatron() -> None:
    """Would catch a gather in another order than the scatter, or along the batch."""
    for rank, (scattered, joined, added) in enumerate(ml.launch(mappings, ranks=4).values):
        assert torch.equal(scattered, torch.full((8, 1), float(rank)))
        assert torch.equal(joined, torch.arange(4.0).expand(8, 4))
        assert torch.equal(added, torch.full((8, 1), 6.0))


def two_axes() -> torch.Tensor:
    """In a rank: a 4 x 2 mesh, tensor parallel along its first axis, other weights on each of the second."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("stage", "tensor"))
    x = numbers(3, 10, seed=mesh.get_local_rank("stage"))
    out: torch.Tensor = tensor.ParallelMLP.from_full(filled(MLP(10, 18)), mesh.get_group("tensor"))(x)
    return out


def test_on_one_axis_of_a_mesh() -> None:
    """Would catch a layer that sums over the other axis too."""
    for rank, out in enumerate(ml.launch(two_axes, ranks=8).values):
        with torch.no_grad():
            assert error(out, filled(MLP(10, 18))(numbers(3, 10, seed=rank // 4))) < 1e-5
