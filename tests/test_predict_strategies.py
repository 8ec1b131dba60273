"""Volumes of the four strategies: every message counted on paper, and values measured elsewhere."""

from __future__ import annotations

import inspect
from collections import defaultdict
from fractions import Fraction
from typing import Any

import network
import numpy as np
import pytest

from mindlab.book.mathml import mathml
from mindlab.predict import heads, layouts, rounds, volume

RANKS = range(1, 9)
LENGTHS = [0, 1, 5, 16, 31, 66]
MESSAGE = 96 + 48
"""What a message adds in the kernel's counters: 96 B at its sender, 48 B at its receiver; a ring has both."""
CALLS: dict[str, dict[str, Any]] = {
    "tensor_parallel": {"tokens": 6, "hidden": 8, "ranks": 4, "itemsize": 4},
    "gloo_tensor_parallel": {"tokens": 6, "hidden": 8, "ranks": 4, "itemsize": 4},
    "sequence_parallel": {"batch": 2, "sequence": 8, "hidden": 8, "ranks": 4, "itemsize": 4},
    "gloo_sequence_parallel": {"batch": 2, "sequence": 8, "hidden": 8, "ranks": 4, "itemsize": 4},
    "ring_attention": {
        "batch": 2, "sequence": 8, "kv_heads": 2, "head_dim": 4, "ranks": 4, "itemsize": 4
    },
    "ulysses_attention": {
        "batch": 2, "sequence": 8, "heads": 8, "kv_heads": 2, "head_dim": 4, "ranks": 4, "itemsize": 4
    },
}  # fmt: skip
CALLS["ring_attention_received"] = CALLS["ring_attention"]
CALLS["ulysses_attention_received"] = CALLS["ulysses_attention"]


def travelled(shards: list[list[Any]]) -> tuple[list[int], list[int]]:
    """(sent, received) items by rank when every shard goes round the ring to all ranks, hop by hop."""
    ranks = len(shards)
    sent, received, held = [0] * ranks, [0] * ranks, list(shards)
    met = [set(shard) for shard in shards]
    for _ in range(ranks - 1):
        for rank, block in enumerate(held):
            sent[rank] += len(block)
            received[(rank + 1) % ranks] += len(block)
        held = [held[rank - 1] for rank in range(ranks)]
        for rank, block in enumerate(held):
            met[rank] |= set(block)
    assert all(len(one) == sum(map(len, shards)) for one in met)
    return sent, received


def pieces(length: int, parts: int) -> list[list[int]]:
    """The positions, cut as numpy (and torch) cuts."""
    return [part.tolist() for part in np.array_split(np.arange(length), parts)]


def cut(length: int, ranks: int, layout: str) -> list[list[int]]:
    """The positions of every rank."""
    if layout == "striped":
        return [[i for i in range(length) if i % ranks == rank] for rank in range(ranks)]
    if layout == "contiguous":
        return pieces(length, ranks)
    both = pieces(length, 2 * ranks)
    return [both[rank] + both[2 * ranks - 1 - rank] for rank in range(ranks)]


