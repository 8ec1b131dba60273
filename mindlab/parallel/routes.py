"""What of a route leaves a rank, and in which order: drops over a capacity, copies dealt to ranks, counts.

No communication here: each rank works this out for its own tokens, from the rules in `predict.placement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from mindlab.predict.placement import Holders


class Copies(NamedTuple):
    """This rank's tokens that go to experts, one entry a token and expert, in the order in which they travel.

    First those for rank 0, of them first those for its first expert, of them the earliest token.
    """

    token: torch.Tensor
    slot: torch.Tensor
    """Which of the token's choices it is, from 0."""
    expert: torch.Tensor
    rank: torch.Tensor
    """The rank that computes it, in the group."""


@dataclass(frozen=True, eq=False)
class Dispatch:
    """Who got which tokens in one forward, as one rank saw it. Counts are int64, on the CPU.

    `choices` and `kept` are (T, top_k): the experts that the router chose for this rank's tokens, and which
    of them were not dropped. `sent` is (ranks, experts): how many of this rank's tokens went to each rank for
    each expert; `received` how many came from each rank for each expert of this one. `rows_sent` and
    `rows_received` (ranks) count vectors: fewer where a token is sent once per rank. What stays on the rank
    is in all of them; ranks are the group's. `capacity`: what one expert takes of this rank's tokens.
    """

    choices: torch.Tensor
    kept: torch.Tensor
    capacity: int | None
    sent: torch.Tensor
    received: torch.Tensor
    rows_sent: torch.Tensor
    rows_received: torch.Tensor

    @property
    def routes(self) -> list[list[int]]:
        """For each token of this rank the experts that take it: what `ml.volume.expert_parallel` wants."""
        rows = zip(self.choices.tolist(), self.kept.tolist(), strict=True)
        return [[e for e, kept in zip(chosen, keep, strict=True) if kept] for chosen, keep in rows]

    @property
    def dropped(self) -> list[tuple[int, int]]:
        """The (token, expert) pairs of this rank that found no room, token by token."""
        found = (~self.kept).nonzero().tolist()
        return [(token, int(self.choices[token, slot])) for token, slot in found]

    @property
    def lost(self) -> list[int]:
        """The tokens of this rank that no expert took: their result is 0."""
        return (~self.kept.any(1)).nonzero().flatten().tolist()

    @property
    def load(self) -> torch.Tensor:
        """How many tokens this rank computed for each expert, (experts)."""
        return self.received.sum(0)


def turns(keys: torch.Tensor) -> torch.Tensor:
    """For each entry of `keys` (whole numbers from 0 on), how many entries before it are equal to it.

    >>> turns(torch.tensor([4, 1, 4, 4, 1]))
    tensor([0, 0, 1, 2, 1])
    """
    if not keys.numel():
        return keys.clone()
    order = keys.argsort(stable=True)
    counts = torch.bincount(keys)
    place = torch.arange(len(keys), device=keys.device) - (counts.cumsum(0) - counts)[keys[order]]
    return torch.empty_like(keys).scatter_(0, order, place)


def within_capacity(experts: torch.Tensor, capacity: int | None) -> torch.Tensor:
    """Which of the choices (T, top_k) find room, as booleans; all without a capacity.

    All first choices come before all second ones, and of those the earlier token.

    >>> within_capacity(torch.tensor([[0, 1], [1, 0], [0, 1]]), capacity=2).tolist()
    [[True, True], [True, False], [True, False]]
    """
    if capacity is None:
        return torch.ones_like(experts, dtype=torch.bool)
    return (turns(experts.t().flatten()) < capacity).view(experts.shape[::-1]).t()


def dealt(experts: torch.Tensor, kept: torch.Tensor, held: Holders, rank: int) -> Copies:
    """The kept choices of `rank`'s tokens with the rank that computes each, in the order of travel.

    >>> dealt(torch.tensor([[1], [0], [1]]), torch.ones(3, 1).bool(), ((0,), (0, 1)), rank=0).rank
    tensor([0, 0, 1])
    """
    token, slot = kept.nonzero(as_tuple=True)
    expert = experts[token, slot]
    copies = torch.tensor([len(ranks_of) for ranks_of in held], device=experts.device)
    widest = max(map(len, held))
    table = torch.tensor([[*of, *[-1] * (widest - len(of))] for of in held], device=experts.device)
    to = table[expert, (turns(expert) + rank) % copies[expert]]
    order = (to * len(held) + expert).argsort(stable=True)
    return Copies(token[order], slot[order], expert[order], to[order])


def counts_by_rank(copies: Copies, ranks: int, experts: int) -> torch.Tensor:
    """How many copies go to each rank for each expert, (ranks, experts)."""
    flat = torch.bincount(copies.rank * experts + copies.expert, minlength=ranks * experts)
    return flat.view(ranks, experts)
