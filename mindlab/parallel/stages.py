"""A decoder cut into stages, whole blocks each: the first also embeds, the last also reads the logits."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from mindlab.models.decoder import Cache, Decoder, cached_block, check_ids
from mindlab.models.layers import Block
from mindlab.models.moe import MoE
from mindlab.predict.chunks import split
from mindlab.trace import recorder


class DecoderStage(nn.Module):
    """Some blocks of a decoder, copied: (B, S, hidden) in and out; ids into the first, logits from the last.

    Called as a Decoder is: stage(x), or stage(x, cache) with what is new; the cache is this stage's own.
    """

    def __init__(self, model: Decoder, first: int, count: int) -> None:
        super().__init__()
        layers = len(model.blocks)
        self.blocks = nn.ModuleList(
            copy.deepcopy(model.blocks[layer]) for layer in range(first, first + count)
        )
        self.context = model.context
        self.embedding = copy.deepcopy(model.embedding) if not first else None
        self.positions = nn.Parameter(model.positions.detach().clone()) if not first else None
        self.norm, self.logits = (
            copy.deepcopy(part) if first + count == layers else None for part in (model.norm, model.logits)
        )
        self.weights = linear_weights(self)
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        """The next stage's x (B, S, hidden), or logits (B, S, vocabulary)."""
        recorder.compute(2 * x.shape[0] * x.shape[1] * self.weights, what="linear")
        x = self._embedded(x, 0 if cache is None else cache.length)
        for layer, block in enumerate(self.blocks):
            x = block(x) if cache is None else cached_block(cast(Block, block), x, cache, layer)
        if self.norm is not None and self.logits is not None:
            x = self.logits(self.norm(x))
        return x

    def _embedded(self, x: Tensor, start: int) -> Tensor:
        """x itself, but embedded in the first stage."""
        if self.embedding is None or self.positions is None:
            return x
        check_ids(x, start, self.context)
        embedded: Tensor = self.embedding(x) + self.positions[start : start + x.shape[1]]
        return embedded


def linear_weights(part: nn.Module) -> int:
    """How many weights of linear layers one token meets: of a mixture's experts only the chosen ones.

    >>> linear_weights(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)))
    48
    """
    if isinstance(part, nn.Linear):
        return part.weight.numel()
    if isinstance(part, MoE):
        return part.router.weight.numel() + part.top_k * linear_weights(part.experts[0])
    return sum(linear_weights(child) for child in part.children())


def decoder_stages(model: Decoder, count: int) -> list[DecoderStage]:
    """The model as `count` stages, its blocks dealt as torch.tensor_split deals; a rank keeps its own.

    Raises ValueError for more stages than blocks: a stage without a block would only pass on.

    >>> [len(stage.blocks) for stage in decoder_stages(Decoder(layers=5), 3)]
    [2, 2, 1]
    """
    layers = len(model.blocks)
    if not 1 <= count <= layers:
        raise ValueError(f"{count} stages of {layers} blocks: choose 1 to {layers}")
    sizes = split(layers, count)
    return [DecoderStage(model, sum(sizes[:stage]), size) for stage, size in enumerate(sizes)]
