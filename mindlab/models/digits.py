"""Handwritten digits from noise: a class-conditional diffusion transformer, 8 x 8 pixels, and its sampling.

The model predicts the noise epsilon in a noisy picture. Ten labels say which digit is wanted, an eleventh
(`NULL`) that none is: with both predictions a picture can be guided (Ho and Salimans 2022).

    images x       (B, 1, 8, 8), -1 for paper to 1 for ink
    time t         (B,), 0 for a clean picture to 1 for pure noise
    labels         (B,) whole numbers 0 to 9, or NULL

The trunk is plain blocks of `layers` over 16 tokens of 2 x 2 pixels; time and label are added to all tokens
before each block (DiT, Peebles and Xie 2023, adapts the norms instead). So whatever splits a block or a
sequence of tokens splits this model. `python -m mindlab.models.train digits` makes the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from mindlab.models.layers import Block
from mindlab.models.weights import load_weights, shipped
from mindlab.predict.shapes import check_whole

SIZE = 8
PATCH = 2
TOKENS = (SIZE // PATCH) ** 2
NULL = 10
"""The label that wants no digit in particular."""

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]
"""model(x, t, labels) -> epsilon: DigitsModel, or the same model split over ranks."""
Guide = Callable[[Predict, Tensor, Tensor, Tensor, Tensor, float], Tensor]
"""guide(model, x, t, cond, uncond, scale) -> guided epsilon: `guided`, or another way to make both calls."""


class DigitsModel(nn.Module):
    """The noise in x: (B, 1, 8, 8) from x (B, 1, 8, 8), t (B,) and labels (B,). Raises ValueError on others.

    >>> DigitsModel()(torch.zeros(3, 1, 8, 8), torch.ones(3), torch.tensor([0, 9, NULL])).shape
    torch.Size([3, 1, 8, 8])
    """

    def __init__(self, hidden: int = 64, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        check_whole(1, layers=layers)
        self.patches = nn.Linear(PATCH * PATCH, hidden)
        self.positions = nn.Parameter(torch.randn(TOKENS, hidden) * 0.1)
        self.label = nn.Embedding(NULL + 1, hidden)
        self.time = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.conditions = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.blocks = nn.ModuleList(Block(hidden, heads, causal=False) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.pixels = nn.Linear(hidden, PATCH * PATCH)

    def embed(self, x: Tensor) -> Tensor:
        """Tokens (B, 16, hidden) of images (B, 1, 8, 8), row by row, with their positions."""
        patches = x.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).reshape(len(x), TOKENS, -1)
        tokens: Tensor = self.patches(patches) + self.positions
        return tokens

    def condition(self, t: Tensor, labels: Tensor) -> Tensor:
        """What time and label say to every token, (B, 1, hidden)."""
        waves = time_waves(t, self.label.embedding_dim).to(self.positions.dtype)
        both: Tensor = nn.functional.silu(self.time(waves) + self.label(labels))
        return both.unsqueeze(1)

    def read(self, tokens: Tensor) -> Tensor:
        """Epsilon (B, 1, 8, 8) from the last block's tokens (B, 16, hidden)."""
        side = SIZE // PATCH
        patches = self.pixels(self.norm(tokens)).view(-1, side, side, PATCH, PATCH)
        rows: Tensor = patches.transpose(2, 3).reshape(-1, 1, SIZE, SIZE)
        return rows

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """(B, 1, 8, 8) from x (B, 1, 8, 8), t (B,) and labels (B,)."""
        check_inputs(x, t, labels)
        tokens, condition = self.embed(x), self.condition(t, labels)
        for layer, block in zip(self.conditions, self.blocks, strict=True):
            tokens = block(tokens + layer(condition))
        return self.read(tokens)


def load_digits() -> DigitsModel:
    """The trained model that ships, float32, on the CPU.

    >>> sum(tensor.numel() for tensor in load_digits().parameters()) < 300_000
    True
    """
    model = DigitsModel()
    load_weights(model, shipped("digits"))
    return model


