"""Bytes held: weights against real shards, activations against autograd, attention against what it holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mindlab as ml
from mindlab.book.mathml import mathml
from mindlab.models.layers import MLP, Attention, Block, GatedMLP
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.tensor import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelBlock,
    ParallelGatedMLP,
    ParallelMLP,
    RowParallelLinear,
    VocabParallelEmbedding,
)
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.predict import layouts, memory

HIDDEN, HEADS = 24, 12


def held_weights(kv_heads: int) -> dict[str, int]:
    """In a rank: the bytes of the parameters of each parallel layer, bf16."""
    made = {
        "column": lambda: ColumnParallelLinear.from_full(nn.Linear(7, 10)),
        "row": lambda: RowParallelLinear.from_full(nn.Linear(10, 7)),
        "bare": lambda: RowParallelLinear.from_full(nn.Linear(10, 7, bias=False)),
        "mlp": lambda: ParallelMLP.from_full(MLP(HIDDEN, 31)),
        "gated": lambda: ParallelGatedMLP.from_full(GatedMLP(HIDDEN, 31)),
        "attention": lambda: ParallelAttention.from_full(Attention(HIDDEN, HEADS, kv_heads, 5)),
        "block": lambda: ParallelBlock.from_full(Block(HIDDEN, HEADS, kv_heads)),
        "rms": lambda: ParallelBlock.from_full(
            Block(HIDDEN, HEADS, kv_heads, 31, norm=nn.RMSNorm, mlp=GatedMLP, bias=False)
        ),
        "vocabulary": lambda: VocabParallelEmbedding.from_full(nn.Embedding(13, HIDDEN)),
    }
    layers = {name: make().to(torch.bfloat16) for name, make in made.items()}
    return {name: sum(w.nbytes for w in layer.parameters()) for name, layer in layers.items()}


@pytest.mark.parametrize(("ranks", "kv_heads"), [(1, 4), (2, 12), (3, 3), (3, 1), (4, 2), (4, 12)])
def test_weights_of_real_shards(ranks: int, kv_heads: int) -> None:
    """Would catch a bias cut that is whole, key-value heads that shrink below one, a norm left out."""
    e, kv = {"itemsize": 2}, {"kv_heads": kv_heads}
    right = {
        "column": memory.column_weights(7, 10, ranks, **e),
        "row": memory.row_weights(10, 7, ranks, **e),
        "bare": memory.row_weights(10, 7, ranks, bias=False, **e),
        "mlp": memory.mlp_weights(HIDDEN, 31, ranks, **e),
        "gated": memory.gated_mlp_weights(HIDDEN, 31, ranks, **e),
        "attention": memory.attention_weights(HIDDEN, HEADS, ranks, head_dim=5, **kv, **e),
        "block": memory.block_weights(HIDDEN, HEADS, ranks, **kv, **e),
        "rms": memory.block_weights(
            HIDDEN, HEADS, ranks, inner=31, gated=True, bias=False, norm_vectors=1, **kv, **e
        ),
        "vocabulary": memory.vocabulary_weights(13, HIDDEN, ranks, **e),
    }
    for rank, found in enumerate(ml.launch(held_weights, kv_heads, ranks=ranks).values):
        assert found == {name: weights.by_rank(ranks)[rank] for name, weights in right.items()}


class Plain(nn.Module):
    """A pre-norm layer whose attention is written out, so that autograd keeps what the paper lists."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.full = Block(hidden, heads, kv_heads, inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) from (B, S, hidden)."""
        block = self.full
        q, k, v = (t.transpose(1, 2).contiguous() for t in block.attention.qkv(block.norm1(x)))
        batch, heads, length, d = q.shape
        grouped = q.reshape(batch, k.shape[1], -1, d)  # the queries that share a key-value head, as more rows
        weights = (grouped @ k.transpose(2, 3)).softmax(-1)
        out = (weights @ v).reshape(batch, heads, length, d).transpose(1, 2).flatten(2)
        x = x + block.attention.o(out)
        after: torch.Tensor = block.mlp(block.norm2(x))
        return x + after


