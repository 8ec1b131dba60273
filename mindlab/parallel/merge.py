"""Merging attention over parts of the keys by the log-sum-exp (LSE) of their scores.

A part's softmax divided by the sum over its own keys, exp(lse). Weighted with its share of the sum over all
keys, it counts for what it is: out = sum_i exp(l_i - m) out_i / sum_i exp(l_i - m), lse = m + log sum_i
exp(l_i - m), with m = max l_i, so that no exponential overflows. A part in which a query saw no key has the
LSE -inf there and counts for nothing; its output is not even read. The merge is associative and commutative
up to rounding, and (0, -inf) is its identity. FlashInfer (Ye et al. 2025), section 2.2.

Outputs are (batch, sequence, heads, head_dim), LSE (batch, heads, sequence) in float32. Sums are made in
float32, also of bfloat16 parts, in float64 of float64 ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import torch

EMPTY = float("-inf")
"""The LSE of a query that sees no key: the logarithm of an empty sum."""

NPU_PARTS = 16
"""How many parts npu_attention_update merges at most."""


def merge_lse(
    outs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output (in the parts' dtype) and LSE (float32) over all the parts' keys.

    Raises ValueError if shapes do not fit, an LSE is of half precision (it would cost digits that the weights
    need), or is +inf: flash-attention 2 writes that for a query that saw no key, where -inf is meant.

    >>> out, lse = merge_lse([torch.ones(1, 1, 1, 8), 3 * torch.ones(1, 1, 1, 8)], [torch.zeros(1, 1, 1)] * 2)
    >>> round(out[0, 0, 0, 0].item(), 3), round(lse.item(), 3)
    (2.0, 0.693)
    """
    _check(outs, lses)
    if outs[0].device.type == "npu" and npu_merges(outs[0]):
        return npu_merge(outs, lses)
    top = torch.stack(list(lses)).amax(0)
    weights = [_weight(lse, top) for lse in lses]
    total = torch.stack(weights).sum(0)
    wide = torch.promote_types(outs[0].dtype, torch.float32)
    merged = torch.zeros(outs[0].shape, dtype=wide, device=outs[0].device)
    for out, lse, weight in zip(outs, lses, weights, strict=True):
        merged = merged + _by_query(weight).to(wide) * _seen(out, lse)
    merged = merged / _by_query(total.clamp_min(1)).to(wide)
    return merged.to(outs[0].dtype), (top + total.log()).float()


class Running:
    """Parts merged one after another, in place: never more memory than the result and one part.

    Holds sum_i exp(l_i - m) out_i in float32, sum_i exp(l_i - m), and m, the greatest LSE so far. Parts are
    those of `attention_with_lse`: output 0 where the LSE is -inf. The first one is taken over, not copied.

    >>> running = Running(torch.ones(1, 1, 1, 8), torch.zeros(1, 1, 1))
    >>> running.add(3 * torch.ones(1, 1, 1, 8), torch.zeros(1, 1, 1))
    >>> running.out[0, 0, 0, 0].item()
    2.0
    """

    def __init__(self, out: torch.Tensor, lse: torch.Tensor) -> None:
        self._dtype = out.dtype
        self._sum = out.to(torch.promote_types(out.dtype, torch.float32))
        self._top = lse
        self._total = (lse != EMPTY).to(lse.dtype)

    def add(self, out: torch.Tensor, lse: torch.Tensor, first: int = 0) -> None:
        """Merge a part for the queries from `first` on."""
        total, top = self._total[:, :, first:], self._top[:, :, first:]
        summed = self._sum[:, first:]
        highest = torch.maximum(top, lse)
        keep, weight = _weight(top, highest), _weight(lse, highest)
        total.mul_(keep).add_(weight)
        summed.mul_(_by_query(keep)).addcmul_(out.to(summed.dtype), _by_query(weight))
        top.copy_(highest)

    @property
    def out(self) -> torch.Tensor:
        """The output over all parts so far, in the dtype of the first."""
        return (self._sum / _by_query(self._total.clamp_min(1))).to(self._dtype)

    @property
    def lse(self) -> torch.Tensor:
        """The LSE over all parts so far."""
        return self._top + self._total.log()


