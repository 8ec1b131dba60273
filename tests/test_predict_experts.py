"""The bytes of expert parallel on paper: counted again by hand, published numbers, simulation, refusals."""

from __future__ import annotations

import doctest
import random
from typing import Any

import pytest

from mindlab.book.mathml import mathml
from mindlab.predict import experts as formulas
from mindlab.predict import placement, volume
from mindlab.predict.placement import deal, expert_capacity, experts_of, holders

E, H, ITEM = 6, 5, 2


def routing(ranks: int, top_k: int = 2, seed: int = 3) -> list[list[list[int]]]:
    """A table: rank r has 3 r tokens (rank 0 none), each with `top_k` different experts."""
    draw = random.Random(seed)
    return [[draw.sample(range(E), top_k) for _ in range(3 * rank)] for rank in range(ranks)]


def by_hand(routes: list[list[list[int]]], copies: dict[int, int], once: bool) -> list[int]:
    """Bytes sent by rank, message by message: (from, to) -> vectors, and what goes with them."""
    ranks = len(routes)
    held = holders(E, ranks, copies)
    sent = [0] * ranks
    for rank, route in enumerate(routes):
        turn = dict.fromkeys(range(E), rank)
        for chosen in route:
            to = []
            for expert in chosen:
                to.append(held[expert][turn[expert] % len(held[expert])])
                turn[expert] += 1
            for other in set(to) if once else to:
                if other != rank:
                    sent[rank] += H * ITEM + once * 4 * len(experts_of(held, other))
                    sent[other] += H * ITEM
        sent[rank] += sum(8 if once else 8 * len(experts_of(held, d)) for d in range(ranks) if d != rank)
    return sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_each_rank_message_by_message(ranks: int, once: bool, wide: bool) -> None:
    """Would catch a rank's own tokens counted as sent, the combine counted on the wrong rank, lost counts."""
    routes, copies = routing(ranks), {0: min(3, ranks), 4: min(2, ranks)} if wide else {}
    found = volume.expert_parallel(routes, E, H, itemsize=ITEM, copies=copies, once_per_rank=once)
    assert list(found.by_rank(ranks)) == by_hand(routes, copies, once)
    parts = [
        form(routes, E, H, itemsize=ITEM, copies=copies, once_per_rank=once)
        for form in (volume.expert_dispatch, volume.expert_combine)
    ]
    assert sum(parts[0].by_rank(ranks)) == sum(parts[1].by_rank(ranks))
    if ranks > 2:
        assert parts[0].by_rank(ranks) != parts[1].by_rank(ranks)


def test_copies_that_are_not_needed_and_none() -> None:
    """Would catch `copies` that change who holds what where each says one."""
    assert holders(E, 4, dict.fromkeys(range(E), 1)) == holders(E, 4)
    assert holders(2, 4) == ((0,), (1,)) and experts_of(holders(2, 4), 3) == ()


def test_copies_lie_where_fewest_experts_are() -> None:
    """Would catch copies of two hot experts of one rank that meet on its neighbour, or lie there twice."""
    assert holders(8, 4, {0: 2, 1: 2}) == ((0, 1), (0, 2), (1,), (1,), (2,), (2,), (3,), (3,))
    held = holders(4, 4, {0: 4})
    assert held[0] == (0, 1, 2, 3) and all(len(set(ranks_of)) == len(ranks_of) for ranks_of in held)


def test_tokens_of_a_copied_expert_are_dealt_evenly() -> None:
    """Would catch a deal that gives the first copy more, or that starts at one copy on every rank."""
    held = holders(4, 4, {0: 4})
    for rank in range(4):
        to = [ranks_of[0] for ranks_of in deal([[0]] * 8, held, rank)]
        assert sorted(to) == sorted([0, 1, 2, 3] * 2) and to[0] == rank


