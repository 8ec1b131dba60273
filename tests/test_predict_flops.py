"""Work: against torch's own count, against every entry of the mask, against published balances."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mindlab.book.mathml import mathml
from mindlab.models.layers import MLP, GatedMLP
from mindlab.predict import flops, units, volume
from mindlab.predict.layouts import LAYOUTS

RANKS = range(1, 9)


def counted(work: Any) -> int:
    """What torch counts."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def test_torch_counts_as_much() -> None:
    """Would catch one FLOP for a multiplication and an addition, or a product left out."""
    x = torch.ones(2, 5, 12)
    assert flops.linear(10, 12, 7) == counted(lambda: torch.nn.Linear(12, 7)(x))
    assert flops.mlp(10, 12, 31) == counted(lambda: MLP(12, 31)(x))
    assert flops.gated_mlp(10, 12, 31) == counted(lambda: GatedMLP(12, 31)(x))
    q, k = torch.ones(2, 3, 5, 4), torch.ones(2, 3, 9, 4)
    assert flops.attention(2, 5, 9, 3, 4) == counted(lambda: (q @ k.transpose(2, 3)) @ k)


@pytest.mark.parametrize("queries", [0, 1, 3, 8])
@pytest.mark.parametrize("keys", [0, 1, 3, 8, 11])
def test_visible_pairs_are_the_masks(queries: int, keys: int) -> None:
    """Would catch a mask aligned at the start, and queries that see no key and count as less than none."""
    mask = np.tri(queries, keys, keys - queries)
    assert flops.visible_pairs(queries, keys, causal=True) == mask.sum()
    assert flops.visible_pairs(queries, keys) == queries * keys
    assert flops.attention(2, queries, keys, 3, 5, causal=True) == 4 * 2 * 3 * 5 * mask.sum()


def cut(length: int, ranks: int, layout: str) -> list[np.ndarray[Any, Any]]:
    """The positions of every rank."""
    if layout == "striped":
        return [np.arange(rank, length, ranks) for rank in range(ranks)]
    if layout == "contiguous":
        return np.array_split(np.arange(length), ranks)
    both = np.array_split(np.arange(length), 2 * ranks)
    return [np.concatenate([both[rank], both[2 * ranks - 1 - rank]]) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_pair_of_every_step(layout: str, ranks: int) -> None:
    """Would catch pairs given to the wrong rank or step, half a diagonal, an odd length cut wrongly."""
    for length in (0, 1, 5, 16, 31, 66):
        held = cut(length, ranks, layout)
        mask = np.tri(length)
        for causal in (True, False):
            seen = mask if causal else np.ones((length, length))
            steps = [
                [int(seen[np.ix_(held[rank], held[(rank - step) % ranks])].sum()) for step in range(ranks)]
                for rank in range(ranks)
            ]
            found = flops.ring_pairs(length, ranks, layout=layout, causal=causal)
            assert [list(row) for row in found] == steps, (length, causal)
        causal_steps = flops.ring_pairs(length, ranks, layout=layout)
        work = flops.visible_keys(length, ranks, layout=layout)
        assert work.by_rank(ranks) == tuple(map(sum, causal_steps))
        assert sum(work.by_rank(ranks)) == length * (length + 1) // 2
        slowest = sum(max(row[step] for row in causal_steps) for step in range(ranks))
        assert flops.critical_pairs(length, ranks, layout=layout) == slowest


@pytest.mark.parametrize(
    ("ranks", "contiguous", "striped"), [(2, 1.5, 1.015), (4, 1.75, 1.046), (8, 1.875, 1.108)]
)
def test_published_balance(ranks: int, contiguous: float, striped: float) -> None:
    """Would catch the work of the mean rank for that of the busiest.

    (2p-1)/p holds without the diagonal: at 2^20 tokens that is less than 1e-5 of it.
    """
    long = 2**20
    found = flops.balance(long, ranks)
    assert float(found) == pytest.approx(contiguous, rel=1e-5) == pytest.approx((2 * ranks - 1) / ranks)
    critical = flops.critical_pairs(long, ranks).value / flops.visible_keys(long, ranks).value
    assert critical == pytest.approx(contiguous, rel=1e-5)
    assert round(float(flops.balance(64, ranks, layout="striped")), 3) == striped
    assert flops.balance(64, ranks, layout="zigzag") == 1
    even = flops.visible_keys(64, ranks, layout="zigzag")
    assert even.per_rank is None and flops.critical_pairs(64, ranks, layout="zigzag") == even.value


def test_long_sequences_are_counted_at_once() -> None:
    """Would catch a count that walks over positions: a planner asks for a million tokens, exactly."""
    length = 10**9 + 7
    for layout in LAYOUTS:
        work = flops.visible_keys(length, 8, layout=layout)
        assert sum(int(own) for own in work.by_rank(8)) == length * (length + 1) // 2


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_a_step_of_the_ring(ranks: int, kv_heads: int) -> None:
    """Would catch work of another shard than the one whose bytes are sent; head_dim that does not cancel."""
    length, heads = 64, 8
    shard = length // ranks
    for d in (3, 64, 128):
        step = flops.ring_step(2, shard, heads, d)
        assert step == flops.attention(2, shard, shard, heads, d)
        assert step * ranks**2 == flops.attention(2, length, length, heads, d).value
        sent = volume.ring_attention(2, length, kv_heads, d, ranks, itemsize=2) / (ranks - 1)
        intensity = flops.ring_intensity(shard, heads, kv_heads, itemsize=2)
        assert (step / sent).value == intensity.value and (step / sent).unit == intensity.unit == "FLOP/B"
        zigzag = flops.ring_pairs(length, ranks, layout="zigzag")[0][1]
        assert flops.ring_step(2, shard, heads, d, causal=True) == 4 * 2 * heads * d * zigzag
        assert flops.ring_intensity(shard, heads, kv_heads, itemsize=2, causal=True) == intensity.value / 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "itemsize"), [(8, 8, 2), (32, 8, 2), (8, 1, 4), (6, 3, 1)])
