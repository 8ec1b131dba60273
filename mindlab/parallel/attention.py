"""Attention that also gives the log-sum-exp (LSE) of its scores: what a merge of partial results needs.

The LSE of a query is log sum_j exp(scale · q·k_j) over the keys it sees, the natural logarithm, in float32.
Tensors are (batch, sequence, heads, head_dim), the LSE (batch, heads, sequence). With fewer key and value
heads than query heads, query head h uses key head h // (heads / kv_heads).
"""

from __future__ import annotations

import torch

from mindlab.parallel import kernels
from mindlab.parallel.merge import EMPTY
from mindlab.predict.heads import check_groups
from mindlab.predict.layouts import pairs_up_to
from mindlab.trace import recorder

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v in q's dtype, and the LSE (batch, heads, queries) in float32.

    `causal` is aligned at the end: query i sees the keys j <= i + keys - queries. A query that sees no key
    has output 0 and LSE -inf. `scale` is head_dim ** -0.5 if not given. `kernels.choose_kernel(q, k, v)` says
    which kernel is used. Raises ValueError if the shapes, dtypes or devices do not fit.

    >>> out, lse = attention_with_lse(torch.zeros(1, 2, 1, 8), torch.ones(1, 4, 1, 8), torch.ones(1, 4, 1, 8))
    >>> out.shape, lse.exp().tolist()
    (torch.Size([1, 2, 1, 8]), [[[4.0, 4.0]]])
    """
    check_attention(q, k, v)
    queries, keys = q.shape[1], k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    blind = blind_queries(queries, keys, causal)
    _state_work(q, k, v, causal)
    if blind == queries or not q.numel():
        return _unseen(q, v, queries)
    out, lse = kernels.choose_kernel(q, k, v)(q[:, blind:], k, v, causal, scale)
    if not blind:
        return out, lse
    none, empty = _unseen(q, v, blind)
    return torch.cat([none, out], 1), torch.cat([empty, lse], 2)


def plain_attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `attention_with_lse` returns, by ordinary torch functions: what kernels are tested against.

    It works on `kernels.BLOCK` scores at one time, never on all of them for a long sequence.

    >>> q = torch.zeros(1, 2, 1, 8)
    >>> plain_attention_with_lse(q, q, q, causal=True)[1].exp().tolist()
    [[[1.0, 2.0]]]
    """
    check_attention(q, k, v)
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    return kernels.plain(q, k, v, causal, scale)


def visible_pairs(queries: int, keys: int, causal: bool) -> int:
    """How many (query, key) pairs have a score; the work of attention is 4 · batch · heads · head_dim each.

    >>> visible_pairs(4, 4, causal=True), visible_pairs(2, 5, causal=True), visible_pairs(5, 2, causal=True)
    (10, 9, 3)
    """
    return pairs_up_to(queries, keys, keys - queries if causal else keys)


def blind_queries(queries: int, keys: int, causal: bool) -> int:
    """How many queries, the first ones, see no key.

    >>> blind_queries(5, 2, causal=True), blind_queries(5, 2, causal=False), blind_queries(5, 0, causal=False)
    (3, 0, 5)
    """
    return max(0, queries - keys) if causal or not keys else 0


def check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ValueError if q, k and v cannot go into one attention."""
    shown = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"{shown}: each must be (batch, sequence, heads, head_dim)")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0]:
        raise ValueError(f"{shown}: k and v must have one batch, sequence and heads, and q the same batch")
    if q.shape[3] != k.shape[3] or not q.shape[3]:
        raise ValueError(f"{shown}: q and k must have one head_dim, 1 or more")
    check_groups(q.shape[2], k.shape[2])
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        listed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}: give one floating-point dtype, {listed}")
    if not q.device == k.device == v.device:
        raise ValueError(f"q is on {q.device}, k on {k.device}, v on {v.device}: put them on one device")


def _state_work(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> None:
    """Tell the record what is computed: q kᵀ and its product with v; q, k, v read, the output written."""
    batch, queries, heads, dim = q.shape
    pairs = batch * heads * visible_pairs(queries, k.shape[1], causal)
    values = 0 if k.numel() and v.data_ptr() == k.data_ptr() else v.numel()  # a view of k is read once
    numbers = q.numel() + k.numel() + values + batch * queries * heads * v.shape[-1]
    recorder.compute(2 * (dim + v.shape[-1]) * pairs, nbytes=numbers * q.element_size(), what="attention")


def _unseen(q: torch.Tensor, v: torch.Tensor, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    batch, _, heads, _ = q.shape
    lse = torch.full((batch, heads, queries), EMPTY, dtype=torch.float32, device=q.device)
    return q.new_zeros(batch, queries, heads, v.shape[-1]), lse
