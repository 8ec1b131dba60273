"""The one-card layers: right against the formula written out, clear about what does not divide."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mindlab.models import layers
from mindlab.models.layers import MLP, Attention, Block, GatedMLP

B, S, HIDDEN = 2, 7, 24


def draw(*shape: int) -> torch.Tensor:
    """Numbers that are the same in every test."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def by_hand(layer: Attention, x: torch.Tensor) -> torch.Tensor:
    """Attention head by head and query by query, in float64."""
    layer, x = layer.double(), x.double()
    q, k, v = layer.q(x), layer.k(x), layer.v(x)
    d, out = layer.head_dim, torch.zeros(*x.shape[:2], layer.heads * layer.head_dim, dtype=torch.float64)
    for head in range(layer.heads):
        kv = head // (layer.heads // layer.kv_heads)
        for i in range(x.shape[1]):
            seen = i + 1 if layer.causal else x.shape[1]
            keys, values = (t[:, :seen, kv * d : (kv + 1) * d] for t in (k, v))
            scores = (keys @ q[:, i, head * d : (head + 1) * d, None]).squeeze(-1) / math.sqrt(d)
            out[:, i, head * d : (head + 1) * d] = (scores.softmax(-1)[..., None] * values).sum(1)
    return layer.o(out)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"), [(4, 4, None), (6, 2, None), (4, 1, 5), (3, 3, 16)]
)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_by_hand(heads: int, kv_heads: int, head_dim: int | None, causal: bool) -> None:
    """Would catch softmax over the heads, a wrong query-to-key-head map, a wrong scale, a look ahead."""
    layer, x = Attention(HIDDEN, heads, kv_heads, head_dim, causal=causal), draw(B, S, HIDDEN)
    out = layer(x)
    # float32 sums of some dozens of terms of size 1
    torch.testing.assert_close(out.double(), by_hand(layer, x), atol=1e-5, rtol=0)


def test_mlps_by_hand() -> None:
    """Would catch the tanh GeLU (4e-4 off), a gate on the wrong side, a forgotten bias."""
    x = draw(B, S, HIDDEN).double()
    mlp, gated = MLP(HIDDEN, 40).double(), GatedMLP(HIDDEN, 40, bias=True).double()
    up = x @ mlp.up.weight.T + mlp.up.bias
    wanted = (up * (1 + torch.erf(up / 2**0.5)) / 2) @ mlp.down.weight.T + mlp.down.bias
    torch.testing.assert_close(mlp(x), wanted, atol=1e-12, rtol=0)
    gate = x @ gated.gate.weight.T + gated.gate.bias
    inner = gate / (1 + torch.exp(-gate)) * (x @ gated.up.weight.T + gated.up.bias)
    torch.testing.assert_close(gated(x), inner @ gated.down.weight.T + gated.down.bias, atol=1e-12, rtol=0)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("mlp", [MLP, GatedMLP])
def test_a_block_in_both_forms(norm: type[nn.Module], mlp: type[MLP]) -> None:
    """Would catch a residual that is missing, a norm used twice, two forms that compute the same."""
    x = draw(B, S, HIDDEN)
    for parallel in (False, True):
        block = Block(HIDDEN, 4, 2, norm=norm, mlp=mlp, parallel=parallel)
        with torch.no_grad():
            block.norm2.weight.mul_(3)
        first = x + block.attention(block.norm1(x))
        into = x if parallel else first
        torch.testing.assert_close(block(x), first + block.mlp(block.norm2(into)), atol=1e-5, rtol=0)
        assert isinstance(block.mlp, mlp) and isinstance(block.norm1, norm)


def test_the_same_seed_gives_the_same_layer() -> None:
    """Would catch an initialisation that does not come from torch's seed."""
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        made.append(Block(HIDDEN, 4, 2)(draw(B, S, HIDDEN)))
    assert torch.equal(*made)


def test_defaults() -> None:
    """Would catch an inner size or a bias that differs from what is promised."""
    block = Block(HIDDEN, 4)
    assert block.mlp.up.out_features == 4 * HIDDEN and block.attention.kv_heads == 4
    assert block.attention.head_dim == 6 and block.attention.causal
    assert all(layer.bias is not None for layer in (block.attention.q, block.attention.o, block.mlp.down))
    assert MLP(8, 16, bias=False).up.bias is None and GatedMLP(8, 16).gate.bias is None
    assert not F.gelu(block.mlp.up.bias).eq(0).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Attention(24, 5), r"hidden=24 does not split into 5 heads.*1, 2, 3, 4, 6, 8, 12, 24"),
        (lambda: Attention(24, 4, 3), r"kv_heads=3 cannot serve 4 query heads.*\(1, 2, 4\)"),
        (lambda: Block(24, 4, 8), r"kv_heads=8 cannot serve 4 query heads"),
    ],
)
def test_what_does_not_divide_is_refused(make: object, words: str) -> None:
    """Would catch heads that are cut off in silence."""
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


def test_the_examples_run() -> None:
    """Would catch an example that was right once."""
    assert doctest.testmod(layers).failed == 0 and doctest.testmod(layers).attempted >= 4