@pytest.mark.parametrize("shape", [(2, 9, 24, 4, 4, 96), (1, 16, 32, 4, 2, 40), (3, 5, 12, 6, 1, 31)])
def test_terms_are_what_autograd_keeps(shape: tuple[int, ...]) -> None:
    """Would catch a term counted twice or forgotten: without dropout, autograd keeps these storages only."""
    batch, length, hidden, heads, kv_heads, inner = shape
    layer = Plain(hidden, heads, kv_heads, inner)
    known = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(saved: torch.Tensor) -> torch.Tensor:
        if saved.untyped_storage().data_ptr() not in known:
            kept[saved.untyped_storage().data_ptr()] = saved
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        result = layer(torch.ones(batch, length, hidden, requires_grad=True))
    terms = memory.activation_terms(
        batch, length, hidden, heads, itemsize=4, kv_heads=kv_heads, inner=inner, dropout=False
    )
    norms = 2 * 2 * batch * length * 4  # each norm's mean and deviation, which the paper neglects
    found = sum(saved.untyped_storage().nbytes() for saved in kept.values())
    assert result.requires_grad and found == sum(term.value for term in terms.values()) + norms
    total = memory.activations(
        batch, length, hidden, heads, itemsize=4, kv_heads=kv_heads, inner=inner, dropout=False
    )
    assert total == found - norms


@pytest.mark.parametrize("p", [1, 2, 4, 8])
def test_activations_are_the_published_formulas(p: int) -> None:
    """Would catch a term on the wrong side of the cut: 10 whole, 24 cut; 34 with the sequence cut too."""
    b, s, h, a = 2, 48, 64, 8
    shape = (b, s, h, a, p)
    attention = 5 * a * s / h
    assert memory.activations(*shape[:4]) == s * b * h * (34 + attention)
    assert memory.activations(*shape) == s * b * h * ((10 + 24 / p if p > 1 else 34) + attention / p)
    assert memory.activations(*shape, sequence_parallel=True) == s * b * h * (34 + attention) / p
    assert memory.activations_selective(*shape, sequence_parallel=True) == 34 * s * b * h / p
    assert memory.activations_selective(*shape) == s * b * h * (10 + 24 / p)
    assert memory.activations_full(b, s, h) == 2 * s * b * h
    dry = memory.activation_terms(*shape, dropout=False)
    gone = [term.value for name, term in memory.activation_terms(*shape).items() if name not in dry]
    assert sum(gone) == s * b * h * 2 + 3 * a * s * s * b / p


def test_the_published_form_stands_only_where_it_holds() -> None:
    """Would catch the paper's 34 beside a number that is not its own."""
    shape = (1, 8, 16, 4)
    assert memory.activations(*shape).formula.startswith(r"s\,b\,h\left(34")
    for other in ({"itemsize": 4}, {"kv_heads": 2}, {"inner": 40}, {"dropout": False}):
        for form in (memory.activations, memory.activations_selective):
            assert "34" not in form(*shape, **other).formula, other


