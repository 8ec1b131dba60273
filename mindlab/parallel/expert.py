"""Expert parallel: the experts of a mixture lie on different ranks, and the tokens travel to them.

Every rank has its own tokens and the whole router. Four steps:

    route      each rank chooses for its tokens, as on one card
    dispatch   an all-to-all of counts (int64), then one of tokens, each to the ranks of its experts
    experts    each rank computes what came, expert by expert
    combine    an all-to-all back; the weights are applied here, once, and a token's results added

How many tokens go where is known only when the router has chosen: the all-to-alls have uneven counts, and a
rank without tokens, or without experts, takes part all the same. Experts are dealt to ranks as
`torch.tensor_split` deals. Lepikhin et al. 2020 (GShard). For inference: no gradients.

Tensor parallel beside it: with `tensor_group` each expert is cut over that group, whose ranks hold the same
tokens, and `group` joins the ranks that have the same part. Both groups must be written down: ranks of one
`group` that hold the same tokens compute them twice, and nobody notices but the clock.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn

from mindlab.models.moe import MoE, Route, chosen, combine
from mindlab.parallel.linear import Group, copied, frozen, matmul, place
from mindlab.parallel.routes import Copies, Dispatch, counts_by_rank, dealt, within_capacity
from mindlab.parallel.tensor import parallel_mlp
from mindlab.predict.placement import expert_capacity, experts_of, holders
from mindlab.trace import recorder

__all__ = ["Dispatch", "ExpertParallelMoE", "swapped"]

_NONE = -1.0  # stands for no weight: 0 may be a weight, and not a number one of a broken token


class ExpertParallelMoE(nn.Module):
    """This rank's experts of a mixture; its own tokens in and out, (…, hidden), any number on each rank.

    Each rank gets for its tokens what one card would give them, unless a capacity drops some.
    """

    last_route: Route
    """What the router of this rank chose in the last forward."""
    last_dispatch: Dispatch
    """Who got which tokens in the last forward, and what was dropped."""

    def __init__(
        self,
        full: MoE,
        group: Group = None,
        *,
        copies: Mapping[int, int] | None = None,
        capacity_factor: float | None = None,
        once_per_rank: bool = False,
        tensor_group: Group = None,
    ) -> None:
        super().__init__()
        self.rank, self.ranks = place(group)
        _refuse_groups(group, tensor_group)
        self.group, self.hidden, self.top_k = group, full.hidden, full.top_k
        self.capacity_factor, self.once_per_rank = capacity_factor, once_per_rank
        self.held = holders(len(full.experts), self.ranks, copies)
        self.owned = [list(experts_of(self.held, rank)) for rank in range(self.ranks)]
        self._capacity(0)  # refuses what is no factor
        self.router = frozen(copied(full.router.weight))
        self.experts = nn.ModuleList(_part(full.experts[e], tensor_group) for e in self.owned[self.rank])

    @classmethod
    def from_full(
        cls,
        moe: MoE,
        group: Group = None,
        *,
        copies: Mapping[int, int] | None = None,
        capacity_factor: float | None = None,
        once_per_rank: bool = False,
        tensor_group: Group = None,
    ) -> ExpertParallelMoE:
        """This rank's experts of `moe`, copied, and all of its router.

        copies: for an expert how many ranks hold it, where that is not one; its tokens are dealt among them.
        capacity_factor: an expert takes at most ceil(factor · k · T / E) of a rank's T tokens, first choices
        first; without it none is dropped. once_per_rank: a token goes once to a rank however many of its
        experts live there, and their weighted sum comes back once. tensor_group: cuts every expert over that
        group too. Raises ValueError for copies or a factor that cannot be, and for groups that share more
        ranks than this one. Weights and options must be alike on all ranks, which is not checked: see
        `sameness.same_on_every_rank` for the weights.

        >>> moe, x = MoE(8, 16, experts=6, top_k=2), torch.randn(7, 8)
        >>> def experts():
        ...     return ExpertParallelMoE.from_full(moe)(x.tensor_split(4)[dist.get_rank()])
        >>> torch.allclose(torch.cat(ml.launch(experts, ranks=4).values), moe(x), atol=1e-5)
        True
        """
        return cls(
            moe,
            group,
            copies=copies,
            capacity_factor=capacity_factor,
            once_per_rank=once_per_rank,
            tensor_group=tensor_group,
        )

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) from this rank's own (…, hidden). Every rank calls, also without tokens."""
        tokens = _tokens(x, self.hidden)
        self.last_route = route = chosen(matmul(tokens, self.router, None), self.top_k)
        capacity = self._capacity(len(tokens))
        kept = within_capacity(route.experts, capacity)
        copies = dealt(route.experts, kept, self.held, self.rank)
        exchange = self._once if self.once_per_rank else self._each
        out, *counts = exchange(tokens, route, copies)
        self.last_dispatch = Dispatch(route.experts, kept, capacity, *(count.cpu() for count in counts))
        return out.view(x.shape)

    def _each(self, tokens: torch.Tensor, route: Route, copies: Copies) -> tuple[torch.Tensor, ...]:
        """Results (T, hidden), counts sent and received, rows sent and received: each copy travels alone."""
        sent = counts_by_rank(copies, self.ranks, len(self.held))
        received = self._swapped_counts(sent)
        rows, coming = sent.sum(1), received.sum(1)
        arrived = swapped(tokens[copies.token], rows, coming, self.group)
        returned = swapped(self._compute(arrived, received), coming, rows, self.group)
        results = tokens.new_zeros(*route.experts.shape, self.hidden)
        results[copies.token, copies.slot] = returned
        return combine(results, route.weights), sent, received, rows, coming

    def _swapped_counts(self, sent: torch.Tensor) -> torch.Tensor:
        """How many copies come from each rank for each expert, from how many go: one all-to-all of int64."""
        own = self.owned[self.rank]
        going = torch.cat([sent[rank, owned] for rank, owned in enumerate(self.owned)])
        coming = going.new_empty(self.ranks * len(own))
        widths = [len(owned) for owned in self.owned]
        dist.all_to_all_single(coming, going, [len(own)] * self.ranks, widths, group=self.group)
        received = torch.zeros_like(sent)
        received[:, own] = coming.view(self.ranks, len(own))
        return received

    def _compute(self, arrived: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
        """Each row through its expert; rows come by source, then by expert."""
        own = torch.tensor(self.owned[self.rank], dtype=torch.int64, device=arrived.device)
        expert_of = own.repeat(self.ranks).repeat_interleave(received[:, own].flatten())
        out = torch.empty_like(arrived)
        for expert, layer in zip(own, self.experts, strict=True):
            rows = (expert_of == expert).nonzero().flatten()
            out[rows] = _applied(layer, arrived[rows])
        return out

    def _once(self, tokens: torch.Tensor, route: Route, copies: Copies) -> tuple[torch.Tensor, ...]:
        """The same with one row a token and rank: weights travel too, and the experts' rank applies them."""
        rows, tables = self._tables(tokens, route, copies)
        sent = torch.tensor([len(row) for row in rows], device=tokens.device)
        coming = swapped(sent, [1] * self.ranks, [1] * self.ranks, self.group)
        arrived = swapped(tokens[torch.cat(rows)], sent, coming, self.group)
        widths, width = torch.tensor([len(owned) for owned in self.owned]), len(self.owned[self.rank])
        flat = torch.cat([table.flatten() for table in tables])
        weights = swapped(flat, sent.cpu() * widths, coming * width, self.group).view(len(arrived), width)
        returned = swapped(self._weighted(arrived, weights), coming, sent, self.group)
        out = tokens.new_zeros(tokens.shape, dtype=torch.float32)
        out.index_add_(0, torch.cat(rows), returned.float())
        counts = counts_by_rank(copies, self.ranks, len(self.held))
        received = torch.zeros_like(counts)
        parts = torch.split(weights != _NONE, coming.tolist())
        received[:, self.owned[self.rank]] = torch.stack([part.sum(0) for part in parts])
        return out.to(tokens.dtype), counts, received, sent, coming

    def _tables(
        self, tokens: torch.Tensor, route: Route, copies: Copies
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """For each rank the tokens that go to it, and their weights for its experts, -1 for none."""
        shape = len(tokens), len(self.held)
        where = torch.full(shape, -1, device=tokens.device)
        weight = torch.full(shape, _NONE, device=tokens.device)
        where[copies.token, copies.expert] = copies.rank
        weight[copies.token, copies.expert] = route.weights[copies.token, copies.slot]
        rows = [(where == rank).any(1).nonzero().flatten() for rank in range(self.ranks)]
        tables = [
            weight.where(where == rank, _NONE)[row][:, self.owned[rank]] for rank, row in enumerate(rows)
        ]
        return rows, tables

    def _weighted(self, arrived: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """For each row the sum over this rank's experts, added in float32."""
        sums = arrived.new_zeros(arrived.shape, dtype=torch.float32)
        for place_of, layer in enumerate(self.experts):
            rows = (weights[:, place_of] != _NONE).nonzero().flatten()
            sums[rows] += weights[rows, place_of, None] * _applied(layer, arrived[rows]).float()
        return sums.to(arrived.dtype)

    def _capacity(self, tokens: int) -> int | None:
        """What one expert takes of so many tokens of one rank; None for all."""
        if self.capacity_factor is None:
            return None
        return expert_capacity(tokens, len(self.held), self.top_k, self.capacity_factor)


def swapped(
    x: torch.Tensor, sent: torch.Tensor | list[int], received: torch.Tensor | list[int], group: Group = None
) -> torch.Tensor:
    """What all ranks have for this one, in the order of ranks, along dim 0: one all-to-all of uneven counts.

    `sent` and `received` are the lengths along dim 0, by rank; x holds first what goes to rank 0.

    >>> def ragged():
    ...     rank = dist.get_rank()
    ...     return swapped(torch.full((3,), rank), [1, 2], [rank + 1] * 2).tolist()
    >>> ml.launch(ragged, ranks=2).values
    [[0, 1], [0, 0, 1, 1]]
    """
    sent, received = (torch.as_tensor(counts).tolist() for counts in (sent, received))
    out = x.new_empty((sum(received), *x.shape[1:]))
    dist.all_to_all_single(out, x.contiguous(), received, sent, group=group)
    return out


def _applied(layer: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """The expert's result for these rows; an expert without rows does nothing."""
    if not len(rows):
        return rows
    for part in layer.modules():
        if isinstance(part, nn.Linear):  # a part of an expert that is cut over a group states its own
            moved = len(rows) * (part.in_features + part.out_features) + part.weight.numel()
            recorder.compute(
                2 * len(rows) * part.weight.numel(), nbytes=moved * rows.element_size(), what="expert"
            )
    out: torch.Tensor = layer(rows)
    return out


def _part(expert: nn.Module, tensor_group: Group) -> nn.Module:
    """A copy of an expert, or of this rank's part of it where it is cut over a group."""
    if tensor_group is not None:
        return parallel_mlp(expert, tensor_group)
    return copy.deepcopy(expert).requires_grad_(False)


def _refuse_groups(group: Group, tensor_group: Group) -> None:
    """Raises ValueError where the two groups are not two axes of a mesh."""
    if tensor_group is None:
        return
    shared = set(dist.get_process_group_ranks(group)) & set(dist.get_process_group_ranks(tensor_group))
    if shared != {dist.get_rank()}:
        raise ValueError(
            f"group and tensor_group share ranks {sorted(shared)}: they may share this rank alone; give as "
            "group the ranks that have the same part of the experts, such as [0, 2] beside [0, 1]"
        )


def _tokens(x: torch.Tensor, hidden: int) -> torch.Tensor:
    """x as (T, hidden); raises ValueError for another number of features."""
    if not x.ndim or x.shape[-1] != hidden:
        raise ValueError(
            f"x of shape {tuple(x.shape)} does not fit: its last dim must be {hidden}, as the experts'"
        )
    return x.reshape(-1, hidden)