@pytest.mark.parametrize("rates", [(312e12, 300e9), (320e12, 28e9), (7.3e9, 1.9e9), (1e9, 64e9)])
def test_the_least_length_that_hides(
    rates: tuple[float, float], heads: int, kv_heads: int, itemsize: int, causal: bool
) -> None:
    """Would catch e/2, K/H or F/B the wrong way up: here work lasts as long as bytes, one below it not."""
    flop_rate, bandwidth = rates
    least = flops.hiding_length(
        heads, kv_heads, itemsize=itemsize, flop_rate=flop_rate, bandwidth=bandwidth, causal=causal
    )

    def hides(shard: int) -> bool:
        sent = Fraction(2 * shard * kv_heads * 64 * itemsize) / Fraction(bandwidth)
        work = flops.ring_step(1, shard, heads, 64, causal=causal).value
        return Fraction(work) / Fraction(flop_rate) >= sent

    assert least.unit == "tokens" and isinstance(least.value, int)
    assert hides(least.value) and (least.value == 1 or not hides(least.value - 1))


def test_the_published_length() -> None:
    """Would catch another rule than the paper's, c >= F / B for 16 bit and as many key-value heads."""
    machine = {"itemsize": 2, "flop_rate": 312e12, "bandwidth": 300e9}
    assert flops.hiding_length(8, 8, **machine) == 1040
    assert flops.hiding_length(8, 8, causal=True, **machine) == 2080
    assert flops.hiding_length(8, 2, **machine) == 260


def test_every_quantity_is_whole() -> None:
    """Would catch a formula that no page can set, a missing source, a unit that prints badly."""
    rates = {"itemsize": 2, "flop_rate": 1e12, "bandwidth": 1e9}
    both = [False, True]
    made = [
        flops.linear(2, 3, 4), flops.mlp(2, 3, 4), flops.gated_mlp(2, 3, 4),
        *(flops.attention(1, 4, 4, 2, 8, causal=causal) for causal in both),
        flops.visible_pairs(9, 4, causal=True), flops.visible_keys(9, 2), flops.balance(9, 2),
        flops.critical_pairs(9, 2), *(flops.ring_step(1, 4, 2, 8, causal=causal) for causal in both),
        *(flops.ring_intensity(4, 2, 1, itemsize=2, causal=causal) for causal in both),
        *(flops.hiding_length(2, 1, causal=causal, **rates) for causal in both),
    ]  # fmt: skip
    for quantity in made:
        assert quantity.name and quantity.source and mathml(quantity.formula) and quantity.value > 0
    assert units.pretty(4096, "FLOP/B") == "4.096 kFLOP/B" and units.pretty(8, "FLOP/B") == "8 FLOP/B"
    assert {quantity.name for quantity in made} | {"ring_pairs"} == {
        name for name, value in vars(flops).items()
        if getattr(value, "__module__", "") == flops.__name__ and not name.startswith("_")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flops.linear(-1, 2, 3), "tokens=-1: give a whole number from 0 on"),
        (lambda: flops.mlp(1, 2.0, 3), "hidden=2.0: give"),
        (lambda: flops.gated_mlp(1, 2, True), "inner=True: give"),
        (lambda: flops.attention(1, 4, -4, 2, 8), "keys=-4: give"),
        (lambda: flops.visible_keys(8, 0), "ranks=0: give a whole number from 1 on"),
        (lambda: flops.balance(8, 2, layout="zig"), "layout='zig' is unknown: choose one of contiguous"),
        (lambda: flops.ring_step(1, -2, 2, 8), "shard=-2: give"),
        (lambda: flops.ring_intensity(8, 8, 3, itemsize=2), "kv_heads=3 cannot serve 8 query heads"),
        (lambda: flops.hiding_length(8, 8, itemsize=0, flop_rate=1, bandwidth=1), "itemsize=0: give"),
        (lambda: flops.hiding_length(8, 8, itemsize=2, flop_rate=0, bandwidth=1), "flop_rate=0: give"),
        (
            lambda: flops.hiding_length(8, 8, itemsize=2, flop_rate=1, bandwidth=float("inf")),
            "bandwidth=inf: give a number above 0",
        ),
    ],
)
def test_bad_input_is_refused(call: Any, words: str) -> None:
    """Would catch a number for work that cannot be."""
    with pytest.raises(ValueError, match=words):
        call()
