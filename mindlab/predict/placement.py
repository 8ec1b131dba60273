"""Which ranks hold which experts, and which of a copied expert's ranks takes a token: the rules on paper.

The one home of these rules: the layer on ranks and the formulas of its bytes both ask here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from mindlab.predict.chunks import split
from mindlab.predict.shapes import check_whole

Holders = tuple[tuple[int, ...], ...]
"""For each expert the ranks that hold it, its home first."""


def holders(experts: int, ranks: int, copies: Mapping[int, int] | None = None) -> Holders:
    """For each expert the ranks that hold it, its home first.

    Homes are dealt as torch.tensor_split deals. `copies` says for an expert how many ranks hold it, where
    that is not one. A copy goes where fewest experts are so far; of equals, to the nearest to the right of
    the expert's home. Raises ValueError for an expert that is none, and for more copies than ranks.

    >>> holders(6, 4)
    ((0,), (0,), (1,), (1,), (2,), (3,))
    >>> holders(6, 4, {0: 3})
    ((0, 2, 3), (0,), (1,), (1,), (2,), (3,))
    """
    check_whole(1, experts=experts, ranks=ranks)
    held = [[rank] for rank, count in enumerate(split(experts, ranks)) for _ in range(count)]
    for expert, count in sorted((copies or {}).items()):
        _refuse(expert, count, experts, ranks)
        for _ in range(count - 1):
            held[expert].append(_emptiest(held, expert, ranks))
    return tuple(tuple(ranks_of) for ranks_of in held)


def experts_of(held: Holders, rank: int) -> tuple[int, ...]:
    """The experts that a rank holds, in ascending order.

    >>> experts_of(holders(6, 4, {0: 3}), 2)
    (0, 4)
    """
    return tuple(expert for expert, ranks_of in enumerate(held) if rank in ranks_of)


def deal(route: Sequence[Sequence[int]], held: Holders, rank: int) -> list[list[int]]:
    """For each token of `rank`, and each expert that takes it, the rank that computes it.

    `route` has for each token its experts. The tokens of an expert with copies are dealt to them in turn,
    token by token; every rank begins with another one, so that few tokens do not all meet the same copy.

    >>> deal([[0], [0, 1], [0]], holders(2, 2, {0: 2}), rank=0)
    [[0], [1, 1], [0]]
    """
    seen = [rank] * len(held)
    found: list[list[int]] = []
    for token, chosen in enumerate(route):
        found.append([])
        for expert in chosen:
            if not 0 <= expert < len(held):
                raise ValueError(
                    f"token {token} of rank {rank} goes to expert {expert}: there are 0 to {len(held) - 1}"
                )
            found[-1].append(held[expert][seen[expert] % len(held[expert])])
            seen[expert] += 1
    return found


def expert_capacity(tokens: int, experts: int, top_k: int, factor: float) -> int:
    """How many of a rank's tokens one expert takes: ceil(factor · k · T / E); further ones are dropped.

    With factor 1 there is room for every choice if all experts are chosen alike. `tokens` are those of one
    rank: each rank keeps to it by itself, nothing is exchanged. Lepikhin et al. 2020, section 2.2. Raises
    ValueError for a factor that is no number above 0, and for more choices than experts.

    >>> expert_capacity(10, 4, 2, 1.0), expert_capacity(10, 4, 2, 1.25)
    (5, 7)
    """
    check_whole(0, tokens=tokens)
    check_whole(1, experts=experts, top_k=top_k)
    if top_k > experts:
        raise ValueError(f"top_k={top_k} of {experts} experts: choose at most {experts}")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < math.inf:
        raise ValueError(
            f"capacity_factor={factor!r}: give a number above 0, such as 1.25, or None to drop none"
        )
    return math.ceil(Fraction(str(factor)) * top_k * tokens / experts)


def _emptiest(held: list[list[int]], expert: int, ranks: int) -> int:
    """The rank that holds fewest experts and not this one; of equals the nearest right of its home."""
    counts = [sum(rank in ranks_of for ranks_of in held) for rank in range(ranks)]
    home = held[expert][0]
    free = [rank for rank in range(ranks) if rank not in held[expert]]
    return min(free, key=lambda rank: (counts[rank], (rank - home) % ranks))


def _refuse(expert: int, count: int, experts: int, ranks: int) -> None:
    if isinstance(expert, bool) or not isinstance(expert, int) or not 0 <= expert < experts:
        raise ValueError(f"copies of expert {expert!r}: there are experts 0 to {experts - 1}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= ranks:
        raise ValueError(f"{count!r} copies of expert {expert} on {ranks} ranks: choose 1 to {ranks}")
