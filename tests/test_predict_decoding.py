"""Decoding on paper: which rank holds a position, what a cache takes, what merges and a new layout send."""

from __future__ import annotations

import doctest

import pytest

import mindlab as ml
from mindlab.book.mathml import mathml
from mindlab.predict import caches, decoding
from mindlab.predict.caches import held, held_positions, holder, one_piece


@pytest.mark.parametrize("block", [1, 2, 3, 16])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_position_lies_on_one_rank(ranks: int, block: int) -> None:
    """Would catch a count that disagrees with the rule, at any length; a position held twice or never."""
    for length in range(40):
        owners = [holder(at, ranks, block) for at in range(length)]
        assert held(length, ranks, block) == tuple(owners.count(rank) for rank in range(ranks))
        lists = [held_positions(0, length, rank, ranks, block) for rank in range(ranks)]
        assert sorted(at for mine in lists for at in mine) == list(range(length))
        for rank, mine in enumerate(lists):
            late = held_positions(length // 2, length, rank, ranks, block)
            assert mine == mine[: held(length // 2, ranks, block)[rank]] + late


def test_one_piece_is_one_run_a_rank() -> None:
    """Would catch a block too small by one, which starts a second piece on rank 0."""
    for ranks in (1, 2, 3, 4):
        for capacity in range(1, 20):
            block = one_piece(capacity, ranks)
            owners = [holder(at, ranks, block) for at in range(capacity)]
            assert owners == sorted(owners)


@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_the_scattered_merge_sends_least(ranks: int, itemsize: int) -> None:
    """Would catch the default chosen by a wrong count: the text says that no other form sends less."""
    for heads, dim in ((1, 8), (7, 64), (32, 128)):
        shape = (3, heads, dim, ranks)
        least = ml.volume.decode_attention(*shape, itemsize=itemsize)
        assert least <= ml.volume.decode_attention_gathered(*shape, itemsize=itemsize)
        assert least <= ml.volume.decode_attention_summed(*shape, itemsize=itemsize)
        rows = 3 * heads
        closed = (ranks - 1) / ranks * rows * (2 * dim * itemsize + max(4, itemsize))
        assert float(least) == pytest.approx(closed)
        assert ml.volume.decode_attention(*shape, itemsize=itemsize, layers=5) == 5 * least


def test_the_cache_shrinks_with_p_where_heads_do_not() -> None:
    """Would catch a cache by position that stops at K ranks, as one by heads does."""
    whole = ml.memory.kv_cache(1, 4096, 2, 128, itemsize=2)
    for ranks in (1, 2, 4, 8):
        by_position = ml.memory.kv_cache_shard(1, 4096, 2, 128, ranks, itemsize=2)
        assert by_position.value * ranks == whole.value
    assert ml.memory.kv_cache(1, 4096, 2, 128, itemsize=2, ranks=8).value == whole.value // 2


def test_deepseek_v3_keeps_70272_bytes_a_token() -> None:
    """Would catch the rope part forgotten, or keys and values counted twice: 61 layers of 512 + 64."""
    assert ml.memory.latent_cache(1, 1, 512, 64, itemsize=2, layers=61).value == 61 * 576 * 2
    eighth = ml.memory.latent_cache(1, 4096, 512, 64, itemsize=2, ranks=8)
    assert eighth.value == 4096 // 8 * 576 * 2


def test_intensity_of_one_query_is_set_by_the_groups() -> None:
    """Would catch a decode step whose work for each byte grows with the cache."""
    for heads, kv_heads, near in ((32, 32, 1), (32, 4, 8)):  # bfloat16
        long = ml.flops.attention_intensity(1, 10**6, heads, kv_heads, itemsize=2)
        assert float(long) == pytest.approx(near, rel=1e-3)
    prefill = ml.flops.attention_intensity(4096, 4096, 32, 32, itemsize=2)
    assert float(prefill) == pytest.approx(4096 * 4 / 3 / 2)


@pytest.mark.parametrize(
    ("form", "arguments", "message"),
    [
        (decoding.decode_attention, (0, 8, 64, 4), "batch=0"),
        (decoding.decode_attention_gathered, (1, 8, 64, 0), "ranks=0"),
        (decoding.decode_layout, (1, -1, 2, 64, 4), "sequence=-1"),
        (decoding.kv_cache_shard, (1, 8, 2, 0, 4), "head_dim=0"),
        (decoding.latent_cache, (1, 8, 0, 4), "latent=0"),
        (decoding.attention_intensity, (1, 8, 6, 4), "kv_heads=4 cannot serve 6"),
    ],
)
def test_wrong_shapes_are_refused(form: object, arguments: tuple[int, ...], message: str) -> None:
    """Would catch a shape that cannot be and gives a number all the same."""
    with pytest.raises(ValueError, match=message):
        form(*arguments, itemsize=4)  # type: ignore[operator]
    with pytest.raises(ValueError, match="block=0"):
        decoding.decode_layout(1, 8, 2, 4, 2, itemsize=4, block=0)


def test_every_quantity_can_be_set_on_a_page() -> None:
    """Would catch a formula that no page can set, and a number without a source."""
    merge, cache = (2, 8, 16, 3), (2, 30, 4, 16, 3)
    for itemsize in (2, 8):
        for found in (
            decoding.decode_attention(*merge, itemsize=itemsize, layers=2),
            decoding.decode_attention_gathered(*merge, itemsize=itemsize),
            decoding.decode_attention_summed(*merge, itemsize=itemsize),
            decoding.decode_layout(*cache, itemsize=itemsize),
            decoding.decode_layout(*cache, itemsize=itemsize, block=4),
            decoding.kv_cache_shard(*cache, itemsize=itemsize),
            decoding.attention_intensity(1, 30, 8, 4, itemsize=itemsize),
        ):
            assert mathml(found.formula) and found.source and found.name and found.value > 0


@pytest.mark.parametrize("module", [caches, decoding])
def test_examples(module: object) -> None:
    """Would catch an example that was right once."""
    done = doctest.testmod(module)  # type: ignore[arg-type]
    assert done.attempted and not done.failed