def test_uneven_sequences_and_widths_are_whole_bytes() -> None:
    """Would catch a mean in place of a rank's own bytes, and bytes that appear or vanish in the cut."""
    found = memory.activations(1, 10, 16, 4, 4, inner=30, sequence_parallel=True)
    assert found.per_rank is not None and all(isinstance(nbytes, int) for nbytes in found.per_rank)
    assert sum(found.per_rank) == memory.activations(1, 10, 16, 4, inner=30).value


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_kv_cache_is_the_tensors(kv_heads: int, ranks: int) -> None:
    """Would catch keys without values, and a cache that goes on shrinking with too few heads."""
    whole = torch.empty(3, 2, 2, 7, kv_heads, 5, dtype=torch.bfloat16)  # layers, k and v, batch, …
    own = whole[..., : max(1, kv_heads // ranks), :]
    found = memory.kv_cache(2, 7, kv_heads, 5, itemsize=2, layers=3, ranks=ranks)
    assert found == own.numel() * 2


def peak(which: str, shape: tuple[int, ...], layout: str, dtype: torch.dtype) -> int:
    """In a rank: the most bytes that one attention held beside its inputs.

    The least of ten, for gloo's thread can hold what it sent for a moment after the call returned.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batch, length, heads, kv_heads, d = shape
    sizes = layouts.lengths(length, ranks, layout)
    q, k, v = (torch.ones(batch, sizes[rank], count, d, dtype=dtype) for count in (heads, kv_heads, kv_heads))
    peaks = []
    for _ in range(10):
        with ml.ExtraMemory() as extra:
            if which == "ring":
                ring_attention(q, k, v, causal=layout == "zigzag", layout=layout, sizes=sizes)
            else:
                ulysses_attention(q, k, v, sizes=sizes)
        peaks.append(extra.peak)
    return min(peaks)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("which", "layout"), [("ring", "contiguous"), ("ring", "zigzag"), ("ulysses", "contiguous")]
)
def test_attention_holds_what_the_formula_says(
    which: str, layout: str, dtype: torch.dtype, ranks: int
) -> None:
    """Would catch a whole sequence held where a shard should be, and a formula with a block too many.

    From below: zigzag's first rank has half a part in its steps. From above: one working block, which is the
    queries in float32, and four numbers a query and head for the kernel's copies of the LSE.
    """
    for shape in ((1, 512, 8, 8, 64), (2, 510, 8, 2, 32)):
        batch, length, heads, _, d = shape
        given = {"itemsize": dtype.itemsize, **({"layout": layout} if which == "ring" else {})}
        terms = getattr(memory, f"{which}_attention_terms")(*shape, ranks, **given)
        total = getattr(memory, f"{which}_attention_held")(*shape, ranks, **given)
        found = ml.launch(peak, which, shape, layout, dtype, ranks=ranks).values
        for rank in range(ranks):
            inputs = sum(terms[name].by_rank(ranks)[rank] for name in ("queries", "keys", "values"))
            formula = total.by_rank(ranks)[rank] - inputs
            block = batch * heads * -(-length // ranks) * (4 * d + 4 * 4)
            assert 0.75 * formula < found[rank] <= formula + block, (shape, rank)


WHOLE: dict[str, dict[str, Any]] = {
    "column_weights": {"inputs": 6, "outputs": 8, "ranks": 4, "itemsize": 2},
    "row_weights": {"inputs": 6, "outputs": 8, "ranks": 4, "itemsize": 2},
    "mlp_weights": {"hidden": 6, "inner": 8, "ranks": 4, "itemsize": 2},
    "gated_mlp_weights": {"hidden": 6, "inner": 8, "ranks": 4, "itemsize": 2},
    "attention_weights": {"hidden": 8, "heads": 4, "ranks": 4, "itemsize": 2},
    "block_weights": {"hidden": 8, "heads": 4, "ranks": 4, "itemsize": 2},
    "vocabulary_weights": {"vocabulary": 9, "hidden": 8, "ranks": 4, "itemsize": 2},
    "activations": {"batch": 1, "sequence": 4, "hidden": 8, "heads": 4, "ranks": 4},
    "activations_selective": {"batch": 1, "sequence": 4, "hidden": 8, "heads": 4, "ranks": 4},
    "activation_terms": {"batch": 1, "sequence": 4, "hidden": 8, "heads": 4, "ranks": 4},
    "activations_full": {"batch": 1, "sequence": 4, "hidden": 8},
    "kv_cache": {"batch": 1, "sequence": 4, "kv_heads": 4, "head_dim": 2, "ranks": 4, "itemsize": 2},
    "kv_cache_shard": {"batch": 1, "sequence": 4, "kv_heads": 4, "head_dim": 2, "ranks": 4, "itemsize": 2},
    "latent_cache": {"batch": 1, "sequence": 4, "latent": 4, "rope": 2, "ranks": 4, "itemsize": 2},
}
MODELS = {"model_weights", "model_terms"}
"""Take an architecture: tested in test_predict_passes."""
for _name in ("ring", "ulysses"):
    for _kind in ("held", "terms"):
        WHOLE[f"{_name}_attention_{_kind}"] = {
            "batch": 1, "sequence": 4, "heads": 4, "kv_heads": 4, "head_dim": 2, "ranks": 4, "itemsize": 2
        }  # fmt: skip


def test_every_function_is_tried() -> None:
    """Would catch a new function of `ml.memory` that no test below sees."""
    assert set(WHOLE) | MODELS == set(memory.__all__)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_every_quantity_is_whole_and_bad_input_refused(name: str) -> None:
    """Would catch a formula that no page can set, a missing source, and a number for what cannot be."""
    found = getattr(memory, name)(**WHOLE[name])
    for quantity in found.values() if isinstance(found, dict) else [found]:
        assert quantity.unit == "B" and quantity.source and mathml(quantity.formula) and quantity.value > 0
        assert quantity.name and len(quantity.by_rank(WHOLE[name].get("ranks", 1))) >= 1
    for key in WHOLE[name]:
        for bad in (-1, 2.5, True):
            with pytest.raises(ValueError, match=rf"{key}={bad}: give"):
                getattr(memory, name)(**{**WHOLE[name], key: bad})


def test_refusals_with_their_remedy() -> None:
    """Would catch a sentence without a way out."""
    with pytest.raises(
        ValueError, match=r"hidden=10 does not split into 4 heads: choose a divisor of 10 \(1, 2"
    ):
        memory.attention_weights(10, 4, 2, itemsize=2)
    with pytest.raises(
        ValueError, match=r"ranks=4 cannot split 6 heads of keys .* a divisor of 6 \(1, 2, 3, 6\)"
    ):
        memory.kv_cache(1, 4, 6, 2, itemsize=2, ranks=4)
    with pytest.raises(ValueError, match="layout='zig' is unknown"):
        memory.ring_attention_held(1, 4, 4, 4, 2, 2, itemsize=2, layout="zig")
