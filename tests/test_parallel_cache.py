"""The sharded cache: each token once, the layout change from a prefill with its bytes, overflow refused."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.parallel import cache as of_cache
from mindlab.parallel import relayout
from mindlab.parallel.cache import ShardedCache, held, holder, one_piece
from mindlab.parallel.relayout import to_cache
from mindlab.parallel.shards import split_sequence


def numbered(length: int, first: int = 0) -> torch.Tensor:
    """A tensor (2, length, 3, 5) in which every number says batch, position, head and place."""
    return torch.arange(first, first + 2 * length * 15, dtype=torch.float32).view(2, length, 3, 5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_token_is_stored_once(ranks: int) -> None:
    """Would catch the new token on every rank, a token lost at a block's edge, requests mixed up."""

    def fill() -> Any:
        kept = []
        for block in (1, 2, 5, one_piece(17, dist.get_world_size())):
            cache = ShardedCache(2, 17, 3, (5, 5), block=block)
            k, v = numbered(17), numbered(17, 1000)
            cache.append(k[:, :4], v[:, :4])  # several at one time
            cache.append(k[:1, 4:6], v[:1, 4:6], requests=[0])
            cache.append(k[:, 6:6], v[:, 6:6])  # none
            for at in range(4, 17):
                cache.append(k[1:, at : at + 1], v[1:, at : at + 1], requests=[1])
            kept.append((block, cache.lengths, cache.own, [part.clone() for part in cache.shard]))
        return kept

    run = ml.launch(fill, ranks=ranks)
    for index, (block, lengths, _, _) in enumerate(run.values[0]):
        assert lengths == [6, 17]
        for rank, values in enumerate(run.values):
            _, same, own, parts = values[index]
            assert same == lengths and own == [held(length, ranks, block)[rank] for length in lengths]
            for part, whole in zip(parts, (numbered(17), numbered(17, 1000)), strict=True):
                assert part.shape[1] == max(own)
                for request, length in enumerate(lengths):
                    mine = [at for at in range(length) if holder(at, ranks, block) == rank]
                    assert torch.equal(part[request, : own[request]], whole[request, mine])


def test_overflow_is_refused_and_nothing_is_stored() -> None:
    """Would catch the oldest token overwritten, or one request's token stored before another is refused."""

    def fill() -> Any:
        cache = ShardedCache(2, 3, 1, (1,))
        one = torch.ones(2, 1, 1, 1)
        cache.append(one.expand(2, 2, 1, 1))
        cache.append(one[:1], requests=[0])
        errors = []
        for given, more in (
            ((one,), {}),
            ((one, one), {}),
            ((one[:1],), {}),
            ((one,), {"requests": [1, 1]}),
            ((one[:1],), {"requests": [2]}),
            ((one[0],), {}),
        ):
            try:
                cache.append(*given, **more)
            except ValueError as error:
                errors.append(str(error))
        before = list(cache.lengths)
        cache.clear(0)
        cache.append(one)
        return errors, before, cache.lengths

    for errors, before, lengths in ml.launch(fill, ranks=3).values:
        assert "request 0 has 3 tokens and gets 1" in errors[0] and "capacity=4" in errors[0]
        assert "2 tensors for a cache that keeps 1" in errors[1]
        assert "(2, 1, 1, 1)" in errors[2] and "give different ones from 0 to 1" in errors[3]
        assert "give different ones from 0 to 1" in errors[4] and "does not fit" in errors[5]
        assert len(errors) == 6 and before == [3, 2] and lengths == [1, 3]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_layout_change_and_its_bytes(ranks: int) -> None:
    """Would catch keys in the order of arrival, and one byte between formula and wire, on any rank."""
    for length, layout, block in (
        (1, "contiguous", 1),
        (17, "contiguous", 1),
        (17, "zigzag", 2),
        (24, "zigzag", 1),
        (24, "contiguous", one_piece(24, ranks)),
    ):

        def change(length: int = length, layout: str = layout, block: int = block) -> Any:
            k, v = (
                split_sequence(x, ranks, layout=layout)[dist.get_rank()]
                for x in (numbered(length), numbered(length, 7))
            )
            return [to_cache(x, length, layout=layout, block=block) for x in (k, v)]

        run = ml.launch(change, ranks=ranks)
        for rank, values in enumerate(run.values):
            mine = [at for at in range(length) if holder(at, ranks, block) == rank]
            assert torch.equal(values[0], numbered(length)[:, mine]), (length, layout, block, rank)
            assert torch.equal(values[1], numbered(length, 7)[:, mine]), (length, layout, block, rank)
        sent = ml.volume.decode_layout(2, length, 3, 5, ranks, itemsize=4, layout=layout, block=block)
        if block == one_piece(24, ranks) and length == 24:
            assert sent.value == 0
        if run.wire is None or run.wire.payload is None:
            pytest.skip(run.why_no_wire or "the payload cannot be told")
        assert run.wire.payload.sum(axis=1).tolist() == list(sent.by_rank(ranks)), (length, layout, block)


def test_filling_checks_what_this_rank_holds() -> None:
    """Would catch a prompt filled in the prefill's layout, which has other tokens than the rule says."""

    def fill() -> Any:
        cache = ShardedCache(1, 8, 3, (5, 5))
        rank = dist.get_rank()
        with pytest.raises(ValueError, match=rf"of 5 tokens rank {rank} holds \({3 - rank}, 3, 5\)"):
            cache.fill(0, 5, torch.ones(4, 3, 5), torch.ones(4, 3, 5))
        with pytest.raises(ValueError, match="capacity=8 has no room"):
            cache.fill(0, 9, torch.ones(5 - rank, 3, 5), torch.ones(5 - rank, 3, 5))
        with pytest.raises(ValueError, match="this rank has 3"):
            to_cache(torch.ones(1, 4, 3, 5), 6)
        own = held(5, 2)[rank]
        cache.fill(0, 5, torch.ones(own, 3, 5), torch.ones(own, 3, 5))
        return cache.lengths, cache.own

    assert ml.launch(fill, ranks=2).values == [([5], [3]), ([5], [2])]


@pytest.mark.parametrize("module", [of_cache, relayout])
def test_examples(module: Any) -> None:
    """Would catch an example that was right once."""
    scope = {"torch": torch, "dist": dist, "ml": ml}
    done = doctest.testmod(module, extraglobs=scope)
    assert done.attempted and not done.failed
