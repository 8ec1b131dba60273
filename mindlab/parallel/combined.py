"""A diffusion transformer on a mesh of four axes: cfg x tensor x ring x ulysses, each with its own part.

    cfg       the two passes of a guided step; partners swap predictions once a step
    tensor    heads and inner features of every layer; two all-reduces a block, of this rank's tokens
    ring      parts of the sequence; their keys and values go round
    ulysses   pieces of a part; heads of the part are swapped before attention, and back

A rank holds the weights of its tensor place, for all tokens, and works on the tokens of its ring and ulysses
places. The axes are orthogonal: each exchange is within one group of one axis, and the ranks are the product.
An axis of size 1 sends nothing. The mesh may have its axes in any order: the last is inside, where ranks
share the fast links (`mindlab.parallel.mesh`).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from mindlab import collectives
from mindlab.models.digits import PATCH, TOKENS, DigitsModel, check_inputs
from mindlab.models.layers import Block
from mindlab.parallel.cfg import branch, combined, from_partner, prediction
from mindlab.parallel.heads import ParallelAttention
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.linear import summed
from mindlab.parallel.mesh import hybrid_sizes, own_shard, place_on
from mindlab.parallel.tensor import parallel_mlp
from mindlab.predict.combined import COMBINED, check_axes


class MeshBlock(nn.Module):
    """A transformer block on a mesh: (B, S_r, hidden) to the same, this rank's tokens of the sequence."""

    def __init__(self, full: Block, mesh: DeviceMesh) -> None:
        super().__init__()
        self.mesh, self.group = mesh, mesh.get_group("tensor")
        self.norm1, self.norm2 = (
            copy.deepcopy(norm).requires_grad_(False) for norm in (full.norm1, full.norm2)
        )
        self.attention = ParallelAttention.from_full(full.attention, self.group)
        self.mlp = parallel_mlp(full.mlp, self.group)

    @torch.no_grad()
    def forward(self, x: Tensor, sizes: list[list[int]]) -> Tensor:
        """One block; `sizes` are the lengths of all shards (`hybrid_sizes`)."""
        heads = self.attention.qkv(self.norm1(x))
        out = hybrid_attention(*heads, self.mesh, sizes=sizes)
        x = x + summed(self.attention.o.partial(out.flatten(2)), self.attention.o.bias, group=self.group)
        after: Tensor = self.mlp(self.norm2(x))
        return x + after


class MeshDigits(nn.Module):
    """The digits model on a mesh with the axes cfg, tensor, ring and ulysses; use `mesh_guided` to guide it.

    As `Predict`: model(x, t, labels) is the whole noise (B, 1, 8, 8) on every rank.
    """

    def __init__(self, full: DigitsModel, mesh: DeviceMesh) -> None:
        super().__init__()
        sizes = {axis: place_on(mesh, axis)[1] for axis in COMBINED}
        for block in full.blocks:
            assert isinstance(block, Block)
            check_axes(sizes, block.attention.heads)
        self.mesh = mesh
        self.outside = copy.deepcopy(full).requires_grad_(False)
        self.outside.blocks = nn.ModuleList()
        self.blocks = nn.ModuleList(_block(block, mesh) for block in full.blocks)
        self.sizes = hybrid_sizes(TOKENS, ring=sizes["ring"], ulysses=sizes["ulysses"])

    @classmethod
    def from_full(cls, model: DigitsModel, mesh: DeviceMesh) -> MeshDigits:
        """This rank's part of the model, copied. Raises ValueError for a mesh without one of the axes.

        Raises ValueError also where tensor x ulysses does not divide the heads, or cfg is more than 2.

        >>> from mindlab.models.digits import load_digits
        >>> from mindlab.parallel.mesh import device_mesh
        >>> full, x = load_digits(), torch.zeros(1, 1, 8, 8)
        >>> axes = {"cfg": 1, "tensor": 2, "ring": 1, "ulysses": 2}
        >>> def predict():
        ...     model = MeshDigits.from_full(full, device_mesh(axes))
        ...     return model(x, torch.ones(1), torch.tensor([3]))
        >>> whole = full(x, torch.ones(1), torch.tensor([3]))
        >>> all(torch.allclose(value, whole, atol=1e-5) for value in ml.launch(predict, ranks=4).values)
        True
        """
        return cls(model, mesh)

    @torch.no_grad()
    def own(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """The noise in this rank's tokens, (B, S_r, 4): the pixels of its patches."""
        check_inputs(x, t, labels)
        outside = self.outside
        tokens, condition = own_shard(outside.embed(x), self.mesh), outside.condition(t, labels)
        for layer, block in zip(outside.conditions, self.blocks, strict=True):
            tokens = block(tokens + layer(condition), self.sizes)
        noise: Tensor = outside.pixels(outside.norm(tokens))
        return noise

    @torch.no_grad()
    def whole(self, own: Tensor) -> Tensor:
        """The noise (B, 1, 8, 8) on every rank from every rank's (B, S_r, 4): gathered along both axes."""
        place, _ = place_on(self.mesh, "ring")
        parts = [sum(row) for row in self.sizes]
        tokens = own.transpose(0, 1).contiguous()
        for axis, lengths in (("ulysses", self.sizes[place]), ("ring", parts)):
            tokens = collectives.ring_all_gather(tokens, self.mesh.get_group(axis), sizes=lengths)
        return pictures(tokens.transpose(0, 1))

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """(B, 1, 8, 8) on every rank."""
        return self.whole(self.own(x, t, labels))


@torch.no_grad()
def mesh_guided(
    model: MeshDigits, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float
) -> Tensor:
    """The guided noise (B, 1, 8, 8) on every rank: a `Guide` for `models.digits.sample`.

    With cfg of size 2 each half makes one pass, and partners swap tokens' predictions; with
    size 1 every rank makes both. Tokens are gathered once a step, not once a pass.
    """
    group = model.mesh.get_group("cfg")
    if place_on(model.mesh, "cfg")[1] == 1:
        mine = combined(model.own(x, t, uncond), model.own(x, t, cond), scale)
        return model.whole(mine)
    conditional = branch(group)
    mine = model.own(x, t, cond if conditional else uncond)
    theirs = from_partner(prediction(mine, mine), group)
    both = (theirs, mine) if conditional else (mine, theirs)
    return model.whole(combined(*both, scale))


def pictures(tokens: Tensor) -> Tensor:
    """(B, 1, 8, 8) from patches of pixels (B, 16, 4), row by row."""
    side = int(TOKENS**0.5)
    rows = tokens.reshape(-1, side, side, PATCH, PATCH).transpose(2, 3)
    return rows.reshape(-1, 1, side * PATCH, side * PATCH)


def _block(full: nn.Module, mesh: DeviceMesh) -> MeshBlock:
    assert isinstance(full, Block)
    return MeshBlock(full, mesh)