@pytest.mark.parametrize(
    ("experts", "groups", "top_k", "published"),
    [(256, 8, 8, 5.29), (256, 32, 8, 7.27), (256, 64, 8, 7.68), (8, 4, 2, 1.857)],
)
def test_destinations_of_a_token(experts: int, groups: int, top_k: int, published: float) -> None:
    """Would catch draws with replacement, 8 (1-(7/8)^8) = 5.25; and a formula that random draws refute."""
    found = float(volume.expert_destinations(experts, groups, top_k))
    assert round(found, 2) == round(published, 2)
    draw, share = random.Random(1), experts // groups
    counts = [len({e // share for e in draw.sample(range(experts), top_k)}) for _ in range(4000)]
    assert abs(sum(counts) / 4000 - found) < 0.06  # four deviations of the mean of 4000 draws, at most


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(("experts", "ranks", "top_k"), [(8, 4, 2), (6, 4, 2), (3, 4, 3), (6, 1, 2)])
def test_expected_bytes_are_the_mean_over_all_routes(
    experts: int, ranks: int, top_k: int, once: bool
) -> None:
    """Would catch (p-1)/p left out, and an average that holds only where ranks divide the experts."""
    from itertools import combinations

    every = [[list(chosen) for chosen in combinations(range(experts), top_k)]] * ranks
    exact = volume.expert_dispatch(every, experts, H, itemsize=ITEM, once_per_rank=once)
    tokens = len(every[0])
    even = volume.expert_dispatch_expected(
        tokens, H, experts, top_k, ranks, itemsize=ITEM, once_per_rank=once
    )
    assert float(even) == pytest.approx(float(exact))
    if not once:
        assert even == top_k * (ranks - 1) / ranks * tokens * H * ITEM


def test_a_capacity_by_its_definition() -> None:
    """Would catch a floor in place of the ceiling, and 1.1 · 10 / 11 rounded up to 2 by float arithmetic."""
    assert expert_capacity(64, 8, 2, 1.0) == 16 and expert_capacity(64, 8, 2, 1.25) == 20
    assert expert_capacity(10, 11, 1, 1.1) == 1
    assert expert_capacity(3, 8, 1, 1) == 1 and expert_capacity(0, 8, 2, 1.5) == 0


def test_every_quantity_can_be_shown() -> None:
    """Would catch a formula that no page can set, a number without its source or name."""
    routes = routing(3)
    for found in (
        volume.expert_parallel(routes, E, H, itemsize=4),
        volume.expert_parallel(routes, E, H, itemsize=4, once_per_rank=True),
        volume.expert_counts(E, 3),
        volume.expert_counts(E, 3, once_per_rank=True),
        volume.expert_weights(routes, E),
        volume.expert_dispatch_expected(4, H, E, 2, 3, itemsize=4),
        volume.expert_dispatch_expected(4, H, E, 2, 3, itemsize=4, once_per_rank=True),
        volume.expert_destinations(E, 3, 2),
    ):
        assert mathml(found.formula) and found.source and found.name and found.ranks == 3
        assert found.value > 0


REFUSED: list[tuple[Any, str]] = [
    (lambda: holders(4, 2, {4: 2}), "copies of expert 4: there are experts 0 to 3"),
    (lambda: holders(4, 2, {0: 3}), "3 copies of expert 0 on 2 ranks: choose 1 to 2"),
    (lambda: holders(4, 2, {0: 0}), "0 copies"),
    (lambda: deal([[4]], holders(4, 2), 1), "token 0 of rank 1 goes to expert 4: there are 0 to 3"),
    (lambda: expert_capacity(4, 2, 1, 0), "capacity_factor=0: give a number above 0"),
    (lambda: expert_capacity(4, 2, 1, float("nan")), "capacity_factor=nan"),
    (lambda: expert_capacity(4, 2, 1, "1"), "capacity_factor='1'"),  # type: ignore[arg-type]
    (lambda: expert_capacity(4, 2, 3, 1.0), "top_k=3 of 2 experts: choose at most 2"),
    (lambda: volume.expert_destinations(4, 2, 5), "top_k=5 is more than the 4 experts: choose 1 to 4"),
    (lambda: volume.expert_dispatch([[[0]]], 4, 0, itemsize=4), "hidden=0"),
    (
        lambda: volume.expert_dispatch_expected(4, 8, 2, 3, 2, itemsize=4),
        "top_k=3 is more than the 2 experts",
    ),
    (lambda: volume.expert_dispatch([], 4, 8, itemsize=4), "ranks=0"),
    (lambda: volume.expert_counts(4, 0), "ranks=0"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_refusals(call: Any, words: str) -> None:
    """Would catch a number for what cannot be."""
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("module", [formulas, placement], ids=lambda module: module.__name__)
def test_examples(module: Any) -> None:
    """Would catch an example in a docstring that was right once."""
    assert doctest.testmod(module).failed == 0


def test_copies_go_to_the_right_whatever_the_order() -> None:
    """Would catch a distance counted from rank 0 in place of the expert's home, and an order of naming."""
    assert holders(4, 4, {2: 2})[2] == (2, 3)
    assert holders(3, 4, {1: 2, 0: 2}) == holders(3, 4, {0: 2, 1: 2})