def npu_merges(out: torch.Tensor) -> bool:
    """Whether Ascend's merge kernel takes outputs like this one: head_dim 8 to 512, a multiple of 8."""
    try:
        torch_npu = importlib.import_module("torch_npu")
    except ImportError:
        return False
    dim = out.shape[-1]
    fits = 8 <= dim <= 512 and dim % 8 == 0 and out.numel() > 0 and out.dtype != torch.float64
    return fits and hasattr(torch_npu, "npu_attention_update")


def npu_merge(
    outs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same as `merge_lse` by npu_attention_update, 16 parts at a time, in float32.

    Held to the kernel's description by a test with a stand-in; not yet shown on a card. What the kernel makes
    of rows that no part saw is not described: they are put right afterwards.
    """
    kernel = importlib.import_module("torch_npu").npu_attention_update
    shape, dim = outs[0].shape, outs[0].shape[-1]
    flat = [_seen(out, lse).float().reshape(-1, dim) for out, lse in zip(outs, lses, strict=True)]
    rows = [lse.float().transpose(1, 2).reshape(-1) for lse in lses]
    while len(flat) > 1:
        out, lse = kernel(rows[:NPU_PARTS], flat[:NPU_PARTS], 1)
        unseen = torch.stack(rows[:NPU_PARTS]).amax(0) == EMPTY
        flat = [out.masked_fill(unseen[:, None], 0.0), *flat[NPU_PARTS:]]
        rows = [lse.reshape(-1).masked_fill(unseen, EMPTY), *rows[NPU_PARTS:]]
    merged = rows[0].reshape(shape[0], shape[1], shape[2]).transpose(1, 2)
    return flat[0].reshape(shape).to(outs[0].dtype), merged.contiguous()


def _weight(lse: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """exp(lse - top), 0 where nothing was seen: there both are -inf, and their difference is NaN."""
    return (lse - top.masked_fill(top == EMPTY, 0.0)).exp()


def _seen(out: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """The output, 0 where no key was seen: some kernels leave NaN there, and 0 times NaN is NaN."""
    return out.masked_fill(_by_query(lse == EMPTY), 0.0)


def _by_query(of_heads: torch.Tensor) -> torch.Tensor:
    """(batch, heads, sequence) as (batch, sequence, heads, 1), to stand beside an output."""
    return of_heads.transpose(1, 2).unsqueeze(-1)


def _check(outs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]) -> None:
    if not outs or len(outs) != len(lses):
        raise ValueError(f"{len(outs)} outputs and {len(lses)} LSE cannot be merged: give one LSE an output")
    for index, (out, lse) in enumerate(zip(outs, lses, strict=True)):
        if out.shape != outs[0].shape or out.dtype != outs[0].dtype or out.ndim != 4:
            raise ValueError(
                f"part {index} is {tuple(out.shape)} of {out.dtype}, part 0 {tuple(outs[0].shape)} of "
                f"{outs[0].dtype}: all must be (batch, sequence, heads, head_dim) of one shape and dtype"
            )
        batch, queries, heads, _ = out.shape
        if lse.shape != (batch, heads, queries):
            raise ValueError(
                f"lses[{index}] is {tuple(lse.shape)}: for an output {tuple(out.shape)} it must be (batch, "
                f"heads, sequence), {(batch, heads, queries)}"
            )
        if lse.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"lses[{index}] is {lse.dtype}: keep the LSE in float32, also of half outputs")
        if bool((lse == float("inf")).any()):
            raise ValueError(
                f"lses[{index}] holds +inf: if it means that a query saw no key, as flash-attention 2 writes "
                "it, give lse.masked_fill(lse == inf, -inf)"
            )
