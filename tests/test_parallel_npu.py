"""Attention and merge on Ascend cards, held to the kernels' descriptions by a stand-in for torch_npu.

The stand-in takes what the description of torch_npu 2.13 allows, refuses the rest, and computes what it says.
None of this has run on a card: what a card adds is whether the kernel does what is described.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
from attention_data import NOTHING, apart, exact, qkv

from mindlab.parallel import kernels, merge
from mindlab.parallel.merge import merge_lse


def fused_infer(query: Any, key: Any, value: Any, **given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """npu_fused_infer_attention_score: half precision, contiguous, BSND; LSE (B, N, S, 1) in float32."""
    heads, shared = given.pop("num_heads"), given.pop("num_key_value_heads")
    scale, mode, mask = given.pop("scale"), given.pop("sparse_mode", 0), given.pop("atten_mask", None)
    assert given == {"input_layout": "BSND", "softmax_lse_flag": True}
    assert query.dtype in (torch.float16, torch.bfloat16) and query.shape[3] % 16 == 0
    assert all(x.is_contiguous() for x in (query, key, value))
    assert heads == query.shape[2] and shared == key.shape[2] and query.shape[1] <= key.shape[1]
    assert mode in (0, 3) and (mask is None) == (mode == 0)
    if mask is not None:  # True where hidden, above the diagonal, 2048 x 2048 whatever the lengths
        assert mask.shape == (2048, 2048) and mask[0, 1] and not mask[1, 1] and mask.dtype == torch.bool
    out, lse = exact(query, key, value, mode == 3, scale)
    return out.to(query.dtype), lse.float().unsqueeze(-1)


def attention_update(lse: Any, local_out: Any, update_type: int) -> tuple[torch.Tensor, torch.Tensor]:
    """npu_attention_update: at most 16 parts, LSE (N,), outputs (N, D); NaN where all are -inf."""
    assert update_type == 1 and len(lse) == len(local_out) and 2 <= len(lse) <= 16
    for one, out in zip(lse, local_out, strict=True):
        assert one.dtype == torch.float32 and one.ndim == 1 and out.shape == (len(one), out.shape[1])
        assert 8 <= out.shape[1] <= 512 and out.shape[1] % 8 == 0
    top = torch.stack(lse).amax(0)
    weights = [(one - top).exp() for one in lse]
    total = torch.stack(weights).sum(0)
    summed = sum(w[:, None] * o for w, o in zip(weights, local_out, strict=True))
    return summed / total[:, None], top + total.log()


@pytest.fixture(autouse=True)
def torch_npu(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("torch_npu")
    module.npu_fused_infer_attention_score = fused_infer  # type: ignore[attr-defined]
    module.npu_attention_update = attention_update  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    return module


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (5, 5), (3, 40)])
def test_the_call_of_the_fused_kernel(queries: int, keys: int, dtype: torch.dtype) -> None:
    """Would catch a mask of another shape or meaning, an LSE of four dimensions, a scale that is dropped."""
    for causal in (False, True):
        q, k, v = qkv(queries, keys, kv_heads=2, dim=16, dtype=dtype)
        strided = [torch.stack([x, x * 9], -1)[..., 0] for x in (q, k, v)]
        out, lse = kernels.npu_fused(*strided, causal, 0.3)
        right_out, right_lse = exact(q, k, v, causal, 0.3)
        assert out.dtype == dtype and apart(out, right_out) < 2e-2
        assert lse.dtype == torch.float32 and apart(lse, right_lse) < 1e-5


class Card:
    """What `choose_kernel` asks of a tensor, as one on a card would answer."""

    device = torch.device("npu") if hasattr(torch, "npu") else types.SimpleNamespace(type="npu")
    requires_grad = False

    def __init__(self, dtype: torch.dtype, heads: int, dim: int) -> None:
        self.dtype, self.shape = dtype, (1, 4, heads, dim)


@pytest.mark.parametrize(
    ("dtype", "heads", "dim", "takes"),
    [
        (torch.bfloat16, 8, 64, True),
        (torch.float16, 256, 512, True),
        (torch.float32, 8, 64, False),
        (torch.bfloat16, 8, 24, False),
        (torch.bfloat16, 8, 528, False),
        (torch.bfloat16, 257, 64, False),
    ],
)
def test_which_tensors_the_fused_kernel_gets(dtype: torch.dtype, heads: int, dim: int, takes: bool) -> None:
    """Would catch a shape that the kernel refuses, sent to it all the same."""
    x: Any = Card(dtype, heads, dim)
    assert kernels.choose_kernel(x, x, x) is (kernels.npu_fused if takes else kernels.plain)


def test_a_torch_npu_without_these_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an older torch_npu, or none, that ends in an AttributeError."""
    x: Any = Card(torch.bfloat16, 8, 64)
    out = torch.zeros(1, 4, 8, 64)
    assert merge.npu_merges(out) and not merge.npu_merges(out[..., :12])
    monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
    assert kernels.choose_kernel(x, x, x) is kernels.plain and not merge.npu_merges(out)
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    assert kernels.choose_kernel(x, x, x) is kernels.plain and not merge.npu_merges(out)


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_merge_kernel(count: int, dtype: torch.dtype) -> None:
    """Would catch more parts than it takes, heads and positions swapped in the flat rows, and NaN in rows
    that no part saw."""
    draw = torch.Generator().manual_seed(count)
    outs = [torch.randn(2, 3, 4, 8, generator=draw).to(dtype) for _ in range(count)]
    lses = [30 * torch.randn(2, 4, 3, generator=draw) for _ in range(count)]
    lses = [lse.masked_fill(torch.rand(2, 4, 3, generator=draw) < 0.3, NOTHING) for lse in lses]
    for lse in lses:
        lse[0, 1, 2] = NOTHING
    outs[0][0, 2, 1] = float("nan")
    out, lse = merge.npu_merge(outs, lses)
    right_out, right_lse = merge_lse(outs, lses)
    assert out.dtype == dtype and out.shape == (2, 3, 4, 8) and float(lse[0, 1, 2]) == NOTHING
    assert apart(out, right_out) < (1e-5 if dtype == torch.float32 else 2e-2) and apart(lse, right_lse) < 1e-5
    assert not out[0, 2, 1].any()
