"""Meshes on paper, the bytes of hybrid attention counted cell by cell, and a run's bytes by group."""

from __future__ import annotations

import doctest
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from test_predict_strategies import cut, swapped, travelled

import mindlab as ml
from mindlab.book.mathml import mathml
from mindlab.predict import hybrid, meshes, volume
from mindlab.predict.meshes import axis_groups, check_product, hybrid_axes, hybrid_splits, places

SHAPE = {"batch": 2, "sequence": 24, "heads": 8, "kv_heads": 8, "head_dim": 5, "itemsize": 4}


@pytest.mark.parametrize("kv_heads", [1, 2, 12])
@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("inside", ["ring", "ulysses"])
@pytest.mark.parametrize(
    ("ring", "ulysses"), [(1, 1), (3, 1), (1, 4), (2, 2), (2, 3), (3, 2), (2, 6), (4, 2)]
)
def test_cell_by_cell(ring: int, ulysses: int, inside: str, layout: str, kv_heads: int) -> None:
    """Would catch a part's length taken for the sequence's, ranks in another order, U and R swapped."""
    if kv_heads % ulysses and ulysses % kv_heads:
        return
    unit, at = 2 * 5 * 4, places(hybrid_axes(ring, ulysses, inside))
    for length in (0, 5, 24, 31):
        held = cut(length, ring, layout)
        by_heads = [swapped(len(part), 12, kv_heads, ulysses)[0] for part in held]
        round_ring = travelled(held)[0]
        right = {
            "ulysses": [unit * by_heads[a["ring"]][a["ulysses"]] for a in at],
            "ring": [unit * 2 * max(1, kv_heads // ulysses) * round_ring[a["ring"]] for a in at],
        }
        shape = 2, length, 12, kv_heads, 5
        how: dict[str, Any] = {"ring": ring, "ulysses": ulysses, "itemsize": 4, "layout": layout}
        for axis, expected in right.items():
            found = volume.hybrid_attention(*shape, **how, inside=inside, axis=axis)
            assert list(found.by_rank(ring * ulysses)) == expected, (axis, length)
        both = volume.hybrid_attention(*shape, **how, inside=inside)
        sums = [a + b for a, b in zip(*right.values(), strict=True)]
        assert list(both.by_rank(ring * ulysses)) == sums
        assert both.value == pytest.approx(closed(length, kv_heads, ring, ulysses), rel=1e-15)


def closed(length: int, kv_heads: int, ring: int, ulysses: int) -> float:
    """The formula as it is printed, for 12 heads."""
    copied, part = max(kv_heads, ulysses), Fraction(length * 2 * 5 * 4, ring * ulysses)
    there_and_back = (24 + 2 * copied) * part * Fraction(ulysses - 1, ulysses)
    return float(there_and_back + 2 * copied * part * (ring - 1))


def test_whole_formulas() -> None:
    """Would catch a formula that no page can set, copied heads that it does not show, a lost name."""
    for axis in (None, "ring", "ulysses"):
        for kv_heads in (1, 8):
            found = volume.hybrid_attention(**{**SHAPE, "kv_heads": kv_heads}, ring=2, ulysses=4, axis=axis)
            assert found.source and mathml(found.formula) and found.ranks == 8 and found.per_rank is None
            assert ("2U" in found.formula) == (kv_heads == 1 and axis != "ring")
            assert (r"\frac{K}{U}" in found.formula) == (kv_heads == 8 and axis != "ulysses")


def test_what_a_split_costs() -> None:
    """Would catch a chapter's table that is wrong: one key-value head makes the ring cheap,
    as many as query heads Ulysses, two of eight a mix."""

    def totals(kv_heads: int) -> dict[int, float]:
        shape = {**SHAPE, "kv_heads": kv_heads}
        return {u: float(volume.hybrid_attention(**shape, ring=8 // u, ulysses=u)) for u in (1, 2, 4, 8)}

    equal, some, few = totals(8), totals(2), totals(1)
    assert min(equal, key=equal.__getitem__) == 8 and equal[1] == max(equal.values())
    assert min(few, key=few.__getitem__) == 1
    assert min(some, key=some.__getitem__) == 2, "between the two ends less is sent than at either"


def test_bad_calls_are_refused() -> None:
    """Would catch a price for what no rank can run."""
    for key in (*SHAPE, "ring", "ulysses"):
        if key == "sequence":
            continue
        with pytest.raises(ValueError, match=f"{key}=0: give a whole number from 1 on"):
            volume.hybrid_attention(**{**SHAPE, "ring": 2, "ulysses": 2, key: 0})
    for name, value, words in [
        ("axis", "tp", "axis='tp': choose ring or ulysses"),
        ("layout", "striped", "layout='striped' is unknown: choose one of contiguous, zigzag"),
        ("inside", "tp", "inside='tp' is no axis"),
        ("ulysses", 3, "ulysses=3 cannot split 8 heads: with 6 ranks choose ulysses=2, ring=3 or ulysses=1"),
    ]:
        with pytest.raises(ValueError, match=words):
            volume.hybrid_attention(**{**SHAPE, "ring": 2, "ulysses": 2, name: value})
    with pytest.raises(ValueError, match="cfg=2 x ring=2 x ulysses=2 needs 8 ranks, there are 2: choose 1 x"):
        check_product({"cfg": 2, "ring": 2, "ulysses": 2}, 2)


def test_splits_that_fit() -> None:
    """Would catch a split offered that heads do not allow, or one that they do left out."""
    assert [s["ulysses"] for s in hybrid_splits(8, 28, 4)] == [4, 2, 1]
    assert [s["ulysses"] for s in hybrid_splits(6, 12, 4)] == [2, 1]
    assert hybrid_splits(3, 8) == [{"ulysses": 1, "ring": 3}]


def test_groups_share_no_pair() -> None:
    """Would catch axes that are not orthogonal: then the wire could not tell their bytes apart."""
    groups = axis_groups({"cfg": 2, "ring": 3, "ulysses": 2})
    pairs = [{(a, b) for g in found for a in g for b in g if a != b} for found in groups.values()]
    assert sum(map(len, pairs)) == len(set.union(*pairs)) == 12 * (1 + 2 + 1)


def test_bytes_within_groups() -> None:
    """Would catch bytes of one group given to another, on the wire by rank pairs, counted by calls."""

    def three() -> None:
        pairs = [dist.new_group(ranks) for ranks in ([0, 1], [3, 2])]
        mine, rank = pairs[dist.get_rank() // 2], dist.get_rank()
        x = torch.full((10 + 10 * (rank // 2),), 1.0)
        dist.all_gather([torch.empty_like(x), torch.empty_like(x)], x, group=mine)
        far = [dist.P2POp(dist.irecv, torch.empty(5), (rank + 2) % 4)]
        for work in dist.batch_isend_irecv([*far, dist.P2POp(dist.isend, torch.ones(5), (rank + 2) % 4)]):
            work.wait()

    run = ml.launch(three, ranks=4)
    assert run.sent_within([[1, 0], [2, 3]]).tolist() == [40, 40, 80, 80]
    assert run.sent_within([(3, 2)]).tolist() == [0, 0, 80, 80]
    assert run.sent_within([range(4)]).tolist() == [20] * 4
    assert run.sent_within([(0, 2)]).tolist() == [0] * 4
    assert run.sent_within([]).provenance == "counted"
    if run.wire is not None and run.wire.payload is not None:
        near, far, whole = (run.wire_within(g) for g in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [range(4)]))
        assert near is not None and far is not None and whole is not None and near.provenance == "wire"
        assert near.tolist() == [40, 40, 80, 80] and far.tolist() == [20] * 4
        assert whole.tolist() == run.sent.tolist()
    for ask in (run.sent_within, run.wire_within):
        with pytest.raises(ValueError, match=r"group \(0, 4\): the run has the ranks 0 to 3"):
            ask([(0, 4)])
    run.wire = None
    assert run.wire_within([(0, 1)]) is None


@pytest.mark.parametrize("module", [meshes, hybrid], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    """Would catch an example in the documentation that is wrong."""
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
