"""A linear layer Y = X W + b cut over ranks: by columns of W (output features) or by rows (input features).

    columns   every rank has all of x and gets its own columns of Y; nothing is sent
    rows      every rank has its own features of x and gets a partial sum of all of Y; one all-reduce

A column layer's result is what a row layer takes: the pair needs one all-reduce, and what goes on between may
be any function of single features. Shoeybi et al. 2019 (Megatron-LM), section 3.

torch keeps W transposed, (out, in): columns of W are `weight`'s dim 0, rows of W its dim 1. Features are cut
by `torch.tensor_split`: any number on any number of ranks, a rank may get none. Every rank calls `from_full`
with the same full layer and keeps copies of its part: drop the full layer, and its memory is free.
For inference: weights do not require gradients, and none flow.

Partial sums are added in their own dtype, as the library adds them: bfloat16 is rounded after each of the p-1
additions. The result is the same on all ranks, and not to the bit that of one card.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from mindlab import collectives
from mindlab.predict.chunks import split
from mindlab.trace import recorder

Group = dist.ProcessGroup | None
Maybe = TypeVar("Maybe", torch.Tensor, torch.Tensor | None)


class ColumnParallelLinear(nn.Module):
    """This rank's output features of a linear layer: (…, in) -> (…, own out), or all with gather_output.

    `weight` (own out, in) and `bias` (own out) are this rank's, and kept as they are; `gather_sizes` are all
    ranks' own outs, by rank, where the result is to be gathered.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        group: Group = None,
        *,
        gather_sizes: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.weight = frozen(weight)
        self.bias = None if bias is None else frozen(bias)
        self.group, self.gather_sizes = group, gather_sizes

    @classmethod
    def from_full(
        cls, linear: nn.Linear, group: Group = None, *, gather_output: bool = False
    ) -> ColumnParallelLinear:
        """This rank's part of `linear`. With gather_output every rank gets all features: one all-gather.

        >>> linear, x = nn.Linear(6, 5), torch.ones(2, 6)
        >>> run = ml.launch(lambda: ColumnParallelLinear.from_full(linear)(x), ranks=2)
        >>> [tuple(part.shape) for part in run.values]
        [(2, 3), (2, 2)]
        """
        rank, ranks = place(group)
        weight, bias = shard(linear.weight, rank, ranks), shard(linear.bias, rank, ranks)
        sizes = split_sizes(linear.out_features, ranks) if gather_output else None
        return cls(weight, bias, group, gather_sizes=sizes)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, own out), or (…, out) gathered, from (…, in). Raises ValueError for another number in."""
        out = matmul(x, self.weight, self.bias)
        return out if self.gather_sizes is None else gathered(out, self.gather_sizes, self.group)


class RowParallelLinear(nn.Module):
    """A linear layer of whose input features this rank holds its own: (…, own in) -> (…, out), whole.

    `weight` (out, own in) is this rank's, `bias` (out) the whole one; both are kept as they are.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, group: Group = None) -> None:
        super().__init__()
        self.weight = frozen(weight)
        self.bias = None if bias is None else frozen(bias)
        self.group = group

    @classmethod
    def from_full(cls, linear: nn.Linear, group: Group = None) -> RowParallelLinear:
        """This rank's part of `linear`; the bias is whole on every rank.

        >>> linear, x = nn.Linear(5, 6), torch.ones(2, 5)
        >>> def rows():
        ...     return RowParallelLinear.from_full(linear)(x.tensor_split(2, dim=-1)[dist.get_rank()])
        >>> torch.allclose(ml.launch(rows, ranks=2).values[1], linear(x), atol=1e-5)
        True
        """
        rank, ranks = place(group)
        return cls(shard(linear.weight, rank, ranks, dim=1), copied(linear.bias), group)

    @torch.no_grad()
    def partial(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's term of the sum, (…, out) from (…, own in), without the bias: nothing is sent."""
        return matmul(x, self.weight, None)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, out) on every rank from (…, own in): one all-reduce. The bias is added once, after it."""
        return summed(self.partial(x), self.bias, group=self.group)


def summed(partial: torch.Tensor, *biases: torch.Tensor | None, group: Group = None) -> torch.Tensor:
    """The sum of all ranks' `partial`, plus the biases, once: one all-reduce.

    A bias inside the partial sums would come in p times. `partial` may be overwritten.
    """
    total = partial.contiguous()  # gloo adds up the wrong elements of a tensor with gaps
    dist.all_reduce(total, group=group)
    for bias in biases:
        if bias is not None:
            total += bias
    return total


def gathered(x: torch.Tensor, sizes: list[int], group: Group = None) -> torch.Tensor:
    """All ranks' (…, own features) joined along the last dim, on every rank; `sizes` are all their lengths.

    One all-gather, (p-1)/p of the result's bytes a rank. The library's own takes equal shards only: others go
    round our ring, as many bytes.
    """
    if len(set(sizes)) == 1:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in sizes]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, dim=-1)
    first = collectives.ring_all_gather(x.movedim(-1, 0).contiguous(), group, sizes=sizes)
    return first.movedim(0, -1).contiguous()


def matmul(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x weightᵀ + bias on this rank; its work is stated for `ml.replay`: 2 tokens in out FLOP."""
    if not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} does not fit: this rank's weight takes {weight.shape[1]} features "
            "in its last dim. A column layer takes all of them on every rank, a row layer this rank's part: "
            "torch.tensor_split(x, ranks, dim=-1)[rank]"
        )
    out = F.linear(x, weight, bias)
    moved = (x.numel() + weight.numel() + out.numel()) * x.element_size()
    recorder.compute(2 * x.numel() * weight.shape[0], nbytes=moved, what="linear")
    return out


def place(group: Group) -> tuple[int, int]:
    """This rank's number in the group, and how many there are; raises ValueError for a rank outside it."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group: let only its members call")
    return rank, ranks


def shard(full: Maybe, rank: int, ranks: int, dim: int = 0) -> Maybe:
    """A copy of this rank's part of `full` along `dim`; None for None."""
    return full if full is None else copied(full.tensor_split(ranks, dim)[rank])


def copied(tensor: Maybe) -> Maybe:
    """A contiguous copy that keeps nothing else alive; None for None.

    A view would be as right, and would hold the whole weight in memory.
    """
    if tensor is None:
        return None
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def frozen(tensor: torch.Tensor) -> nn.Parameter:
    """The tensor itself as a parameter without gradient."""
    return nn.Parameter(tensor, requires_grad=False)


def split_sizes(features: int, ranks: int) -> list[int]:
    """How many of `features` each rank gets: the first features % ranks get one more (tensor_split).

    >>> split_sizes(10, 4)
    [3, 3, 2, 2]
    """
    return list(split(features, ranks))
