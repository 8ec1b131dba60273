"""Tiles that overlap and are blended: smooth, not exact, and what they send."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.vae import load_photo, load_vae
from mindlab.parallel import blending
from mindlab.parallel.blending import decode_blended
from mindlab.parallel.tiles import decode_tiled, join_tiles, split_tiles
from mindlab.predict.tilings import tiling

SIZE = (22, 17)


@pytest.mark.parametrize("grid", [(3, 1), (4, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("norm", [True, False])
def test_blending_is_smooth_and_not_exact(grid: Any, norm: bool) -> None:
    """Would catch weights that do not add up to 1: a picture of one colour must stay so, corners too. And
    tiles that are only cut, or parts laid where they do not belong: both are further off."""
    vae = load_vae(norm=norm)
    latent = vae.encode(load_photo())[:, :, 20:42, 20:37]
    plain, flat = nn.Upsample(scale_factor=4), torch.full((1, 2, *SIZE), 0.7)

    def call() -> tuple[Tensor, Tensor, Tensor]:
        mine, one = (split_tiles(x, grid)[dist.get_rank()] for x in (latent, flat))
        return (
            decode_blended(vae.decoder, mine, grid=grid, overlap=3),
            decode_tiled(vae.decoder, mine, grid=grid, halo=0, shared_statistics=False),
            decode_blended(plain, one, grid=grid, overlap=3),
        )

    values = ml.launch(call, ranks=tiling(SIZE, grid).ranks).values
    blended, cut, same = (join_tiles(parts, grid) for parts in zip(*values, strict=True))
    assert float((same - 0.7).abs().max()) < 1e-6  # one division
    whole = vae.decoder(latent)
    off, further = (float((each - whole).abs().mean()) for each in (blended, cut))
    assert 1e-5 < off < (0.95 if norm else 0.3) * further, (off, further)


@pytest.mark.parametrize("grid", [(3, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("overlap", [0, 2, 9])
def test_bytes(grid: Any, overlap: int) -> None:
    """Would catch whole pictures sent to all: a latent's halo goes out, the picture's share comes back to
    those whose halo it was, 4 x 4 pixels of 3 channels for each latent pixel; also over several tiles."""
    decoder, latent = load_vae(norm=False).decoder, torch.zeros(1, 4, *SIZE)

    def call() -> None:
        mine = split_tiles(latent, grid)[dist.get_rank()]
        decode_blended(decoder, mine, overlap=overlap, tiles=tiling(SIZE, grid))

    ranks = tiling(SIZE, grid).ranks
    run = ml.launch(call, ranks=ranks)
    out = ml.volume.halo_exchange(SIZE, grid, overlap, channels=4, itemsize=4)
    back = ml.volume.halo_exchange_received(SIZE, grid, overlap, channels=3, itemsize=4)
    right = list((out + 16 * back).by_rank(ranks))
    assert run.sent.tolist() == right
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == right


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(blending)
    assert found.failed == 0 and found.attempted
