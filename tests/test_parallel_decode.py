"""Decoding from shards: one card's attention on every rank, the formula's bytes, work stated, refusals."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
from attention_data import exact, qkv
from decode_runs import CASES, MERGES, Case, decoded, inputs, one_card

import mindlab as ml
from mindlab.models.layers import Attention
from mindlab.parallel import decode
from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import decode_attention, merge_gathered, merge_scattered, merge_summed
from mindlab.parallel.heads import ParallelAttention
from mindlab.predict.caches import held
from mindlab.predict.gloo import gloo_all_reduce

# float32: another order of sums. Half: each part is rounded once (2^-9 of values up to 3.4), the result too.
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-6, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_one_card_on_every_rank(ranks: int) -> None:
    """Would catch parts summed without their LSE, a padded key that counts, NaN from an empty shard."""

    def every() -> Any:
        return {(case, dtype): decoded(case, dtype) for case in CASES for dtype in CLOSE}

    run = ml.launch(every, ranks=ranks)
    for case, dtype in run.values[0]:
        right = one_card(case, dtype)
        for rank, values in enumerate(run.values):
            out = values[case, dtype]
            assert out.dtype == dtype and out.shape == right.shape, (case, rank)
            assert float((out - right).abs().max()) <= CLOSE[dtype], (case, dtype, rank)
            # each rank chooses its next token by itself: close is not enough
            assert torch.equal(out, run.values[0][case, dtype]), (case, dtype, rank)


def test_the_error_does_not_grow_with_p_in_half_precision() -> None:
    """Would catch an LSE that travels in bfloat16, or sums in bfloat16: 8 ranks, close to 1 rank's error."""
    case = Case((200, 63, 8), heads=8, kv_heads=2, dim=16)
    right = one_card(case, torch.bfloat16)
    errors = [
        float((ml.launch(decoded, case, torch.bfloat16, ranks=ranks).values[0] - right).abs().max())
        for ranks in (1, 8)
    ]
    assert errors[1] <= 3 * errors[0] and errors[1] < 1e-2


def test_uneven_shards_as_they_come() -> None:
    """Would catch a shard's place computed from p and S: 0, 9, 1 and 4 keys in any order, without lengths."""
    q, k, v = qkv(1, 14, heads=6, kv_heads=3)
    many = qkv(3, 1, heads=6, kv_heads=3, seed=5)[0]
    right, sizes = exact(q, k, v, False)[0], [0, 9, 1, 4]

    def every() -> Any:
        rank = dist.get_rank()
        forward = [torch.split(x, sizes, 1)[rank] for x in (k, v)]
        mixed = [torch.split(x.flip(1), sizes[::-1], 1)[rank] for x in (k, v)]
        scaled = decode_attention(q, *forward, scale=0.5)
        several = [decode_attention(many, *forward, merge=merge) for merge in MERGES.values()]
        return decode_attention(q, *forward), decode_attention(q, *mixed), scaled, several

    for values in ml.launch(every, ranks=4).values:
        for out in values[:2]:
            assert float((out - right).abs().max()) <= 1e-5
        assert float((values[2] - exact(q, k, v, False, scale=0.5)[0]).abs().max()) <= 1e-5
        for out in values[3]:  # three queries a request: heads and queries must not change places
            assert float((out - exact(many, k, v, False)[0]).abs().max()) <= 1e-5


BATCH, HEADS, DIM = 3, 7, 10


def step(length: int, merge: Any, dtype: torch.dtype) -> None:
    """On a rank: one decode step of 21 rows, with as many keys of each request as this."""
    x = torch.ones(BATCH, length, HEADS, DIM, dtype=dtype)
    decode_attention(x[:, :1], x, x, merge=merge)


def gloo_summed(ranks: int, itemsize: int) -> list[int]:
    """The bytes that each rank sends in two all-reduces of gloo."""
    rows, wide = BATCH * HEADS, max(4, itemsize)
    top = gloo_all_reduce(rows * 4, ranks, itemsize=4)
    sums = gloo_all_reduce(rows * (DIM + 1) * wide, ranks, itemsize=wide)
    return [int(one) + int(two) for one, two in zip(top.by_rank(ranks), sums.by_rank(ranks), strict=True)]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