def swapped(length: int, count: int, kv_count: int, ranks: int) -> tuple[list[int], list[int]]:
    """(sent, received) cells (position, head) by rank: each goes from where it is to whoever needs it."""
    moved: dict[tuple[int, int], int] = defaultdict(int)
    owner = {i: rank for rank, mine in enumerate(cut(length, ranks, "contiguous")) for i in mine}
    mine = [range(rank * count // ranks, (rank + 1) * count // ranks) for rank in range(ranks)]
    for rank in range(ranks):
        needed = {head // (count // kv_count) for head in mine[rank]}
        for i in range(length):
            moved[owner[i], rank] += len(mine[rank]) + 2 * len(needed)  # queries; keys and values
            moved[rank, owner[i]] += len(mine[rank])  # the result, back
    sent = [sum(moved[a, b] for b in range(ranks) if a != b) for a in range(ranks)]
    return sent, [sum(moved[a, b] for a in range(ranks) if a != b) for b in range(ranks)]


@pytest.mark.parametrize("ranks", RANKS)
def test_tensor_parallel_is_rings(ranks: int) -> None:
    """Would catch a cut by tokens where the ring cuts elements, one phase for two, a lost all-reduce."""
    for tokens, hidden in [(0, 3), (1, 1), (5, 7), (8, 8)]:
        net, _ = network.ring_all_reduce([np.ones(tokens * hidden)] * ranks)
        for count in (0, 1, 2):
            found = volume.tensor_parallel(tokens, hidden, ranks, itemsize=2, all_reduces=count)
            assert found.by_rank(ranks) == tuple(2 * count * sent for sent in net.sent)
            steps = rounds.tensor_parallel(tokens, hidden, ranks, all_reduces=count)
            assert steps.value == count * net.rounds


@pytest.mark.parametrize("ranks", RANKS)
def test_sequence_parallel_counts_rows(ranks: int) -> None:
    """Would catch shards cut by elements where the sequence is cut, or the batch left out of a row."""
    for length in LENGTHS:
        shards = pieces(length, ranks)
        gathered, _ = travelled(shards)
        scattered = [length - len(shard) for shard in shards]  # a partial sum of each chunk but the own one
        for pairs in (1, 2):
            found = volume.sequence_parallel(3, length, 5, ranks, itemsize=2, pairs=pairs)
            rows = zip(gathered, scattered, strict=True)
            assert found.by_rank(ranks) == tuple(pairs * 3 * 5 * 2 * (a + b) for a, b in rows)
            steps = rounds.sequence_parallel(3, length, 5, ranks, pairs=pairs).value
            assert steps == (pairs * 2 * (ranks - 1) if length else 0)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_ring_attention_hop_by_hop(layout: str, ranks: int) -> None:
    """Would catch p transfers for p-1, sent and received swapped, and lengths of another layout."""
    for length in LENGTHS:
        shards = cut(length, ranks, layout)
        assert layouts.lengths(length, ranks, layout) == tuple(map(len, shards))
        assert [
            [i for part in held for i in part] for held in layouts.positions(length, ranks, layout)
        ] == shards
        sent, received = travelled(shards)
        shape, each = (2, length, 3, 5), 2 * 2 * 3 * 5 * 4
        out = volume.ring_attention(*shape, ranks, itemsize=4, layout=layout)
        back = volume.ring_attention_received(*shape, ranks, itemsize=4, layout=layout)
        assert out.by_rank(ranks) == tuple(each * count for count in sent), length
        assert back.by_rank(ranks) == tuple(each * count for count in received), length
        assert out.value == back.value == float(Fraction((ranks - 1) * length * each, ranks))
        assert rounds.ring_attention(*shape, ranks).value == (ranks - 1 if length else 0)


@pytest.mark.parametrize("ranks", RANKS)
def test_ulysses_cell_by_cell(ranks: int) -> None:
    """Would catch three all-to-alls for four, key-value heads that are not copied, a wrong way back."""
    for kv_heads in [1, ranks, 2 * ranks, 6 * ranks] + [k for k in (2, 3) if ranks % k == 0]:
        for length in LENGTHS:
            sent, received = swapped(length, 6 * ranks, kv_heads, ranks)
            shape, each = (2, length, 6 * ranks, kv_heads, 5), 2 * 5 * 4
            out = volume.ulysses_attention(*shape, ranks, itemsize=4)
            back = volume.ulysses_attention_received(*shape, ranks, itemsize=4)
            assert out.by_rank(ranks) == tuple(each * count for count in sent), (length, kv_heads)
            assert ("2p" if kv_heads < ranks else "2K") in out.formula and out.formula == back.formula
            assert back.by_rank(ranks) == tuple(each * count for count in received), (length, kv_heads)
            total = (2 * 6 * ranks + 2 * max(kv_heads, ranks)) * each * length * (ranks - 1)
            assert out.value == pytest.approx(float(Fraction(total, ranks**2)), rel=1e-15)
            assert rounds.ulysses_attention(*shape, ranks).value == (4 * (ranks - 1) if length else 0)


def test_measured_values() -> None:
    """Would catch a formula changed together with its count: these were read off sockets."""
    shape = (1, 512, 2, 64)  # 524,288 bytes of keys and values
    assert volume.ring_attention(*shape, 2, itemsize=4) == 262_144
    assert volume.ring_attention(*shape, 4, itemsize=4) == 393_216
    assert volume.ulysses_attention(1, 512, 8, 2, 64, 2, itemsize=4) == 655_360
    one = {"itemsize": 4, "pairs": 1}
    assert volume.tensor_parallel(512, 512, 2, itemsize=4, all_reduces=1) + 4 * MESSAGE == 1_049_152
    assert volume.gloo_sequence_parallel(1, 512, 512, 2, **one) + 6 * MESSAGE == 1_573_728
    assert volume.sequence_parallel(1, 512, 512, 2, **one) + 2 * MESSAGE == 1_048_864


def test_the_relations_that_chapters_state() -> None:
    """Would catch TP and SP apart, Ulysses growing with p, ring over Ulysses other than p K / (H + K)."""
    layer = {"itemsize": 2}
    for p in (2, 4, 8):
        tensor = volume.tensor_parallel(64, 32, p, **layer)
        assert volume.sequence_parallel(1, 64, 32, p, **layer) == tensor.value
        assert volume.gloo_sequence_parallel(1, 64, 32, p, **layer) == 1.5 * tensor.value
        assert volume.gloo_tensor_parallel(64, 32, p, **layer) == tensor.value
        grown = volume.ulysses_attention(1, 64 * p, 8, 8, 4, p, **layer)
        assert grown == 4 * 64 * 32 * 2 * (p - 1) / p
        for kv in (p, 8):
            ring = volume.ring_attention(1, 64, kv, 4, p, **layer)
            ulysses = volume.ulysses_attention(1, 64, 8, kv, 4, p, **layer)
            assert (ring / ulysses).value == pytest.approx(p * kv / (8 + kv), rel=1e-15)
    few = volume.ring_attention(1, 64, 2, 4, 2, **layer) / volume.ulysses_attention(
        1, 64, 8, 2, 4, 2, **layer
    )
    assert few == 0.4, "with few key-value heads the ring sends less"


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_strategy_is_whole(name: str) -> None:
    """Would catch a formula that no page can set, a missing source, part of a byte, bytes on one card."""
    form, call = getattr(volume, name), CALLS[name]
    found = form(**call)
    assert (found.name, found.unit, found.ranks, found.per_rank) == (name, "B", 4, None) and found.value > 0
    assert found.source and mathml(found.formula)
    key = "tokens" if "tokens" in call else "sequence"
    odd = form(**{**call, key: 5, **({"hidden": 3} if "hidden" in call else {})})
    assert len(odd.per_rank) == 4 and all(isinstance(nbytes, int) for nbytes in odd.per_rank)
    assert odd.value == pytest.approx(sum(odd.per_rank) / 4)
    assert form(**{**call, "ranks": 1}).value == 0
    parameters = inspect.signature(form).parameters
    assert parameters["itemsize"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", sorted(CALLS))
def test_bad_shapes_are_refused(name: str) -> None:
    """Would catch a number for a shape that cannot be, or a refusal that does not name what was given."""
    for key in CALLS[name]:
        for bad in (-1, 2.0, True):
            with pytest.raises(ValueError, match=rf"{key}={bad}: give"):
                getattr(volume, name)(**{**CALLS[name], key: bad})
    if "layout" in inspect.signature(getattr(volume, name)).parameters:
        with pytest.raises(
            ValueError, match="layout='zigzack' is unknown: choose one of contiguous, zigzag, str"
        ):
            getattr(volume, name)(**CALLS[name], layout="zigzack")


@pytest.mark.parametrize(
    ("count", "kv_count", "ranks", "words"),
    [
        (32, 32, 3, r"ranks=3 cannot split 32 heads: choose a divisor of 32 \(1, 2, 4, 8, 16, 32\)"),
        (8, 2, 3, r"ranks=3 cannot split 8 heads with 2 .* divides 2 or is a multiple of it \(1, 2, 4, 8\)"),
        (12, 6, 4, r"ranks=4 cannot split 12 heads with 6 of keys and values: .* \(1, 2, 3, 6, 12\)"),
        (8, 3, 2, r"kv_heads=3 cannot serve 8 query heads: choose a divisor of 8 \(1, 2, 4, 8\)"),
        (8, 16, 2, "kv_heads=16 cannot serve 8 query heads"),
        (0, 1, 2, "heads=0: give a whole number from 1 on"),
    ],
)
def test_heads_that_do_not_fit_are_refused(count: int, kv_count: int, ranks: int, words: str) -> None:
    """Would catch a price for what no strategy can run, and advice that would not work either."""
    for form in (volume.ulysses_attention, volume.ulysses_attention_received):
        with pytest.raises(ValueError, match=words):
            form(1, 8, count, kv_count, 4, ranks, itemsize=2)
    with pytest.raises(ValueError, match=words):
        rounds.ulysses_attention(1, 8, count, kv_count, 4, ranks)


def test_the_ranks_that_are_advised_work() -> None:
    """Would catch a list of choices with one that is refused in its turn, or one left out."""
    for count, kv_count in [(32, 32), (8, 2), (12, 6), (28, 7)]:
        works = []
        for ranks in range(1, count + 1):
            try:
                works.append((ranks, heads.heads_per_rank(count, kv_count, ranks)))
            except ValueError as error:
                said = str(error)
        assert said.endswith(f"({', '.join(str(ranks) for ranks, _ in works)})")
        assert all(own * ranks == count and kv * ranks >= kv_count for ranks, (own, kv) in works)
