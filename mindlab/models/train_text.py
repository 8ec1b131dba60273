"""Trains the two small language models, plain and with experts, on the text that ships with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mindlab.models.decoder import Decoder
from mindlab.models.moe import MoEDecoder, balance_loss
from mindlab.models.tokens import encode, shipped_text, vocabulary
from mindlab.models.training import fit

STEPS, BATCH, RATE = 3000, 4, 4e-3
MISREAD = 0.05
"""The share of tokens that the model is shown wrongly."""
BALANCE = 0.02
"""How much an uneven use of experts counts beside the loss of the text."""

Model = TypeVar("Model", bound=Decoder)


def train_decoder(steps: int = STEPS, seed: int = 0) -> tuple[Decoder, list[float]]:
    """The trained plain decoder and the loss of each step: nats a token."""
    torch.manual_seed(seed)
    return trained(Decoder(), lambda model: torch.zeros(()), steps, seed)


def train_moe(steps: int = STEPS, seed: int = 0) -> tuple[MoEDecoder, list[float]]:
    """The trained decoder with experts and the loss of each step: nats a token, and the term for balance."""
    torch.manual_seed(seed)
    return trained(MoEDecoder(), unbalance, steps, seed)


def unbalance(model: MoEDecoder) -> Tensor:
    """BALANCE times the mean of `balance_loss - 1` over the layers, 0 where experts are used evenly."""
    return BALANCE * (torch.stack([balance_loss(route) for route in model.routes()]).mean() - 1)


def trained(
    model: Model, extra: Callable[[Model], Tensor], steps: int, seed: int
) -> tuple[Model, list[float]]:
    """The model after `steps` batches of pieces of the text, `extra` added to each loss."""
    text = encode(shipped_text())[0]
    starts = torch.arange(len(text) - model.context)
    lines = starts[1:][text[starts[:-1]] == ord("\n")]

    def loss(generator: torch.Generator) -> Tensor:
        at = torch.cat([some(lines, BATCH // 2, generator), some(starts, BATCH - BATCH // 2, generator)])
        piece = text[at.unsqueeze(1) + torch.arange(model.context + 1)]
        logits = model(misread(piece[:, :-1], generator))
        return F.cross_entropy(logits.flatten(0, 1), piece[:, 1:].flatten()) + extra(model)

    return model, fit(model, loss, steps=steps, rate=RATE, seed=seed)


def some(of: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` of these numbers, drawn one by one."""
    return of[torch.randint(len(of), (count,), generator=generator)]


def misread(ids: Tensor, generator: torch.Generator) -> Tensor:
    """The ids with a share of MISREAD of them replaced by any token.

    When it generates, the model reads what it wrote itself; one wrong token must not throw it off.
    """
    other = torch.randint(vocabulary(), ids.shape, generator=generator)
    return torch.where(torch.rand(ids.shape, generator=generator) < MISREAD, other, ids)
