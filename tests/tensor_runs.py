"""Tensor-parallel layers on ranks, and the same on one card from the same seed: what their tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from mindlab.models.layers import MLP, Attention, Block, GatedMLP
from mindlab.parallel import tensor

B, S, HIDDEN, VOCABULARY = 2, 5, 24, 29
"""S, the inner sizes and the vocabulary are divided by no number of ranks but 1 (HIDDEN by 2, 3, 4, 8)."""


def filled(module: nn.Module, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The module with weights of its size, and no bias or norm weight at its starting value."""
    draw = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1.0
            parameter.copy_(
                torch.randn(parameter.shape, generator=draw) * scale + (parameter.ndim == 1) * 0.5
            )
    return module.to(dtype).eval()


def numbers(*shape: int, seed: int = 3) -> torch.Tensor:
    """The same normal numbers on every rank and on one card."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


FULL: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(HIDDEN, 37),
    "mlp without bias": lambda: MLP(HIDDEN, 37, bias=False),
    "mlp of 5 features": lambda: MLP(HIDDEN, 5),
    "gated": lambda: GatedMLP(HIDDEN, 37),
    "gated with bias": lambda: GatedMLP(HIDDEN, 37, bias=True),
}
HEADS = {  # heads, kv_heads, head_dim: no head_dim equals the number of heads
    "8 heads": (8, 8, 3),
    "8 heads, 2 kv": (8, 2, 5),
    "8 heads, 1 kv": (8, 1, 5),
    "6 heads, 3 kv": (6, 3, 4),
    "12 heads, 2 kv": (12, 2, 7),
}


def full_layer(name: str) -> nn.Module:
    """The one-card layer of a case."""
    if name in FULL:
        return FULL[name]()
    kind, _, heads = name.partition(": ")
    q, kv, dim = HEADS[heads]
    if kind.startswith("attention"):
        return Attention(HIDDEN, q, kv, dim, causal="causal" in kind)
    gated, beside = "gated" in kind, "beside" in kind
    norm, mlp = (nn.RMSNorm, GatedMLP) if gated else (nn.LayerNorm, MLP)
    return Block(HIDDEN, q, kv, 37, head_dim=dim, norm=norm, mlp=mlp, parallel=beside)


def split(full: nn.Module, group: dist.ProcessGroup | None = None) -> nn.Module:
    """This rank's part of it."""
    kinds = {
        MLP: tensor.ParallelMLP,
        GatedMLP: tensor.ParallelGatedMLP,
        Attention: tensor.ParallelAttention,
        Block: tensor.ParallelBlock,
    }
    return kinds[type(full)].from_full(full, group)


def fitting(ranks: int) -> list[str]:
    """The cases that this many ranks can split."""
    kinds = [
        "attention",
        "attention, causal",
        "block",
        "block, gated",
        "block, beside",
        "block, gated, beside",
    ]
    heads = [
        name for name, (q, kv, _) in HEADS.items() if q % ranks == 0 and (kv % ranks == 0 or ranks % kv == 0)
    ]
    return [*FULL, *(f"{kind}: {name}" for kind in kinds for name in heads)]


def one_card(name: str, dtype: torch.dtype) -> torch.Tensor:
    """The case on one card."""
    with torch.no_grad():
        out: torch.Tensor = filled(full_layer(name), dtype)(numbers(B, S, HIDDEN).to(dtype))
    return out


def on_ranks(names: list[str], dtype: torch.dtype) -> dict[str, Any]:
    """In a rank: the result of each case, and whether input and full layer stayed as they were."""
    results = {}
    for name in names:
        full, x = filled(full_layer(name), dtype), numbers(B, S, HIDDEN).to(dtype)
        before = {key: value.clone() for key, value in full.state_dict().items()}
        part = split(full)
        out = part(x)
        same = all(torch.equal(before[key], value) for key, value in full.state_dict().items())
        results[name] = (out, same and torch.equal(x, numbers(B, S, HIDDEN).to(dtype)))
    return results


def error(out: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest wanted number (1 where that is smaller)."""
    assert out.shape == wanted.shape, (out.shape, wanted.shape)
    scale = max(1.0, float(wanted.double().abs().max()))
    return float((out.double() - wanted.double()).abs().max()) / scale