def time_waves(t: Tensor, width: int) -> Tensor:
    """(B, width): sines and cosines of t at frequencies from 1 to 1000, for a network to read t from.

    >>> time_waves(torch.zeros(1), 4).tolist()
    [[0.0, 0.0, 1.0, 1.0]]
    """
    steps = torch.linspace(0, math.log(1000), width // 2, device=t.device)
    angles = t.float().unsqueeze(-1) * steps.exp()
    return torch.cat([angles.sin(), angles.cos()], -1)


def signal(t: Tensor) -> Tensor:
    """The share of the picture in the variance at time t, alpha bar: cos²(pi/2 · t), 1 clean, 0 noise.

    Nichol and Dhariwal 2021, "Improved Denoising Diffusion Probabilistic Models", equation 17 with s = 0.

    >>> signal(torch.tensor([0.0, 0.5, 1.0])).round(decimals=4).tolist()
    [1.0, 0.5, 0.0]
    """
    return torch.cos(t.double() * (math.pi / 2)).square().float()


def noisy(images: Tensor, epsilon: Tensor, t: Tensor) -> Tensor:
    """sqrt(signal) · images + sqrt(1 - signal) · epsilon: the pictures (B, 1, 8, 8) at time t (B,)."""
    kept = signal(t).view(-1, 1, 1, 1)
    return kept.sqrt() * images + (1 - kept).sqrt() * epsilon


def guided(model: Predict, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """epsilon_u + scale · (epsilon_c - epsilon_u), by two calls of the model, one after the other.

    `cond` and `uncond` are labels (B,). scale 0 is no digit in particular, 1 the plain prediction for `cond`,
    more exaggerates what the label changes. Ho and Salimans 2022, equation 6, whose w is scale - 1.
    """
    epsilon_c = model(x, t, cond)
    epsilon_u = model(x, t, uncond)
    return epsilon_u + scale * (epsilon_c - epsilon_u)


def denoise_step(x: Tensor, epsilon: Tensor, t: Tensor, t_next: Tensor) -> Tensor:
    """x at the earlier time `t_next`, from x and epsilon at t; nothing random.

    The picture that x would be without epsilon, kept inside -1 to 1, and as much of the noise as belongs to
    `t_next`. Song, Meng and Ermon 2021 (DDIM), equation 12 with sigma 0; the noise is what that picture
    leaves. Raises ValueError for a t of 0.
    """
    if not bool((t > 0).all()):
        raise ValueError(f"t={t.tolist()}: a picture at time 0 has no noise left to take away; begin above 0")
    now, later = (signal(time).view(-1, 1, 1, 1) for time in (t, t_next))
    picture = ((x - (1 - now).sqrt() * epsilon) / now.sqrt()).clamp(-1, 1)
    rest = (x - now.sqrt() * picture) / (1 - now).sqrt()
    return later.sqrt() * picture + (1 - later).sqrt() * rest


def times(steps: int) -> Tensor:
    """The times of `steps` denoising steps, steps + 1 of them: from 0.98, nearly noise, down to 0.

    Not from 1: there nothing of the picture is left in x, and the step would divide by 0.
    """
    check_whole(1, steps=steps)
    return torch.linspace(0.98, 0, steps + 1)


def first_noise(count: int, seed: int = 0) -> Tensor:
    """Noise for `count` pictures, (count, 1, 8, 8), the same on every rank and device for one seed.

    >>> bool((first_noise(2, seed=3) == first_noise(2, seed=3)).all())
    True
    """
    return torch.randn(count, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def sample(
    model: Predict,
    labels: Tensor | Sequence[int],
    *,
    scale: float = 3.0,
    steps: int = 20,
    seed: int = 0,
    guide: Guide = guided,
) -> Tensor:
    """One picture a label, (B, 1, 8, 8) between -1 and 1; the same for the same seed.

    `labels` lies on the model's device, or is a list for the CPU. `guide` makes the model's calls of a step.
    The pictures are float32, so raises ValueError for a model in another dtype.

    >>> sample(load_digits(), [3, 3, 7], steps=2).shape
    torch.Size([3, 1, 8, 8])
    """
    _refuse_other_dtypes(model)
    cond = torch.as_tensor(labels)
    uncond = torch.full_like(cond, NULL)
    x = first_noise(len(cond), seed).to(cond.device)
    for now, later in pairwise(times(steps).to(cond.device).unsqueeze(1).expand(-1, len(x))):
        x = denoise_step(x, guide(model, x, now, cond, uncond, scale), now, later)
    return x


def _refuse_other_dtypes(model: Predict) -> None:
    """Raises ValueError for a module whose parameters are not float32; a function may do as it likes."""
    found = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if found is not None and found.dtype != torch.float32:
        raise ValueError(
            f"the model is in {found.dtype} and the pictures are torch.float32: give model.float(), or a "
            "function that converts x on its way in and the prediction on its way out"
        )


def check_inputs(x: Tensor, t: Tensor, labels: Tensor) -> None:
    """Raises ValueError if x, t and labels are not what the model takes, saying which is not."""
    if x.shape[1:] != (1, SIZE, SIZE):
        raise ValueError(f"x {tuple(x.shape)} is no batch of digits: give (batch, 1, {SIZE}, {SIZE})")
    for name, given in (("t", t), ("labels", labels)):
        if given.shape != x.shape[:1]:
            raise ValueError(
                f"{name} {tuple(given.shape)} does not fit x {tuple(x.shape)}: give one value a picture, "
                f"({len(x)},)"
            )
    if labels.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"labels are {labels.dtype}: give whole numbers, torch.int64")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) <= NULL:
        raise ValueError(f"labels hold {labels.tolist()}: give 0 to 9, or {NULL} for no digit in particular")
