"""Inputs of attention that hide nothing, and the right result by a form of its own: every score at once."""

from __future__ import annotations

import torch

NOTHING = float("-inf")


def qkv(
    queries: int,
    keys: int,
    *,
    heads: int = 4,
    kv_heads: int = 4,
    dim: int = 12,
    batch: int = 2,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Seeded q, k, v: batch 2, values that differ by position, head_dim other than heads and lengths."""
    draw = torch.Generator().manual_seed(seed)
    shapes = [(batch, queries, heads, dim), (batch, keys, kv_heads, dim), (batch, keys, kv_heads, dim)]
    q, k, v = (torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype) for shape in shapes)
    return q, k, v


def exact(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and LSE in float64 from the full table of scores, heads repeated, as the definition says."""
    q, k, v = q.double(), k.double(), v.double()
    shared = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    queries, keys = q.shape[1], k.shape[1]
    if causal:
        seen = torch.arange(keys) <= torch.arange(queries)[:, None] + keys - queries
        scores = scores.masked_fill(~seen, NOTHING)
    weights = torch.nan_to_num(torch.softmax(scores, -1), nan=0.0)
    return torch.einsum("bhij,bjhd->bihd", weights, v), torch.logsumexp(scores, -1)


def apart(got: torch.Tensor, right: torch.Tensor) -> float:
    """The greatest difference; infinities must stand in the same places."""
    got, right = got.double(), right.double()
    if got.shape != right.shape or not torch.equal(got.isinf(), right.isinf()):
        return float("inf")
    return float((got - right)[right.isfinite()].abs().max()) if right.isfinite().any() else 0.0
