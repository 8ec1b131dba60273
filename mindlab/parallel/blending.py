"""Tiles that overlap, each decoded by itself, and blended where they overlap: cheaper, and not exact.

The way of products that decode large pictures on small cards ("tiled VAE"). No layer asks another tile for
anything and a GroupNorm sees its own tile; what differs is spread over the overlap, so that no edge is seen.
Weights fall linearly towards a tile's end and are divided by their sum, corners included: a picture of one
colour keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mindlab.parallel.linear import Group, place
from mindlab.parallel.receptive import Halo, receptive_field
from mindlab.parallel.tiles import agreed_tiling, at, check_tiles, exchange_halo, global_rank
from mindlab.predict.tilings import Box, Tiling, common, pixels, sides_of


@torch.no_grad()
def decode_blended(
    vae_decoder: nn.Module,
    latent: Tensor,
    group: Group = None,
    overlap: int = 2,
    *,
    tiles: Tiling | None = None,
    grid: Sequence[int] | None = None,
) -> Tensor:
    """This rank's tile of the picture, from tiles decoded with `overlap` latent pixels more on each side.

    Sends the latent's halo (`volume.halo_exchange`), then the parts of the picture that lie in others' tiles:
    scale² times what `volume.halo_exchange_received` says of the picture's channels. Near what
    `decode_tiled` gives, and never equal. Tiles, grid and errors as there.
    """
    rank, _ = place(group)
    cut, field = agreed_tiling(latent, group, tiles=tiles, grid=grid), receptive_field(vae_decoder)
    check_tiles(field, cut)
    scale = _whole(field)
    sides = sides_of(overlap, len(cut.size))
    picture = vae_decoder(exchange_halo(latent, sides, cut, group, align=field.align))
    boxes = [scaled(cut.wide(each, sides, field.align), scale) for each in range(cut.ranks)]
    tile = scaled(cut.tile(rank), scale)
    weights = [weight(box, cut.scaled(scale).size, [2 * overlap * s for s in scale]) for box in boxes]
    total, out = picture.new_zeros(*map(len, tile)), picture.new_zeros(*picture.shape[:2], *map(len, tile))
    for source, box, part in _parts(picture, boxes, cut, scale, group):
        share = weights[source].to(picture)[at(box, boxes[source])[2:]]
        out[at(box, tile)] += share * part
        total[at(box, tile)[2:]] += share
    blended: Tensor = out / total
    return blended


def _whole(field: Halo) -> list[int]:
    """The scale of each dim; raises ValueError where it is no whole number."""
    if any(factor.denominator != 1 for factor in field.scale):
        raise ValueError(
            f"the decoder makes {field.scale} pixels of one: blending needs whole numbers of them"
        )
    return [int(factor) for factor in field.scale]


def weight(box: Box, size: Sequence[int], ramps: Sequence[int]) -> Tensor:
    """How much each pixel of a decoded tile counts: 1 inside, falling to its ends, but not at the picture's.

    >>> weight((range(0, 6),), (12,), (4,)).tolist()
    [1.0, 1.0, 0.875, 0.625, 0.375, 0.125]
    """
    full = torch.ones(())
    for own, length, ramp in zip(box, size, ramps, strict=True):
        along = torch.ones(len(own))
        fall = (torch.arange(len(own)) + 0.5) / max(ramp, 1)
        if own.start > 0:
            along = torch.minimum(along, fall)
        if own.stop < length:
            along = torch.minimum(along, fall.flip(0))
        full = full.unsqueeze(-1) * along
    return full


def scaled(box: Box, factors: Sequence[int]) -> Box:
    """The pixels of the picture that a box of the latent becomes.

    >>> scaled((range(2, 5),), (4,))
    (range(8, 20),)
    """
    return tuple(range(d.start * factor, d.stop * factor) for d, factor in zip(box, factors, strict=True))


def _parts(
    picture: Tensor, boxes: Sequence[Box], cut: Tiling, scale: Sequence[int], group: Group
) -> list[tuple[int, Box, Tensor]]:
    """What every rank's decoded tile says about this rank's pixels: from whom, where, and the pixels."""
    rank, ranks = place(group)
    tiles = [scaled(cut.tile(each), scale) for each in range(ranks)]
    parts, ops = [(rank, tiles[rank], picture[at(tiles[rank], boxes[rank])])], []
    for other in range(ranks):
        given, wanted = common(boxes[rank], tiles[other]), common(boxes[other], tiles[rank])
        if other != rank and pixels(wanted):
            parts.append((other, wanted, picture.new_empty(*picture.shape[:2], *map(len, wanted))))
            ops.append(dist.P2POp(dist.irecv, parts[-1][2], global_rank(other, group), group))
        if other != rank and pixels(given):
            mine = picture[at(given, boxes[rank])].contiguous()
            ops.append(dist.P2POp(dist.isend, mine, global_rank(other, group), group))
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    return parts
