"""Beside torch's own sequence-parallel styles: the same shards of the same block."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.distributed as dist
from tensor_runs import error, filled, numbers
from torch import Tensor

import mindlab as ml
from mindlab.models.layers import MLP, Block
from mindlab.parallel.sequence import SequenceParallelBlock, gather_sequence, scatter_sequence
from mindlab.parallel.shards import sequence_sizes
from mindlab.parallel.tensor import ParallelMLP

HIDDEN, HEADS = 24, 4


def styled(x: Tensor) -> list[Tensor]:
    """In a rank: this rank's shard of a block's result, by torch's styles and by ours."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    ranks, rank = dist.get_world_size(), dist.get_rank()
    gather = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1))
    norms = {name: SequenceParallel(use_local_output=True) for name in ("norm1", "norm2")}
    inside = {
        **{f"attention.{name}": columns for name in "qkv"},
        "mlp.up": columns,
        "attention.o": rows,
        "mlp.down": rows,
    }
    theirs = parallelize_module(
        filled(Block(HIDDEN, HEADS)),
        init_device_mesh("cpu", (ranks,)),
        {**norms, "attention": gather, "mlp": gather, **inside},
    )
    sizes = sequence_sizes(x.shape[1], ranks)
    mine = x.split(sizes, dim=1)[rank].contiguous()
    with torch.no_grad():
        ours = SequenceParallelBlock.from_full(filled(Block(HIDDEN, HEADS)))
        return [theirs(mine).clone(), ours(mine, sizes)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_beside_torchs_styles(ranks: int) -> None:
    """Would catch another result than torch's DTensor has. 16 positions, which 2 and 4 divide: torch takes a
    shard as it is given for one of equal ones.

    1e-5 of the largest value: float32 sums in another order.
    """
    x = numbers(2, 16, HIDDEN)
    with torch.no_grad():
        right = filled(Block(HIDDEN, HEADS))(x)
    values = ml.launch(styled, x, ranks=ranks, timeout=120).values
    for (theirs, ours), wanted in zip(values, right.tensor_split(ranks, dim=1), strict=True):
        assert error(theirs, wanted) < 1e-5 and error(ours, wanted) < 1e-5


def styled_mlp(x: Tensor) -> list[Tensor]:
    """In a rank: MLP between shards of the sequence, as torch's own test of its styles has it, and ours."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks, rank = dist.get_world_size(), dist.get_rank()
    plan = {
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    }
    theirs = parallelize_module(filled(MLP(10, 16)), init_device_mesh("cpu", (ranks,)), plan)
    mine = x.tensor_split(ranks)[rank].contiguous()
    sizes = [len(mine)] * ranks
    with torch.no_grad():
        ml.step("torch")
        out = theirs(mine).clone()
        ml.step("ours")
        ours = ParallelMLP.from_full(filled(MLP(10, 16)))
        whole = gather_sequence(mine[None], sizes)
        mlp_shard = scatter_sequence(ours.partial(whole), sizes)[0] + ours.down.bias
        return [out, mlp_shard]


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_pair_that_torch_counts(ranks: int) -> None:
    """Would catch more than the one all-gather and one reduce-scatter that torch's test finds for this MLP
    (8 x 10): ours are two rings, 2(p-1) messages each way."""
    x = numbers(8, 10)
    with torch.no_grad():
        right = filled(MLP(10, 16))(x).tensor_split(ranks)
    run = ml.launch(styled_mlp, x, ranks=ranks, timeout=120)
    for (theirs, ours), wanted in zip(run.values, right, strict=True):
        assert error(theirs, wanted) < 1e-5 and error(ours, wanted) < 1e-5
    calls = Counter(event.op for event in run.events if event.rank == 0 and event.label == "ours")
    assert calls == {"isend": 2 * (ranks - 1), "irecv": 2 * (ranks - 1)}
