"""The ways to compute attention with its LSE on one device, and which of them is used.

    plain        ordinary torch functions: everywhere, every dtype, with gradients
    cpu_flash    torch's fused kernel for CPUs
    npu_fused    Ascend's fused kernel for inference

All take q (batch, queries, heads, head_dim), k and v (batch, keys, kv_heads, head_dim), whether the mask is
causal (query i sees the keys up to i + keys - queries), and the scale of the scores. They return the output
in q's dtype and the LSE (batch, heads, queries) in float32. The fused ones are only given queries that all
see a key: what they write for the others differs from kernel to kernel (torch's CPU kernel writes the LSE 0,
and ends the process when there are no keys).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import torch

from mindlab.parallel.merge import EMPTY, merge_lse

Result = tuple[torch.Tensor, torch.Tensor]
Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool, float], Result]

BLOCK = 2**20
"""How many scores the plain form holds at one time: 4 MiB of float32."""


def choose_kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Kernel:
    """The fastest kernel that is right for these tensors; `plain` where no other is known to be.

    Plain too when a gradient is wanted: the fused kernels have none for the LSE.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        return plain
    if q.device.type == "npu" and npu_takes(q, v):
        return npu_fused
    if q.device.type == "cpu" and v.shape[-1] == q.shape[-1] and cpu_flash_agrees(q.dtype):
        return cpu_flash
    return plain


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> Result:
    """Attention a block of queries at a time, never more than `BLOCK` scores at one time.

    (One row of scores for every head, if that is more. With their mask and weights that is about 3.4 times
    as many bytes.) Computed in float32, float64 for float64.
    """
    batch, queries, heads, _ = q.shape
    keys = k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = k.to(wide).transpose(1, 2), v.to(wide).transpose(1, 2)
    rows = max(1, BLOCK // max(1, batch * heads * keys))
    outs, lses = [], []
    for first in range(0, queries, rows):
        block = q[:, first : first + rows].to(wide) * scale
        out, lse = _plain_block(block, k, v, first + keys - queries if causal else keys)
        outs.append(out.to(q.dtype))
        lses.append(lse.float())
    if not outs:
        return q.new_zeros(batch, 0, heads, v.shape[-1]), q.new_zeros(batch, heads, 0, dtype=torch.float32)
    return torch.cat(outs, 1), torch.cat(lses, 2)


def _plain_block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, last: int) -> Result:
    """For a block of scaled queries, the first of which sees keys 0 to `last`, the next one more, and so on.

    k and v are (batch, kv_heads, keys, head_dim). The query heads that share a key head are stacked as rows.
    """
    batch, rows, heads, dim = q.shape
    shared, keys = k.shape[1], k.shape[2]
    stacked = q.reshape(batch, rows, shared, heads // shared, dim).permute(0, 2, 3, 1, 4)
    scores = stacked.reshape(batch, shared, -1, dim) @ k.transpose(2, 3)
    at = torch.arange(keys, device=q.device)
    hidden = at > torch.arange(rows, device=q.device).repeat(heads // shared)[:, None] + last
    scores = scores.masked_fill(hidden, EMPTY)
    top = scores.amax(-1) if keys else scores.new_full(scores.shape[:-1], EMPTY)
    weights = (scores - top.masked_fill(top == EMPTY, 0.0)[..., None]).exp()
    total = weights.sum(-1)
    out = (weights @ v) / total.clamp_min(1)[..., None]  # a query that sees a key has a total of 1 or more
    out = out.reshape(batch, heads, rows, -1).transpose(1, 2)
    return out, (top + total.log()).reshape(batch, heads, rows)


def cpu_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> Result:
    """Torch's fused kernel for CPUs. Its causal mask starts at the first key, ours ends at the last.

    So with more keys than queries the keys that all queries see are one part, the square that is left
    another, and the two are merged.
    """
    before = k.shape[1] - q.shape[1]
    if not causal or not before or q.shape[1] == 1:
        out, lse = _cpu_flash(q, k, v, causal and q.shape[1] > 1, scale)
        return out, lse.float()
    parts = [
        _cpu_flash(q, k[:, :before], v[:, :before], False, scale),
        _cpu_flash(q, k[:, before:], v[:, before:], True, scale),
    ]
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])


def _cpu_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> Result:
    """The kernel as it is, but for rows whose scores are all NaN: it takes them for masked, output and LSE 0.

    An LSE of exactly 0 can be right, so there the plain form decides.
    """
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    out, lse = kernel(*(x.transpose(1, 2) for x in (q, k, v)), 0.0, causal, scale=scale)
    if bool((lse == 0).any()):
        return plain(q, k, v, causal, scale)
    return out.transpose(1, 2).contiguous(), lse.contiguous()


@functools.cache
def cpu_flash_agrees(dtype: torch.dtype) -> bool:
    """Whether torch's CPU kernel is there and agrees with the plain form, asked once a dtype and process.

    The kernel is private to torch and its shape rules changed between versions: a small case with grouped
    heads and more keys than queries says more than a version number.
    """
    if not dtype.is_floating_point or not hasattr(
        torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"
    ):
        return False
    number = torch.arange(2 * 5 * 4 * 8, dtype=torch.float32, device="cpu").sin().to(dtype)
    q, k = number[: 2 * 3 * 4 * 8].view(2, 3, 4, 8), number[: 2 * 5 * 2 * 8].view(2, 5, 2, 8)
    v = number[-2 * 5 * 2 * 8 :].view(2, 5, 2, 8)
    with torch.autocast("cpu", enabled=False):  # a caller's would make the plain form coarser, for good
        try:
            out, lse = cpu_flash(q, k, v, True, 0.5)
        except (RuntimeError, TypeError):
            return False
        right_out, right_lse = plain(q, k, v, True, 0.5)
    near = 2e-5 if dtype in (torch.float32, torch.float64) else 2e-2
    return bool(torch.allclose(out.float(), right_out.float(), atol=near, rtol=0)) and bool(
        torch.allclose(lse, right_lse, atol=near, rtol=0)
    )


def npu_takes(q: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether Ascend's kernel takes these: half precision, head_dim a multiple of 16 up to 512, 256 heads."""
    try:
        torch_npu = importlib.import_module("torch_npu")
    except ImportError:
        return False
    dim = q.shape[-1]
    fits = q.dtype in (torch.float16, torch.bfloat16) and dim % 16 == 0 and dim <= 512 and q.shape[2] <= 256
    return fits and v.shape[-1] == dim and hasattr(torch_npu, "npu_fused_infer_attention_score")


def npu_fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> Result:
    """Ascend's fused kernel for inference; its LSE is (batch, heads, queries, 1).

    Sparse mode 3 is the causal mask that ends at the last key. It wants a mask of 2048 x 2048, True where
    hidden, whatever the lengths. Held to the kernel's description by a test with a stand-in; not yet shown on
    a card.
    """
    kernel = importlib.import_module("torch_npu").npu_fused_infer_attention_score
    masked = {"sparse_mode": 3, "atten_mask": _npu_mask(q.device)} if causal and q.shape[1] > 1 else {}
    out, lse = kernel(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        num_heads=q.shape[2],
        num_key_value_heads=k.shape[2],
        scale=scale,
        input_layout="BSND",
        softmax_lse_flag=True,
        **masked,
    )
    return out, lse.squeeze(-1)


@functools.cache
def _npu_mask(device: torch.device) -> torch.Tensor:
    return torch.ones(2048, 2048, dtype=torch.bool, device=device).triu(1)
