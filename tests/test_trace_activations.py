"""Bytes that a layer keeps: measured, and held against Korthikanti et al. 2022 term by term."""

from __future__ import annotations

import doctest
from collections import Counter
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.models.layers import Block
from mindlab.parallel.sequence import SequenceParallelBlock
from mindlab.parallel.tensor import ParallelBlock
from mindlab.predict.activations import activation_terms
from mindlab.trace import activations
from mindlab.trace.activations import live_activations, saved_activations

B, S, HIDDEN, HEADS = 2, 36, 96, 12
DTYPES = {2: torch.bfloat16, 4: torch.float32}


def split(how: str, itemsize: int) -> tuple[Any, ...]:
    """On a rank: a block, split or whole, and what it takes."""
    torch.manual_seed(0)
    full = Block(HIDDEN, HEADS).to(DTYPES[itemsize])
    x = torch.randn(B, S, HIDDEN).to(DTYPES[itemsize])
    if how == "whole":
        return full, x
    if how == "tensor":
        return ParallelBlock.from_full(full), x
    shards = x.tensor_split(dist.get_world_size(), dim=1)
    mine = shards[dist.get_rank()].clone()
    return SequenceParallelBlock.from_full(full), mine, [shard.shape[1] for shard in shards]


def terms(how: str, itemsize: int, ranks: int) -> dict[str, int]:
    """The formula's terms that this layer has: no dropout, and a fused softmax that is not kept."""
    found = activation_terms(
        B, S, HIDDEN, HEADS, ranks, itemsize=itemsize, sequence_parallel=how == "sequence", dropout=False
    )
    return {name: int(term.value) for name, term in found.items() if name != "softmax"}


def statistics(how: str, itemsize: int, ranks: int) -> int:
    """Left out by the formula: mean and 1/deviation of two norms; the softmax's log-sum-exp, in float32."""
    tokens = B * S // (ranks if how == "sequence" else 1)
    return 2 * 2 * tokens * itemsize + B * S * HEADS // ranks * 4


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(
    ("how", "ranks"), [("whole", 1), ("tensor", 3), ("tensor", 4), ("sequence", 3), ("sequence", 4)]
)
def test_saved_bytes_are_the_terms_of_the_formula(how: str, ranks: int, itemsize: int) -> None:
    """Would catch a tensor counted twice or not at all, weights among activations, a split that keeps more.

    The paper gathers the inputs of the column layers again in backward and keeps their shards; here they are
    kept as gathered, so that under sequence parallel these two terms stand p times.
    """
    run = ml.launch(lambda: saved_activations(*split(how, itemsize)), ranks=ranks)
    wanted = terms(how, itemsize, ranks)
    if how == "sequence":
        wanted["qkv_input"] *= ranks
        wanted["mlp_input"] *= ranks
    for rows in run.values:
        assert sum(row.nbytes for row in rows) == sum(wanted.values()) + statistics(how, itemsize, ranks)
        assert not Counter(wanted.values()) - Counter(row.nbytes for row in rows)


def test_the_rows_of_one_layer() -> None:
    """Would catch a name or a shape of another operation: a reader takes the terms from this table."""
    rows = ml.launch(lambda: saved_activations(*split("sequence", 2)), ranks=4).values[3]
    whole, shard, own = B * S * HIDDEN * 2, B * S * HIDDEN * 2 // 4, B * S * HIDDEN * 2 // 4
    large = [(row.op, row.nbytes) for row in rows if row.nbytes >= shard]
    attention = [("attention", own)] * 4  # queries, keys, values, and what o takes
    assert large == [
        ("layer_norm", shard),
        ("linear", whole),
        *attention,
        ("layer_norm", shard),
        ("linear", whole),
        ("gelu", 4 * own),
        ("linear", 4 * own),
    ]
    assert {row.dtype for row in rows if row.nbytes >= shard} == {"bfloat16"}


def test_a_softmax_that_is_written_out_is_kept() -> None:
    """Would catch a meter that is blind to the term that grows with the square of the sequence."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Linear(8, 8, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = self.weight(x)
            return torch.softmax(q @ q.mT, dim=-1) @ q

    rows = saved_activations(Plain(), torch.randn(3, 50, 8))
    assert [row.nbytes for row in rows if row.op == "softmax"] == [3 * 50 * 50 * 4]


def test_the_layer_is_left_as_it_was() -> None:
    """Would catch frozen weights that stay trainable, hooks that stay, or autograd left on."""
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).requires_grad_(False)
    layer[0].bias.requires_grad_(True)
    x = torch.ones(2, 4)
    with torch.no_grad():
        assert saved_activations(layer, x) and not torch.is_grad_enabled()
    live_activations(layer, x)
    assert [weight.requires_grad for weight in layer.parameters()] == [False, True]
    assert not any(part._forward_pre_hooks for part in layer.modules())
    assert torch.is_grad_enabled() and x.grad is None and not x.requires_grad


def test_a_layer_that_fails_is_left_as_it_was() -> None:
    """Would catch hooks that stay after a wrong shape."""
    layer = nn.Linear(4, 4).requires_grad_(False)
    for measure in (saved_activations, live_activations):
        with pytest.raises(RuntimeError):
            measure(layer, torch.ones(2, 5))
    assert not layer.weight.requires_grad and not layer._forward_pre_hooks


def test_no_backward_comes() -> None:
    """Would catch a backward pass that runs on nothing and gives a gradient."""
    kept: list[torch.Tensor] = []

    class Keeps(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept.append(super().forward(x))
            return kept[0]

    saved_activations(Keeps(3, 3), torch.ones(2, 3))
    with pytest.raises(MindlabError, match="run the layer again"):
        kept[0].sum().backward()


@pytest.mark.parametrize("ranks", [3, 4])
def test_what_a_running_layer_holds(ranks: int) -> None:
    """Would catch a whole norm's output or residual on a shard's rank, a gathered tensor that lives on while
    the sum is made, or a meter that does not count what the caller holds.

    Between attention and MLP: x and the residual, whole under tensor parallel, else in shards. At most these,
    the norm's output, gathered, and the MLP's inside before and after GeLU. Under tensor parallel gloo's
    thread may hold one all-reduced tensor a little longer.
    """
    one = B * S * HIDDEN * 4
    run = ml.launch(
        lambda: (live_activations(*split("tensor", 4)), live_activations(*split("sequence", 4))), ranks=ranks
    )
    for tensor, sequence in run.values:
        assert sequence["norm1"] == one // ranks
        assert sequence["norm2"] == 2 * one // ranks
        assert sequence["mlp.up"] == 2 * one // ranks + one
        assert sequence["peak"] == 2 * one // ranks + one + 8 * one // ranks
        assert tensor["norm1"] == one
        assert tensor["norm2"] in (2 * one, 3 * one)
        assert tensor["mlp.up"] in (3 * one, 4 * one)
        assert tensor["peak"] in (3 * one + 8 * one // ranks, 4 * one + 8 * one // ranks)


@pytest.mark.parametrize("name", ["saved_activations", "live_activations"])
def test_examples(name: str) -> None:
    """Would catch an example that was right once."""
    scope = {**vars(activations), "F": F}
    test = doctest.DocTestParser().get_doctest(scope[name].__doc__, scope, name, None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
