"""What the exercises of chapter 11 hand to the ranks: a latent in tiles, and a small decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mindlab.parallel.tiles import split_tiles
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.predict.tilings import Tiling, tiling
from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Trial

Tensor = torch.Tensor
CHANNELS, WIDE, SCALE = 2, 4, 4
DIMS = ("batch", "channel", "row", "column")
GRIDS = {2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (2, 3)}
"""Tiles along height and width, by the number of ranks, where an exercise is about both dims."""


def size(trial: Trial) -> tuple[int, int]:
    """Rows and columns of the whole latent."""
    return trial["rows"], trial["columns"]


def grid(trial: Trial) -> tuple[int, int]:
    """How many tiles stand along each dim: rows only where the trial says so."""
    return (trial.ranks, 1) if trial.sizes.get("rows_only") else GRIDS[trial.ranks]


def cut(trial: Trial) -> Tiling:
    """The tiles of all ranks."""
    return tiling(size(trial), grid(trial))


def whole(seed: int, trial: Trial) -> Tensor:
    """The latent (1, 2, rows, columns); its values are not centred on 0."""
    return inputs.normal(seed, "latent", 1, CHANNELS, *size(trial)) + 0.5


def tile(seed: int, rank: int, trial: Trial) -> Tensor:
    """This rank's tile of it."""
    return split_tiles(whole(seed, trial), grid(trial))[rank]


def conv(seed: int, name: str, ins: int, outs: int) -> nn.Conv2d:
    """A convolution of 3 x 3 that keeps the size; its bias is not 0."""
    layer = nn.Conv2d(ins, outs, 3, padding=1)
    layer.weight.data = inputs.normal(seed, f"{name} weight", outs, ins, 3, 3, scale=(9 * ins) ** -0.5)
    layer.bias = nn.Parameter(inputs.normal(seed, f"{name} bias", outs, scale=0.5))
    return layer


def decoder(seed: int) -> nn.Sequential:
    """A decoder that makes 4 x 4 pixels of one: one convolution, then two at each finer size. Halo 3."""
    layers: list[nn.Module] = [conv(seed, "in", CHANNELS, WIDE), nn.SiLU()]
    for step in ("half", "whole"):
        layers += [nn.Upsample(scale_factor=2), conv(seed, step, WIDE, WIDE), nn.SiLU()]
        layers += [conv(seed, f"{step} again", WIDE, 3 if step == "whole" else WIDE)]
    return nn.Sequential(*layers).requires_grad_(False)


def bytes_of(halo: int) -> Callable[[Trial], Quantity]:
    """trial -> bytes that each rank sends for a halo of so many pixels."""

    def of(trial: Trial) -> Quantity:
        return volume.halo_exchange(size(trial), grid(trial), halo, channels=CHANNELS, itemsize=4)

    return of


def latent_bytes(trial: Trial) -> int:
    """Bytes of the whole latent."""
    return CHANNELS * trial["rows"] * trial["columns"] * 4


def seam(attempt: Attempt) -> str:
    """How far from where tiles meet pixels are wrong, and by how much: what a look at the picture tells."""
    farthest, most = 0, 0.0
    for rank, (seen, wanted) in enumerate(zip(attempt.values, attempt.wanted, strict=True)):
        if not isinstance(seen, Tensor) or seen.shape != wanted.shape:
            return ""
        off = (seen - wanted).abs().amax((0, 1))
        ends = to_the_border(cut(attempt.trial), rank, off.shape)
        wrong = off > 1e-5 * wanted.abs().max()
        most = max(most, float(off.max()))
        farthest = max(farthest, int(ends[wrong].max()) if wrong.any() else 0)
    if not farthest:
        return ""
    far = f"Pixels are wrong up to {farthest} rows or columns away from where tiles meet"
    return f"{far}, by {most:.2g} at most."


def to_the_border(tiles: Tiling, rank: int, shape: Sequence[int]) -> Tensor:
    """For each pixel of a rank's tile of the picture, its row or column, counted from the next tile."""
    nearest = torch.full(tuple(shape), max(shape))
    for dim, (own, whole, length) in enumerate(zip(tiles.tile(rank), tiles.size, shape, strict=True)):
        along = torch.full((length,), max(shape))
        if own.start > 0:
            along = torch.minimum(along, torch.arange(length) + 1)
        if own.stop < whole:
            along = torch.minimum(along, torch.arange(length).flip(0) + 1)
        nearest = torch.minimum(nearest, along.view(-1, 1) if dim == 0 else along)
    return nearest
