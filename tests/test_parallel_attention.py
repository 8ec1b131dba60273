"""Attention with its log-sum-exp: each kernel against all scores written out, and what kernels get wrong."""

from __future__ import annotations

import doctest
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from attention_data import NOTHING, apart, exact, qkv

import mindlab as ml
from mindlab.parallel import attention, kernels, merge, ring, shards
from mindlab.parallel.attention import attention_with_lse, plain_attention_with_lse, visible_pairs
from mindlab.parallel.merge import merge_lse

LENGTHS = [0, 1, 3, 17, 40]
NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""float32: order of sums. Half types: one rounding of the output, at values up to about 3."""
NEAR_LSE = 2e-4
"""float32 of numbers up to 5, from scores whose inputs were rounded to half precision before."""


@pytest.fixture(autouse=True)
def forget_what_kernels_said() -> Iterator[None]:
    kernels.cpu_flash_agrees.cache_clear()
    yield
    kernels.cpu_flash_agrees.cache_clear()


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("attend", [attention_with_lse, plain_attention_with_lse])
def test_every_shape_is_right(attend: Any, dtype: torch.dtype) -> None:
    """Would catch a causal mask aligned at the start, grouped heads tiled instead of repeated, lengths that
    end the process (0), an LSE that is not natural, not float32, or not -inf where no key is seen."""
    for queries, keys, kv_heads, causal in itertools.product(LENGTHS, LENGTHS, (1, 2, 4), (False, True)):
        q, k, v = qkv(queries, keys, kv_heads=kv_heads, dtype=dtype)
        out, lse = attend(q, k, v, causal=causal)
        right_out, right_lse = exact(q, k, v, causal)
        where = f"{queries} queries, {keys} keys, {kv_heads} key heads, causal {causal}"
        assert out.dtype == dtype and lse.dtype == torch.float32, where
        assert out.is_contiguous() and lse.is_contiguous(), where
        assert apart(out, right_out) < NEAR[dtype], where
        assert apart(lse, right_lse) < (NEAR_LSE if dtype.itemsize == 2 else 1e-5), where


def test_the_fused_kernel_is_used_where_it_is_right() -> None:
    """Would catch a comparison of the plain form with itself, and a fallback that nobody notices."""
    for dtype in NEAR:
        assert kernels.choose_kernel(*qkv(3, 5, kv_heads=2, dtype=dtype)) is kernels.cpu_flash, dtype


def test_plain_where_the_fused_kernel_would_be_wrong() -> None:
    """Would catch a gradient that is lost, and value heads of a width that the kernel refuses."""
    q, k, v = qkv(3, 5)
    assert kernels.choose_kernel(q.requires_grad_(), k, v) is kernels.plain
    with torch.no_grad():
        assert kernels.choose_kernel(q, k, v) is kernels.cpu_flash
    q, k, v = q.detach(), k, v[..., :7]
    assert kernels.choose_kernel(q, k, v) is kernels.plain
    assert apart(attention_with_lse(q, k, v)[0], exact(q, k, v, False)[0]) < 1e-5


def test_the_kernel_is_asked_once_and_not_in_the_callers_precision() -> None:
    """Would catch a first call under autocast, whose coarse comparison speaks against the kernel for good."""
    kernels.cpu_flash_agrees.cache_clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kernels.choose_kernel(*qkv(3, 5)) is kernels.cpu_flash
    assert kernels.choose_kernel(*qkv(3, 5)) is kernels.cpu_flash


@pytest.mark.parametrize("fault", ["base 2", "LSE 0", "no such signature"])
def test_a_kernel_that_changed_is_not_used(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch another version of torch, whose private kernel means something else by its LSE."""
    real = kernels._cpu_flash

    def changed(*args: Any) -> kernels.Result:
        if fault == "no such signature":
            raise TypeError("unexpected argument")
        out, lse = real(*args)
        return out, lse / 0.6931 if fault == "base 2" else torch.zeros_like(lse)

    monkeypatch.setattr(kernels, "_cpu_flash", changed)
    q, k, v = qkv(3, 5)
    assert kernels.choose_kernel(q, k, v) is kernels.plain
    assert apart(attention_with_lse(q, k, v)[1], exact(q, k, v, False)[1]) < 1e-5


