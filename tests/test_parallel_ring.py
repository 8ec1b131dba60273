"""Ring attention: one card's numbers on every rank, the formula's bytes, and no more memory than promised."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
import torch.distributed as dist
from attention_data import apart, exact, qkv
from ring_runs import (
    Case,
    blocks_seen,
    held_beside,
    own_sizes,
    shard_of,
    shards_of,
    side_by_side,
    two_rings,
    whole,
)

import mindlab as ml
from mindlab.draw.rounds import in_rounds
from mindlab.parallel.attention import visible_pairs
from mindlab.parallel.ring import ring_attention, visible_part
from mindlab.parallel.shards import sequence_sizes, split_sequence

LAYOUTS = ["contiguous", "zigzag"]
NEAR = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@functools.cache
def _one_card(length: int, causal: bool, kv_heads: int, dtype: torch.dtype) -> torch.Tensor:
    return exact(*whole(Case(length, causal, kv_heads=kv_heads, dtype=dtype)), causal)[0]


def one_card(case: Case) -> torch.Tensor:
    """The whole output, which depends on neither layout nor overlap."""
    return _one_card(case.length, case.causal, case.kv_heads, case.dtype)


def agree(values: list[torch.Tensor], case: Case, where: str) -> None:
    """Holds every rank's shard against one card's."""
    right = split_sequence(one_card(case), len(values), layout=case.layout)
    for rank, (shard, wanted) in enumerate(zip(values, right, strict=True)):
        assert shard.dtype == case.dtype, (where, rank)
        assert apart(shard, wanted) < NEAR[case.dtype], f"{where}, rank {rank}: {apart(shard, wanted)}"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_card_on_every_rank(ranks: int) -> None:
    """Would catch: outputs summed without weights; a softmax over heads; the last transfer left out; a
    causal block hidden or shown wrongly on some rank only; zigzag rules on contiguous shards; key heads
    tiled; sums in bfloat16; a rest dropped where p does not divide; a hang where shards are empty."""
    lengths = sorted({0, 1, ranks - 1, ranks + 1, 30, 31, 66})
    grid = itertools.product(lengths, (False, True), LAYOUTS, (False, True), (1, 4), NEAR)
    cases = [Case(*values) for values in grid]
    cases += [Case(31, causal, layout, told=False) for causal in (False, True) for layout in LAYOUTS]
    run = ml.launch(shards_of, cases, ranks=ranks)
    for index, case in enumerate(cases):
        agree([value[index] for value in run.values], case, f"p={ranks}, {case}")


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("sizes", [[5, 0, 9], [0, 0, 4], [1, 30, 2], [0, 0, 0]])
def test_shards_of_any_lengths(sizes: list[int], told: bool) -> None:
    """Would catch lengths taken for equal: a shorter message leaves the rest of a buffer as it was."""
    for causal in (False, True):
        run = ml.launch(own_sizes, sizes, told, causal, ranks=3)
        right = exact(*qkv(sum(sizes), sum(sizes), kv_heads=1), causal)[0].split(sizes, 1)
        for rank in range(3):
            assert apart(run.values[rank], right[rank]) < 1e-5, (sizes, causal, rank)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_bytes_and_transfers_of_the_formula(ranks: int) -> None:
    """Would catch p transfers instead of p-1, queries that travel, a padded shard, another neighbour."""
    for length, layout, overlap in itertools.product((ranks - 1, 64, 31), LAYOUTS, (True, False)):
        case = Case(length, True, layout, overlap)
        run = ml.launch(shard_of, case, ranks=ranks)
        shards = sequence_sizes(length, ranks, layout=layout)
        token = 2 * 2 * case.kv_heads * 12 * 4  # keys and values, batch 2, head_dim 12, float32
        sent = [token * (length - shards[(rank + 1) % ranks]) for rank in range(ranks)]
        assert run.sent.tolist() == sent and sum(sent) == (ranks - 1) * length * token, case
        exactly = ml.volume.ring_attention(2, length, 2, 12, ranks, itemsize=4, layout=layout)
        assert list(exactly.by_rank(ranks)) == sent, case
        sends = [event for event in run.events if event.op == "isend"]
        assert {(e.rank, e.peer) for e in sends} <= {(r, (r + 1) % ranks) for r in range(ranks)}, case
        if min(shards):
            assert len(sends) == 2 * ranks * (ranks - 1) and len(in_rounds(run.events)) == ranks - 1, case
        if run.wire is not None and ranks > 1:
            assert run.wire.payload is not None, run.wire.note
            assert run.wire.payload.sum(axis=1).tolist() == sent, case


def test_without_sizes_only_the_lengths_come_on_top() -> None:
    """Would catch an exchange of more than 8 bytes to each other rank."""
    told, asked = (ml.launch(shard_of, Case(31, told=told), ranks=3).sent for told in (True, False))
    assert [more - less for more, less in zip(asked.tolist(), told.tolist(), strict=True)] == [16] * 3


def test_two_rings_side_by_side() -> None:
    """Would catch ranks of a group taken for global ones, and messages that go to the other group."""
    members, case = [[3, 0, 4], [1, 2]], Case(31, True, "zigzag")
    run = ml.launch(two_rings, members, case, ranks=6)
    for number, ranks in enumerate(members):
        found = [run.values[rank] for rank in sorted(ranks)]  # new_group sorts them
        agree(found, case._replace(length=31 + 5 * number), f"ring {number}")
    assert run.values[5] is None
    crossing = [e for e in run.events if e.op == "isend" and (e.rank in (1, 2)) != (e.peer in (1, 2))]
    assert not crossing


@pytest.mark.parametrize("overlap", [True, False])
def test_no_block_is_overwritten_while_it_is_sent(overlap: bool) -> None:
    """Would catch one buffer for what leaves and what comes, or a block that changes while it is used: one
    rank is slow, its neighbours are ahead."""
    sizes = [4096, 4000, 4096, 0]
    for slow in (0, 2):
        run = ml.launch(blocks_seen, sizes, overlap, slow, ranks=4)
        for rank, seen in enumerate(run.values):
            sources = [(rank - step) % 4 for step in range(4)]
            right = [
                (s, sizes[s], [float(s)] * bool(sizes[s]), [s + 100.0] * bool(sizes[s])) for s in sources
            ]
            assert seen == right, (rank, slow)


def starts(run: Any, rank: int) -> tuple[list[int], list[int]]:
    """How many calls came before each attention of a rank, and the places of its sends."""
    works = [work.index for work in run.work if work.rank == rank]
    first = min(event.index for event in run.events if event.rank == rank)
    sends = [e.index - first for e in run.events if e.rank == rank and e.op == "isend"]
    return works, sends


def test_overlap_sends_before_it_computes() -> None:
    """Would catch an overlap in name only: the send posted after the attention that it should hide behind."""
    for overlap, expected in ((True, [4, 8, 8]), (False, [0, 4, 8])):
        run = ml.launch(shard_of, Case(30, overlap=overlap), ranks=3)
        for rank in range(3):
            works, sends = starts(run, rank)
            assert works == expected and len(sends) == 4, (overlap, rank)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_work_of_a_causal_mask(ranks: int) -> None:
    """Would catch hidden blocks that are computed, and a zigzag that is not balanced."""
    for layout in LAYOUTS:
        run = ml.launch(shard_of, Case(64, True, layout), ranks=ranks)
        work = [sum(w.flop for w in run.work if w.rank == rank) for rank in range(ranks)]
        each = 4 * 2 * 4 * 12
        assert sum(work) == each * visible_pairs(64, 64, True)
        balance = max(work) / (sum(work) / ranks)
        if layout == "zigzag":
            assert len(set(work)) == 1
        else:
            assert balance == pytest.approx((2 * ranks - 1) / ranks, rel=0.03)  # exact for long sequences


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [3, 30, 31, 66])
def test_the_rule_of_what_is_seen(length: int, layout: str) -> None:
    """Would catch a rule that is right for chunks of one length only: every pair must be met once."""
    for ranks in (1, 2, 3, 4, 8):
        sizes = sequence_sizes(length, ranks, layout=layout)
        at = split_sequence(torch.arange(length), ranks, layout=layout, dim=0)
        for rank, source in itertools.product(range(ranks), range(ranks)):
            part = visible_part(rank, source, sizes, causal=True, layout=layout)
            met = torch.zeros(sizes[rank], sizes[source], dtype=torch.bool)
            met[part.first :, : part.keys] = True
            met = met.tril() if part.causal else met
            assert torch.equal(met, at[source] <= at[rank][:, None]), (ranks, rank, source)


@pytest.mark.parametrize("dtype", NEAR, ids=str)
def test_memory(dtype: torch.dtype) -> None:
    """Would catch all keys and values gathered, a third buffer, old blocks kept by pending sends."""
    ranks, length = 4, 512
    for layout, overlap, causal in itertools.product(LAYOUTS, (True, False), (False, True)):
        case = Case(length, causal, layout, overlap, kv_heads=4, dtype=dtype)
        peaks = ml.launch(held_beside, case, ranks=ranks).values
        tokens, size = 2 * length // ranks, dtype.itemsize
        travelling = 2 * 2 * tokens * case.kv_heads * 12 * size
        out = tokens * 4 * 12
        numbers = 8 * tokens * 4 * 4  # LSE and weights, a float32 a query and head each: less than a buffer
        step = out * size + (out * 4 if size < 4 else 0)  # one step's result, and its float32 form
        assert max(peaks) <= travelling + out * 4 + step + numbers, case


def odd(fault: str) -> Any:
    q, k, v = qkv(6, 6, kv_heads=2)
    if fault == "strided":
        k, v = (torch.stack([x, x * 9], -1)[..., 0] for x in (k, v))
        return ring_attention(q, k.transpose(1, 2).contiguous().transpose(1, 2), v, sizes=[6, 6])
    if fault == "gradient":
        return ring_attention(q.requires_grad_(), k, v, sizes=[6, 6]).requires_grad
    if fault == "query":
        return ring_attention(q[:, :1], k, v)
    if fault == "layout":
        return ring_attention(q, k, v, layout="striped")
    if fault == "not zigzag":
        return ring_attention(q, k[:, :6], v, layout="zigzag", sizes=[[6, 9], [9, 6]][dist.get_rank()])
    return ring_attention(q, k, v, sizes=[6, 7])


def test_strided_keys_and_values() -> None:
    """Would catch memory with gaps that gloo sends as if it had none."""
    run = ml.launch(odd, "strided", ranks=2)
    q, k, v = qkv(6, 6, kv_heads=2)
    right = exact(q, torch.cat([k, k], 1), torch.cat([v, v], 1), False)[0]
    assert all(apart(value, right) < 1e-5 for value in run.values)
    assert ml.launch(odd, "gradient", ranks=2).values == [False, False]


@pytest.mark.parametrize(
    ("fault", "say"),
    [
        ("query", "q has 1 tokens, k and v have 6: ring attention wants them cut alike"),
        ("layout", "layout='striped' is unknown: choose one of contiguous, zigzag"),
        ("not zigzag", "are not a zigzag layout of 15: that has \\[7, 8\\]"),
        ("sizes", "sizes=\\[6, 7\\] does not fit: 2 ranks, and rank 1 has a shard of 6"),
    ],
)
def test_what_is_refused(fault: str, say: str) -> None:
    """Would catch a wrong answer where the parts cannot fit together."""
    with pytest.raises(ml.MindlabError, match=say):
        ml.launch(odd, fault, ranks=2)


@pytest.mark.parametrize("rotate", ["alltoall", "allgather"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_beside_torchs_own(ranks: int, rotate: str) -> None:
    """Would catch a mistake that the reference of these tests shares: torch's ring attention is another's."""
    for causal in (False, True):
        found = ml.launch(side_by_side, 64, causal, rotate, ranks=ranks).values
        if isinstance(found[0], str):
            pytest.skip(found[0])
        for difference, largest in found:
            assert difference < 2e-6 and largest > 0.5, (causal, rotate)  # both in float32
