"""Tensor parallel: every layer's weights lie on p ranks, every rank sees every token.

Column layer, then row layer, so that what lies between stays in shards; one all-reduce a pair. A block has
two pairs, attention and MLP: two all-reduces, or one where both stand beside each other. Each sends 2(p-1)/p
of batch x sequence x hidden numbers a rank, whatever the inner size. Shoeybi et al. 2019, section 3.

Every rank gives the same x, and gets the same whole result. All layers are made by `from_full(layer, group)`,
called on every rank of the group (None: all) with the same full layer; each keeps a copy of its part and
leaves the full one alone. For inference: no gradients.

    linear       ColumnParallelLinear, RowParallelLinear: the two cuts
    heads        ParallelAttention
    vocabulary   VocabParallelEmbedding, VocabParallelLogits
    sameness     same_on_every_rank: is it really the same full layer?
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from mindlab.models.layers import MLP, Block, GatedMLP
from mindlab.parallel.heads import ParallelAttention
from mindlab.parallel.linear import ColumnParallelLinear, Group, RowParallelLinear, gathered, summed
from mindlab.parallel.sameness import same_on_every_rank
from mindlab.parallel.vocabulary import VocabParallelEmbedding, VocabParallelLogits

__all__ = [
    "ColumnParallelLinear",
    "RowParallelLinear",
    "ParallelMLP",
    "ParallelGatedMLP",
    "ParallelAttention",
    "ParallelBlock",
    "VocabParallelEmbedding",
    "VocabParallelLogits",
    "same_on_every_rank",
    "summed",
    "gathered",
]


class ParallelMLP(nn.Module):
    """up by columns, GeLU on this rank's features, down by rows: (…, hidden) -> (…, hidden), one all-reduce.

    GeLU stands where features are whole: behind a row layer it would have to wait for the all-reduce.
    """

    def __init__(self, up: ColumnParallelLinear, down: RowParallelLinear) -> None:
        super().__init__()
        self.up, self.down = up, down

    @classmethod
    def from_full(cls, mlp: MLP, group: Group = None) -> ParallelMLP:
        """This rank's part of `mlp`, copied; any inner size.

        >>> mlp, x = MLP(8, 30), torch.ones(1, 5, 8)
        >>> run = ml.launch(lambda: ParallelMLP.from_full(mlp)(x), ranks=4)
        >>> torch.allclose(run.values[3], mlp(x), atol=1e-5), [e.op for e in run.events if e.rank == 0]
        (True, ['all_reduce'])
        """
        return cls(
            ColumnParallelLinear.from_full(mlp.up, group), RowParallelLinear.from_full(mlp.down, group)
        )

    @torch.no_grad()
    def partial(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's term of the sum over ranks, without down's bias: nothing is sent."""
        return self.down.partial(F.gelu(self.up(x)))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) on every rank from (…, hidden), the same on all."""
        return summed(self.partial(x), self.down.bias, group=self.down.group)


class ParallelGatedMLP(nn.Module):
    """gate and up by columns, down by rows: (…, hidden) -> (…, hidden), one all-reduce.

    Both column layers are cut alike, so that a gate meets its own feature.
    """

    def __init__(self, gate: ColumnParallelLinear, up: ColumnParallelLinear, down: RowParallelLinear) -> None:
        super().__init__()
        self.gate, self.up, self.down = gate, up, down

    @classmethod
    def from_full(cls, mlp: GatedMLP, group: Group = None) -> ParallelGatedMLP:
        """This rank's part of `mlp`, copied; any inner size."""
        gate, up = (ColumnParallelLinear.from_full(layer, group) for layer in (mlp.gate, mlp.up))
        return cls(gate, up, RowParallelLinear.from_full(mlp.down, group))

    @torch.no_grad()
    def partial(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's term of the sum over ranks, without down's bias: nothing is sent."""
        return self.down.partial(F.silu(self.gate(x)) * self.up(x))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) on every rank from (…, hidden), the same on all."""
        return summed(self.partial(x), self.down.bias, group=self.down.group)


class ParallelBlock(nn.Module):
    """A transformer block in its full's form: (B, S, hidden) -> (B, S, hidden), the same on every rank.

    One after the other: two all-reduces. Beside each other (`parallel`): the partial sums of attention and
    MLP are added first, so one. Norms are whole on every rank, and every rank repeats their work.
    """

    def __init__(self, full: Block, group: Group = None) -> None:
        super().__init__()
        self.group, self.parallel = group, full.parallel
        self.norm1, self.norm2 = (
            copy.deepcopy(norm).requires_grad_(False) for norm in (full.norm1, full.norm2)
        )
        self.attention = ParallelAttention.from_full(full.attention, group)
        self.mlp = parallel_mlp(full.mlp, group)

    @classmethod
    def from_full(cls, block: Block, group: Group = None) -> ParallelBlock:
        """This rank's part of `block`, copied. Raises ValueError where its heads cannot be split.

        >>> block, x = Block(32, heads=4, parallel=True), torch.ones(1, 5, 32)
        >>> run = ml.launch(lambda: ParallelBlock.from_full(block)(x), ranks=4)
        >>> torch.allclose(run.values[3], block(x), atol=1e-5), [e.op for e in run.events if e.rank == 0]
        (True, ['all_reduce'])
        """
        return cls(block, group)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) on every rank from (B, S, hidden), the same on all."""
        if self.parallel:
            both = self.attention.partial(self.norm1(x))
            both += self.mlp.partial(self.norm2(x))
            return x + summed(both, self.attention.o.bias, self.mlp.down.bias, group=self.group)
        x = x + self.attention(self.norm1(x))
        after: torch.Tensor = self.mlp(self.norm2(x))
        return x + after


def parallel_mlp(mlp: nn.Module, group: Group = None) -> ParallelMLP | ParallelGatedMLP:
    """This rank's part of an MLP or a GatedMLP; raises TypeError for another layer."""
    if isinstance(mlp, MLP):
        return ParallelMLP.from_full(mlp, group)
    if isinstance(mlp, GatedMLP):
        return ParallelGatedMLP.from_full(mlp, group)
    raise TypeError(f"{type(mlp).__name__} cannot be split: give an MLP or a GatedMLP")