def test_gradients_through_output_and_lse() -> None:
    """Would catch a gradient that misses the LSE: here the whole loss goes through it, or through both."""
    ours, theirs = ([x.requires_grad_() for x in qkv(3, 5, dtype=torch.float64)] for _ in range(2))
    for x, attend in ((ours, attention_with_lse), (theirs, exact)):
        out, lse = attend(*x, causal=True)
        (out.square().sum() + lse.square().sum()).backward()
    for mine, right in zip(ours, theirs, strict=True):
        assert mine.grad is not None and right.grad is not None
        assert apart(mine.grad, right.grad) < 1e-5  # the LSE is float32, also of float64


def test_the_last_query_of_a_decode_sees_every_key() -> None:
    """Would catch torch's own alignment, by which one query beside a long cache sees its first key only."""
    q, k, v = qkv(1, 9)
    assert torch.equal(attention_with_lse(q, k, v, causal=True)[0], attention_with_lse(q, k, v)[0])


def test_masked_rows_of_the_fused_kernel_would_poison_a_merge() -> None:
    """Shows why masked rows never reach torch's kernel: its LSE is 0 there. With -inf the merge is right."""
    q, k, v = qkv(64, 64, batch=1, dim=32)
    seen = torch.arange(64)[:, None] >= 32  # the first half of the queries does not see the first keys
    mask = torch.zeros(64, 32).masked_fill(~seen.expand(64, 32), NOTHING)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    halves = [x.transpose(1, 2) for x in (q, k[:, :32], v[:, :32])]
    out, lse = kernel(*halves, 0.0, False, attn_mask=mask)
    assert torch.equal(lse[:, :, :32], torch.zeros_like(lse[:, :, :32])), (
        "torch mended it: say so in the lesson"
    )
    last = attention_with_lse(q, k[:, 32:], v[:, 32:])
    right = torch.cat([last[0][:, :32], attention_with_lse(q[:, 32:], k, v)[0]], 1)
    poisoned, _ = merge_lse([out.transpose(1, 2), last[0]], [lse.contiguous(), last[1]])
    mended, _ = merge_lse([out.transpose(1, 2), last[0]], [lse.masked_fill(~seen[:, 0], NOTHING), last[1]])
    assert apart(poisoned, right) > 0.01
    assert apart(mended, right) < 1e-5


@pytest.mark.parametrize("rows", [1, 7, 10**6])
def test_blocks_of_queries_change_nothing(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a causal mask that starts anew in every block of the plain form."""
    q, k, v = qkv(23, 31, kv_heads=2)
    monkeypatch.setattr(kernels, "BLOCK", rows * 2 * 4 * 31)
    out, lse = plain_attention_with_lse(q, k, v, causal=True)
    right_out, right_lse = exact(q, k, v, True)
    assert apart(out, right_out) < 1e-5 and apart(lse, right_lse) < 1e-5


def test_the_plain_form_never_holds_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch the S x S table: 8 MiB here, of which a block of 16 rows is 1/64."""
    q, k, v = qkv(1024, 1024, heads=2, kv_heads=1, batch=1, dim=8)
    monkeypatch.setattr(kernels, "BLOCK", 2**15)
    with ml.ExtraMemory() as extra:
        plain_attention_with_lse(q, k, v, causal=True)
    inputs = sum(x.numel() * 4 for x in (q, k, v))
    assert extra.peak < 5 * 4 * 2**15 + 4 * inputs < 2 * 1024**2


def test_strided_and_sliced_inputs() -> None:
    """Would catch a kernel that takes memory for the shape: heads first, gaps, last dimension not last."""
    q, k, v = qkv(6, 9, kv_heads=2)
    right = exact(q, k, v, True)
    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    dim_first = [x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0) for x in (q, k, v)]
    gaps = [torch.stack([x, x * 9], -1)[..., 0] for x in (q, k, v)]
    for given in (heads_first, dim_first, gaps):
        for attend in (attention_with_lse, plain_attention_with_lse):
            out, lse = attend(*given, causal=True)
            assert apart(out, right[0]) < 1e-5 and apart(lse, right[1]) < 1e-5


