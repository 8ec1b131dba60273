"""Queries, keys and values for the lessons of ring attention, and what one card makes of them."""

from __future__ import annotations

import torch

from mindlab.parallel.shards import split_sequence
from mindlab.teach import inputs
from mindlab.teach.lesson import Trial

Tensors = tuple[torch.Tensor, ...]
DIMS = ("batch", "sequence", "heads", "head_dim")


def whole(seed: int, trial: Trial) -> Tensors:
    """q, k and v of the whole sequence, batch 2; "kv_heads" may be fewer than "heads"."""
    heads = trial["heads"]
    kv_heads = trial.sizes.get("kv_heads", heads)
    shapes = {name: (2, trial["sequence"], count) for name, count in zip("qkv", (heads, kv_heads, kv_heads),
                                                                         strict=True)}  # fmt: skip
    return tuple(inputs.normal(seed, name, *shape, trial["head_dim"]) for name, shape in shapes.items())


def shards(seed: int, rank: int, trial: Trial) -> Tensors:
    """This rank's neighbouring part of each."""
    return tuple(inputs.part(x, rank, trial.ranks, dim=1) for x in whole(seed, trial))


def zigzag(seed: int, trial: Trial) -> tuple[list[torch.Tensor], ...]:
    """The zigzag shards of each, by rank."""
    return tuple(split_sequence(x, trial.ranks, layout="zigzag") for x in whole(seed, trial))


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Attention in float64, by plain products, in q's dtype: (batch, sequence, heads, head_dim)."""
    shared = q.shape[2] // k.shape[2]
    wide = [
        x.double().transpose(1, 2)
        for x in (q, k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2))
    ]
    scores = wide[0] @ wide[1].transpose(2, 3) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[2:], dtype=torch.bool).triu(1), -torch.inf)
    out: torch.Tensor = scores.softmax(-1) @ wide[2]
    return out.transpose(1, 2).to(q.dtype)
