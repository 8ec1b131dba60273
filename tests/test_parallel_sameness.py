"""same_on_every_rank: silent on equal tensors, and names what differs and where."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mindlab as ml
from mindlab.models.layers import MLP
from mindlab.parallel import tensor


def told(kind: str) -> str:
    """In a rank: what the check says about a layer that differs in this way."""
    rank = dist.get_rank()
    layer: nn.Module | torch.Tensor = MLP(6, 10)
    if kind == "random":
        torch.manual_seed(rank)
        layer = MLP(6, 10)
    elif kind == "one bit" and rank == 2:
        layer.down.bias.data.view(torch.int32)[3] ^= 1
    elif kind == "shape":
        layer = MLP(6, 10 + (rank == 1))
    elif kind == "missing":
        layer.up.bias = None if rank == 0 else layer.up.bias
    elif kind == "bfloat16":
        layer = layer.to(torch.bfloat16)
    elif kind == "a tensor":
        layer = torch.full((3,), float(rank == 1))
    elif kind == "strided":
        layer = torch.arange(6.0).reshape(2, 3).t()
    try:
        assert tensor.same_on_every_rank(layer) is None
    except ml.MindlabError as problem:
        return str(problem)
    return "same"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("alike", "same"),
        ("bfloat16", "same"),
        ("strided", "same"),
        ("random", "up.weight on ranks 1, 2 is not that of rank 0: seed every rank alike"),
        ("one bit", "down.bias on rank 2 is not that of rank 0:"),
        ("shape", "up.weight on rank 1 is not that of rank 0 ((10, 6) float32, (11, 6) float32)"),
        ("missing", "up.bias on ranks 1, 2 is not that of rank 0 ((10,) float32, missing)"),
        ("a tensor", "the tensor on rank 1 is not that of rank 0"),
    ],
)
def test_names_what_differs(kind: str, words: str) -> None:
    """Would catch a check that only one rank fails, one that misses a bit, one that cannot tell which."""
    for text in ml.launch(told, kind, ranks=3).values:
        assert text.startswith(words)


def test_costs_eight_bytes_and_stays_in_its_group() -> None:
    """Would catch a check that sends the weights, or that asks ranks outside the group."""

    def in_groups() -> str:
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        torch.manual_seed(dist.get_rank() % 2)
        tensor.same_on_every_rank(MLP(6, 10), groups[dist.get_rank() % 2])
        return "same"

    run = ml.launch(in_groups, ranks=4)
    assert run.values == ["same"] * 4 and run.sent.tolist() == [8] * 4
