"""The merge of partial attention by its log-sum-exp: the values of the formula, and the faults of others."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attention_data import NOTHING, apart, exact, qkv
from hypothesis import given, settings
from hypothesis import strategies as st

from mindlab.parallel import ring
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.merge import Running, merge_lse

Parts = tuple[list[torch.Tensor], list[torch.Tensor]]


def running(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same merge one part after another, as the ring does it."""
    held = Running(outs[0].clone(), lses[0].clone())
    for out, lse in zip(outs[1:], lses[1:], strict=True):
        held.add(out, lse)
    return held.out, held.lse


BOTH = pytest.mark.parametrize("merge", [merge_lse, running])


def one(value: float, lse: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A part of one query and one head, whose output is `value` everywhere."""
    return torch.full((1, 1, 1, 8), value), torch.full((1, 1, 1), lse)


def merged(merge: Any, *parts: tuple[float, float]) -> tuple[float, float]:
    outs, lses = zip(*(one(*part) for part in parts), strict=True)
    out, lse = merge(list(outs), list(lses))
    assert out.shape == (1, 1, 1, 8) and lse.shape == (1, 1, 1) and lse.dtype == torch.float32
    return float(out[0, 0, 0, 0]), float(lse)


@BOTH
@pytest.mark.parametrize(
    ("parts", "right"),
    [
        ([(5.0, 2.0)], (5.0, 2.0)),
        ([(1.0, 0.0), (3.0, 0.0)], (2.0, math.log(2))),
        ([(1.0, 200.0), (3.0, 199.0)], (1.5378828, 200.3132617)),
        ([(1.0, 0.0), (3.0, 88.8)], (3.0, 88.8)),
        ([(1.0, 1000.0), (3.0, -1000.0)], (1.0, 1000.0)),
        ([(1.0, -1000.0), (3.0, -1000.0)], (2.0, -1000.0 + math.log(2))),
        ([(0.0, NOTHING), (1.0, 0.0), (2.0, 0.0)], (1.5, math.log(2))),
        ([(1.0, 0.0), (0.0, NOTHING), (2.0, 0.0)], (1.5, math.log(2))),
        ([(0.0, NOTHING), (0.0, NOTHING)], (0.0, NOTHING)),
        ([(0.0, NOTHING)], (0.0, NOTHING)),
        ([(0.0, NOTHING)] * 3 + [(4.0, -7.0)], (4.0, -7.0)),
        ([(1.0, 1.0)] * 32, (1.0, 1.0 + math.log(32))),
    ],
)
def test_closed_forms(merge: Any, parts: list[tuple[float, float]], right: tuple[float, float]) -> None:
    """Would catch added LSE, an exponential that overflows, 0 beyond a gap of 88, NaN of two empty parts."""
    assert merged(merge, *parts) == pytest.approx(right, rel=1e-6, abs=1e-6)


def test_what_a_masked_part_holds_is_not_read() -> None:
    """Would catch 0 times NaN: some kernels leave NaN in rows that saw no key."""
    dirty, clean = (torch.full((1, 1, 1, 8), x) for x in (float("nan"), 2.0))
    lses = [torch.full((1, 1, 1), NOTHING), torch.zeros(1, 1, 1)]
    for outs, order in (([dirty, clean], lses), ([clean, dirty], lses[::-1])):
        out, lse = merge_lse(outs, order)
        assert torch.equal(out, clean) and float(lse) == 0.0
    assert torch.equal(merge_lse([dirty], lses[:1])[0], torch.zeros_like(clean))


def test_a_nan_that_was_seen_stays() -> None:
    """Would catch a real fault that is cleaned away, be its weight ever so small."""
    bad = torch.full((1, 1, 1, 8), float("nan"))
    out, _ = merge_lse([bad, one(1.0, 1000.0)[0]], [torch.zeros(1, 1, 1), one(1.0, 1000.0)[1]])
    assert out.isnan().all()
    _, lse = merge_lse([bad, bad], [torch.zeros(1, 1, 1), torch.full((1, 1, 1), float("nan"))])
    assert lse.isnan().all()


def parts_of(seed: int, count: int, masked: float, spread: float) -> Parts:
    """Parts as kernels give them: LSE far apart, some masked, at times all parts of a row."""
    draw = torch.Generator().manual_seed(seed)
    outs = [torch.randn(2, 3, 4, 8, generator=draw, dtype=torch.float64) for _ in range(count)]
    lses = [spread * torch.randn(2, 4, 3, generator=draw) for _ in range(count)]
    lses = [lse.masked_fill(torch.rand(2, 4, 3, generator=draw) < masked, NOTHING) for lse in lses]
    seen = [(lse != NOTHING).transpose(1, 2)[..., None] for lse in lses]
    return [out * there for out, there in zip(outs, seen, strict=True)], lses


SOME = {
    "seed": st.integers(0, 10_000),
    "masked": st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    "spread": st.sampled_from([0.0, 1.0, 30.0, 300.0]),
}
"""Compared below in float64, with an LSE in float32: of hundreds it has 3e-5 left, and weights as much."""
NEAR = 2e-4


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 7), **SOME)
def test_it_is_the_formula_whatever_the_order(count: int, seed: int, masked: float, spread: float) -> None:
    """Would catch parts that count by their place: first, last, or after a masked one."""
    outs, lses = parts_of(seed, count, masked, spread)
    stacked = torch.stack(lses).double()
    right_lse = torch.logsumexp(stacked, 0)
    weights = torch.nan_to_num((stacked - right_lse).exp(), nan=0.0)
    right = sum(o * w.transpose(1, 2)[..., None] for o, w in zip(outs, weights, strict=True))
    assert isinstance(right, torch.Tensor)
    for merge in (merge_lse, running):
        for order in (list(range(count)), list(range(count))[::-1]):
            out, lse = merge([outs[i] for i in order], [lses[i] for i in order])
            assert out.dtype == torch.float64 and apart(out, right) < NEAR and apart(lse, right_lse) < NEAR


@settings(max_examples=30, deadline=None)
@given(**SOME)
def test_it_is_associative_with_an_identity(seed: int, masked: float, spread: float) -> None:
    """Would catch a merge of merges that differs: a ring merges two at a time, a tree in pairs."""
    (a, b, c), (la, lb, lc) = parts_of(seed, 3, masked, spread)
    left = merge_lse([a, b], [la, lb])
    right = merge_lse([b, c], [lb, lc])
    one_way, other_way = merge_lse([left[0], c], [left[1], lc]), merge_lse([a, right[0]], [la, right[1]])
    assert apart(one_way[0], other_way[0]) < NEAR and apart(one_way[1], other_way[1]) < NEAR
    none = torch.zeros_like(a), torch.full_like(la, NOTHING)
    for outs, lses in (([a, none[0]], [la, none[1]]), ([none[0], a], [none[1], la])):
        out, lse = merge_lse(outs, lses)
        assert torch.equal(out, a) and torch.equal(lse, la)


@pytest.mark.parametrize("count", [2, 8, 32])
@BOTH
def test_the_error_of_bfloat16_parts_does_not_grow(merge: Any, count: int) -> None:
    """Would catch sums in bfloat16, or an LSE kept in it: at 32 parts their error is 0.013 and 0.008."""
    q, k, v = qkv(16, 32 * 4, batch=1, heads=2, kv_heads=2, dim=32, seed=3)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    blocks = zip(k.tensor_split(count, 1), v.tensor_split(count, 1), strict=True)
    outs, lses = zip(*(attention_with_lse(q, *block) for block in blocks), strict=True)
    out, lse = merge(list(outs), list(lses))
    right_out, right_lse = exact(q, k, v, False)
    assert out.dtype == torch.bfloat16
    assert apart(out, right_out) < 0.004  # one rounding of parts below 1, one of the result
    assert apart(lse, right_lse) < 1e-4


def test_rows_from_one_on() -> None:
    """Would catch a part for the second half of the queries that lands on the first, or on all."""
    outs, lses = parts_of(5, 2, 0.2, 1.0)
    held = Running(outs[0].clone(), lses[0].clone())
    held.add(outs[1][:, 2:], lses[1][:, :, 2:], first=2)
    right, right_lse = merge_lse([x[:, 2:] for x in outs], [x[:, :, 2:] for x in lses])
    assert torch.equal(held.out[:, :2], outs[0][:, :2]) and torch.equal(held.lse[:, :, :2], lses[0][:, :, :2])
    assert apart(held.out[:, 2:], right) < 1e-6 and apart(held.lse[:, :, 2:], right_lse) < 1e-6


def test_what_is_refused() -> None:
    """Would catch parts that broadcast, an LSE of half precision, and +inf taken for a weight."""
    out, lse = torch.zeros(2, 3, 4, 8), torch.zeros(2, 4, 3)
    for outs, lses, say in [
        ([], [], "give one LSE an output"),
        ([out, out], [lse], "2 outputs and 1 LSE"),
        ([out, out[:1]], [lse, lse[:1]], "part 1 is"),
        ([out, out.half()], [lse, lse], "one shape and dtype"),
        ([out], [lse.transpose(1, 2)], "it must be \\(batch, heads, sequence\\), \\(2, 4, 3\\)"),
        ([out], [lse.bfloat16()], "keep the LSE in float32"),
        ([out, out], [lse, lse + float("inf")], "lses\\[1\\] holds \\+inf"),
    ]:
        with pytest.raises(ValueError, match=say):
            merge_lse(outs, lses)
    assert ring.merge_lse is merge_lse


def test_the_sigmoid_form_is_nan_when_the_first_part_is_empty() -> None:
    """Shows what the lesson says of the widely copied form, as torch has it: ours gives 1.5 and log 2."""
    module = pytest.importorskip("torch.distributed.tensor.experimental._context_parallel._attention")
    if not hasattr(module, "_SDPAMerger"):
        pytest.skip("this version of torch has no _SDPAMerger")
    parts = [one(0.0, NOTHING), one(1.0, 0.0), one(2.0, 0.0)]
    theirs = module._SDPAMerger(convert_to_f32=True, seq_dim=2)
    for out, lse in parts:
        theirs.step(out.transpose(1, 2), lse, partial=False)
    assert theirs.results()[0].isnan().all(), "torch mended it: say so in the lesson"
    out, lse = merge_lse([out for out, _ in parts], [lse for _, lse in parts])
    assert float(out[0, 0, 0, 0]) == 1.5 and float(lse) == pytest.approx(math.log(2))