def test_wire_bytes_of_a_token(ranks: int, dtype: torch.dtype) -> None:
    """Would catch one byte between formula and wire, on any rank; a longer cache sends the same."""
    shape, e = (BATCH, HEADS, DIM, ranks), {"itemsize": dtype.itemsize}
    summed = gloo_summed(ranks, dtype.itemsize)
    assert sum(summed) == pytest.approx(ranks * float(ml.volume.decode_attention_summed(*shape, **e)))
    for merge, length, sent in (
        (merge_scattered, 4, ml.volume.decode_attention(*shape, **e).by_rank(ranks)),
        (merge_scattered, 40, ml.volume.decode_attention(*shape, **e).by_rank(ranks)),
        (merge_gathered, 4, ml.volume.decode_attention_gathered(*shape, **e).by_rank(ranks)),
        (merge_summed, 4, summed),
    ):
        run = ml.launch(step, length, merge, dtype, ranks=ranks)
        if run.wire is None or run.wire.payload is None:
            pytest.skip(run.why_no_wire or "the payload cannot be told")
        assert run.wire.payload.sum(axis=1).tolist() == list(sent), (merge.__name__, length)


def test_each_rank_reads_its_shard_only() -> None:
    """Would catch padding that is read, and work that is not stated: bytes by the formula, rank by rank."""
    case = Case((30, 17, 2))
    run = ml.launch(decoded, case, torch.float32, ranks=4)
    outside = 2 * len(case.lengths) * case.heads * case.dim * 4  # queries read, outputs written
    for rank in range(4):
        keys = sum(held(length, 4)[rank] for length in case.lengths)
        stated = [row for row in run.work if row.rank == rank and row.what == "attention"]
        assert sum(row.nbytes for row in stated) - outside == 2 * keys * case.kv_heads * case.dim * 4
        assert sum(row.flop for row in stated) == 4 * keys * case.heads * case.dim
    sizes = [ml.memory.kv_cache_shard(1, s, case.kv_heads, case.dim, 4, itemsize=4) for s in case.lengths]
    total = sum(sizes[1:], sizes[0])
    assert [int(n) for n in total.by_rank(4)] == [
        2 * 4 * case.kv_heads * case.dim * sum(held(s, 4)[rank] for s in case.lengths) for rank in range(4)
    ]


def test_heads_on_the_other_axis_of_a_mesh() -> None:
    """Would catch the merge on all ranks instead of the axis of the cache, and heads of another rank."""
    torch.manual_seed(3)
    full = Attention(24, heads=4, kv_heads=2, head_dim=10).requires_grad_(False)
    x = torch.randn(2, 9, 24)

    def on_mesh(shape: tuple[int, int]) -> Any:
        mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("tensor", "cache"))
        attention = ParallelAttention.from_full(full, mesh.get_group("tensor"))
        cache = ShardedCache(2, 9, attention.kv_heads, (10, 10), group=mesh.get_group("cache"))
        for at in range(9):
            q, k, v = attention.qkv(x[:, at : at + 1])
            cache.append(k, v)
        out = decode_attention(q, *cache.shard, lengths=cache.own, group=mesh.get_group("cache"))
        return attention.o(out.flatten(2))

    for shape in ((2, 2), (4, 1), (1, 3)):
        for out in ml.launch(on_mesh, shape, ranks=shape[0] * shape[1]).values:
            assert float((out - full(x)[:, -1:]).abs().max()) <= 1e-5, shape


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([3], "2 requests"), ([3, 5], "room for 4"), ([-1, 2], r"lengths=\[-1, 2\]")],
)
def test_wrong_lengths_are_refused(lengths: list[int], message: str) -> None:
    """Would catch a length of the whole cache given for that of a shard: it would read beyond it."""
    x = torch.ones(2, 4, 2, 8)
    with pytest.raises(ValueError, match=message):
        decode.attend_shard(x[:, :1], x, x, lengths)
    assert decode.attend_shard(x[:, :1], x, x, torch.tensor([4, 0]))[1][1].isinf().all()


def test_a_single_row_and_mistakes_that_show() -> None:
    """Would catch a check that any merge passes: without the LSE uneven shards give another result."""
    case = Case((31,), heads=1, kv_heads=1)

    def mean_of_parts() -> torch.Tensor:
        (q, k, v), *_ = inputs(case, torch.float32)
        mine = slice(0, 25) if dist.get_rank() == 0 else slice(25, 31)
        out, _ = decode.attend_shard(q, k[:, mine], v[:, mine])
        dist.all_reduce(out)
        return out / 2

    right = one_card(case, torch.float32)
    assert float((ml.launch(mean_of_parts, ranks=2).values[1] - right).abs().max()) > 1e-2
    assert float((ml.launch(decoded, case, torch.float32, ranks=2).values[1] - right).abs().max()) <= 1e-5


def test_examples() -> None:
    """Would catch an example that was right once."""
    scope = {"torch": torch, "dist": dist, "ml": ml}
    done = doctest.testmod(decode, extraglobs=scope)
    assert done.attempted and not done.failed
