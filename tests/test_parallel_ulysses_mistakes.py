"""Wrong ways to go from sequence to heads that a lesson shows, as facts: what they give, and by how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ulysses_runs import Shape, inputs, one_card

import mindlab as ml
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ulysses import sequence_to_heads, ulysses_attention


def by_lists(pieces: list[torch.Tensor], dim: int) -> torch.Tensor:
    """The list form, as the published sample has it: piece r to rank r; what arrives, joined along dim."""
    arrived = [torch.empty_like(pieces[0]) for _ in pieces]
    dist.all_to_all(arrived, [piece.contiguous() for piece in pieces])
    return torch.cat(arrived, dim)


def sample(whole: torch.Tensor, cut: Callable[..., Any] = torch.chunk) -> torch.Tensor:
    """On a rank: the published sample: one tensor is q, k and v; at the end every rank gets the whole."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = by_lists(list(cut(whole, ranks, dim=1)[rank].tensor_split(ranks, dim=2)), 1)
    out = attention_with_lse(x, x, x)[0]
    mine = by_lists(list(out.tensor_split(ranks, dim=1)), 2)
    gathered = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(gathered, mine)
    return torch.cat(gathered, dim=1)


def drawn(seed: int, length: int = 32) -> torch.Tensor:
    """A random input."""
    return torch.randn(1, length, 4, 16, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_input_of_its_own_on_every_rank(ranks: int) -> None:
    """Would catch the belief that ranks that agree are right: unseeded, they share nobody's result."""

    def run_both() -> tuple[torch.Tensor, torch.Tensor]:
        return sample(drawn(0)), sample(drawn(dist.get_rank()))

    values = ml.launch(run_both, ranks=ranks).values
    for seeded, unseeded in values:
        assert float((seeded - one_card(*[drawn(0)] * 3, False)).abs().max()) <= 1e-5
        assert torch.equal(unseeded, values[0][1])
    for rank in range(ranks):
        assert float((values[0][1] - one_card(*[drawn(rank)] * 3, False)).abs().max()) > 1


def test_one_tensor_for_three_halves_the_bytes() -> None:
    """Would catch a volume measured on the sample: it sends two all-to-alls where an attention needs four."""

    def layouts() -> None:
        ml.step("sample")
        x = by_lists(list(drawn(0).chunk(2, dim=1)[dist.get_rank()].chunk(2, dim=2)), 1)
        by_lists(list(x.chunk(2, dim=1)), 2)
        ml.step("attention")
        ulysses_attention(*[drawn(0).chunk(2, dim=1)[dist.get_rank()]] * 3, sizes=[16, 16])

    events = ml.launch(layouts, ranks=2).events
    for rank in range(2):
        sent = {"sample": 0, "attention": 0}
        for event in events:
            if event.rank == rank:
                sent[event.label] += sum(nbytes for peer, nbytes in event.sends if peer != rank)
        assert sent == {"sample": 4096, "attention": 8192}


@pytest.mark.parametrize(("length", "chunks"), [(66, [17, 17, 17, 15]), (9, [3, 3, 3])])
def test_chunk_is_no_even_cut(length: int, chunks: list[int]) -> None:
    """Would catch `chunk` in place of `tensor_split`: pieces differ in length, or one is missing."""
    assert [part.shape[1] for part in drawn(0, length).chunk(4, dim=1)] == chunks
    with pytest.raises(ml.MindlabError, match=r"all_to_all|IndexError"):
        ml.launch(sample, drawn(0, length), ranks=4, timeout=30)

    def told() -> torch.Tensor:
        shard = drawn(0, length).split([*chunks, 0][:4], dim=1)[dist.get_rank()]
        return ulysses_attention(shard, shard, shard)

    found = torch.cat(ml.launch(told, ranks=4).values, dim=1)
    assert float((found - one_card(*[drawn(0, length)] * 3, False)).abs().max()) <= 1e-5


def test_the_list_form_wants_equal_pieces() -> None:
    """Would catch the belief that tensor_split repairs the sample for any length: gloo refuses such lists."""
    with pytest.raises(ml.MindlabError, match=r"hands 1088 B to rank 2, which expects 1024 B"):
        ml.launch(sample, drawn(0, 66), torch.tensor_split, ranks=4, timeout=30)

    def with_room_for_each() -> None:
        shards = drawn(0, 66).tensor_split(4, dim=1)
        pieces = [piece.contiguous() for piece in shards[dist.get_rank()].tensor_split(4, dim=2)]
        arrived = [torch.empty(1, shard.shape[1], 1, 16) for shard in shards]
        dist.all_to_all(arrived, pieces)

    with pytest.raises(ml.MindlabError, match="invalid tensor size"):
        ml.launch(with_room_for_each, ranks=4, timeout=30)


def test_heads_and_positions_back_in_the_wrong_order() -> None:
    """Would catch a way back without its permutation: right in shape, at p=1, and for a constant input."""

    def back(constant: bool) -> tuple[float, tuple[int, ...]]:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        whole = torch.full((1, 12, 4, 3), 2.0) if constant else torch.randn(1, 12, 4, 3)
        sent = sequence_to_heads(whole.tensor_split(ranks, dim=1)[rank]).transpose(0, 1).contiguous()
        arrived = torch.empty_like(sent)  # (p, S_r, B, h, D): pieces in the order of ranks
        dist.all_to_all_single(arrived, sent)
        unordered = arrived.reshape(1, 12 // ranks, 4, 3)
        right = whole.tensor_split(ranks, dim=1)[rank]
        return float((unordered - right).abs().max()), tuple(unordered.shape)

    for ranks in (1, 2, 4):
        for error, shape in ml.launch(back, False, ranks=ranks).values:
            assert (error > 1) == (ranks > 1) and shape == (1, 12 // ranks, 4, 3)
        assert [error for error, _ in ml.launch(back, True, ranks=ranks).values] == [0.0] * ranks


def test_key_value_heads_tiled_instead_of_repeated() -> None:
    """Would catch `repeat` for `repeat_interleave`: heads 0 1 0 1 give the inner ranks another's keys."""
    shape = Shape(2, 24, 8, 2, 6)

    def tiled(repeat: str) -> torch.Tensor:
        q, k, v = (x.tensor_split(4, dim=1)[dist.get_rank()] for x in inputs(shape))
        if repeat == "tile":
            k, v = (x.repeat(1, 1, 2, 1) for x in (k, v))
        else:
            k, v = (x.repeat_interleave(2, dim=2) for x in (k, v))
        return ulysses_attention(q, k, v)

    right = one_card(*inputs(shape), False)
    errors = {}
    for repeat in ("interleave", "tile"):
        found = torch.cat(ml.launch(tiled, repeat, ranks=4).values, dim=1)
        errors[repeat] = (found - right).abs().amax((0, 1, 3))
    assert float(errors["interleave"].max()) <= 1e-5
    assert (errors["tile"] > 0.5).tolist() == [False] * 2 + [True] * 4 + [False] * 2


def test_padded_keys_take_weight() -> None:
    """Would catch keys of zeros that fill up the last shard: each adds exp(0) to every sum of weights."""
    q, k, v = inputs(Shape(2, 10, 4, 4, 6))
    padded = [torch.cat([x, x.new_zeros(2, 2, 4, 6)], dim=1) for x in (q, k, v)]

    def filled() -> torch.Tensor:
        return ulysses_attention(*(x.tensor_split(4, dim=1)[dist.get_rank()] for x in padded))

    found = torch.cat(ml.launch(filled, ranks=4).values, dim=1)[:, :10]
    assert float((found - one_card(q, k, v, False)).abs().max()) > 0.1