def test_scale_and_scores_of_hundreds() -> None:
    """Would catch a scale that is dropped, and an exponential without its maximum taken off first."""
    q, k, v = qkv(5, 7)
    assert apart(attention_with_lse(q, k, v, scale=0.7)[1], exact(q, k, v, False, 0.7)[1]) < 1e-5
    out, lse = attention_with_lse(q * 40, k * 20, v)  # scores up to about 2000: LSE is float32 of that
    right_out, right_lse = exact(q * 40, k * 20, v, False)
    assert float(right_lse.abs().max()) > 500
    assert apart(lse, right_lse) < 1e-3 and apart(out, right_out) < 2e-3


@pytest.mark.parametrize("keys", [1, 4, 600])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_nan_stays_visible(value: float, keys: int) -> None:
    """Would catch a row of NaN that is taken for one without keys, as torch's kernel does: output 0, LSE 0.

    A query of zeros beside one key has the LSE 0 by right: there its output is that key's value.
    """
    q, k, v = qkv(3, keys)
    q[0, 1] = value
    for attend in (attention_with_lse, plain_attention_with_lse):
        out, lse = attend(q, k, v)
        if value == 0.0:
            assert apart(out, exact(q, k, v, False)[0]) < 1e-5
        else:
            assert out[0, 1].isnan().all() and lse[0, :, 1].isnan().all()
        assert out[1].isfinite().all() and lse[1].isfinite().all()


def test_what_is_refused() -> None:
    """Would catch shapes that broadcast to something, and a dtype that is dropped in silence."""
    q, k, v = qkv(3, 5, kv_heads=2)
    for wrong, say in [
        ((q[0], k, v), "must be \\(batch, sequence, heads, head_dim\\)"),
        ((q, k, v[:, :4]), "k and v must have one batch, sequence and heads"),
        ((q[:1], k, v), "q the same batch"),
        ((q[..., :8], k, v), "q and k must have one head_dim"),
        ((q[:, :, :3], k, v), "kv_heads=2 cannot serve 3 query heads: choose a divisor of 3"),
        ((q, k[:, :, :0], v[:, :, :0]), "kv_heads=0"),
        ((q.half(), k, v), "give one floating-point dtype"),
        (tuple(x.int() for x in (q, k, v)), "give one floating-point dtype"),
        (tuple(x.to(torch.float8_e5m2) for x in (q, k, v)), "float16, bfloat16, float32, float64"),
        ((q[..., :0], k[..., :0], v), "one head_dim, 1 or more"),
        ((q.to("meta"), k, v), "put them on one device"),
    ]:
        with pytest.raises(ValueError, match=say):
            attention_with_lse(*wrong)


@pytest.mark.parametrize("module", [attention, kernels, merge, ring, shards], ids=lambda m: m.__name__)
def test_the_examples_run(module: Any) -> None:
    """Would catch an example that was right once."""
    found = doctest.testmod(module)
    assert not found.failed and (found.attempted or module is kernels)


@pytest.mark.parametrize("causal", [False, True])
def test_the_work_that_is_stated(causal: bool) -> None:
    """Would catch work counted for hidden pairs, or twice where a kernel is called twice."""
    run = ml.launch(lambda: attention_with_lse(*qkv(5, 9, kv_heads=2), causal=causal)[0].shape, ranks=1)
    pairs = sum(min(9, i + 5) for i in range(5)) if causal else 45
    assert visible_pairs(5, 9, causal) == pairs
    assert [work.flop for work in run.work] == [4 * 2 * 4 * 12 * pairs]
    assert [work.nbytes for work in run.work] == [4 * 2 * 12 * (5 * 4 + 2 * 9 * 2 + 5 * 4)]
