"""Case 11-b: a halo that is counted before the up-sampling."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
import torch.distributed as dist
from torch import nn

from mindlab.parallel.tiles import at, decode_tiled, exchange_halo, join_tiles
from mindlab.predict.tilings import Tiling
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_11 import given

Tensor = torch.Tensor


def decoded_in_tiles(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """This rank's tile of the picture; the halo is counted from the layers."""
    halo = 0
    for layer in decoder:
        if isinstance(layer, nn.Upsample):
            break  # finer pixels from here on: less than one of the latent
        if isinstance(layer, nn.Conv2d):
            halo += layer.kernel_size[0] // 2
    return decode_tiled(decoder, tile, tiles=tiles, halo=halo)


def with_all_layers(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """This rank's tile of the picture; the halo is counted from the layers."""
    halo, scale = Fraction(0), 1
    for layer in decoder:
        if isinstance(layer, nn.Upsample):
            scale *= int(layer.scale_factor)  # type: ignore[arg-type]
        if isinstance(layer, nn.Conv2d):
            halo += Fraction(layer.kernel_size[0] // 2, scale)
    return decode_tiled(decoder, tile, tiles=tiles, halo=math.ceil(halo))


def from_the_package(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Right: the package reads the layers."""
    return decode_tiled(decoder, tile, tiles=tiles)


def in_fine_pixels(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Right: counted in pixels of the picture, then divided, rounded up."""
    factors = [getattr(one, "scale_factor", 1) for one in decoder]
    finest = int(math.prod(factors))
    fine, scale = 0, 1
    for layer, factor in zip(decoder, factors, strict=True):
        scale *= int(factor)
        fine += finest // scale * (layer.kernel_size[0] // 2) if isinstance(layer, nn.Conv2d) else 0
    return decode_tiled(decoder, tile, tiles=tiles, halo=-(-fine // finest))


def all_alike(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: every convolution counts a latent pixel. Right values, too many bytes."""
    halo = sum(one.kernel_size[0] // 2 for one in decoder if isinstance(one, nn.Conv2d))
    return decode_tiled(decoder, tile, tiles=tiles, halo=halo)


def rounded_down(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: the halo of 2.5 pixels as 2."""
    return decode_tiled(decoder, tile, tiles=tiles, halo=2)


def none_at_all(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: tiles that know nothing of each other."""
    return decode_tiled(decoder, tile, tiles=tiles, halo=0)


def cropped_as_latent(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: the halo is cut off in pixels of the latent."""
    picture: Tensor = decoder(exchange_halo(tile, 3, tiles))
    own = tuple(given.SCALE * n for n in tile.shape[2:])
    above, left = (min(3, d.start) for d in tiles.tile(dist.get_rank()))
    return picture[:, :, above : above + own[0], left : left + own[1]].contiguous()


def rows_only(decoder: nn.Sequential, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: a halo above and below, none at the sides."""
    return decode_tiled(decoder, tile, tiles=tiles, halo=((3, 3), (0, 0)))


def _given(seed: int, rank: int, trial: Trial) -> tuple[nn.Sequential, Tensor, Tiling]:
    return given.decoder(seed), given.tile(seed, rank, trial), given.cut(trial)


def _one_card(all_given: list[tuple[nn.Sequential, Tensor, Tiling]]) -> list[Tensor]:
    tiles = all_given[0][2]
    picture = all_given[0][0](join_tiles([one[1] for one in all_given], tiles.grid))
    fine = tiles.scaled((given.SCALE, given.SCALE))
    everything = tuple(map(range, fine.size))
    return [picture[at(fine.tile(rank), everything)].clone() for rank in range(tiles.ranks)]


REPAIR = Exercise(
    name="11-b",
    title="Faint lines after the new decoder",
    statement="""
This rank's tile of the picture, (1, 3, 4 height, 4 width), from its tile of the latent. `decoder` is a
Sequential of convolutions, SiLU and up-sampling; `tiles` has the sizes of all tiles. You may use
`decode_tiled`; send no more than the halo needs.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(given.bytes_of(3)))),
    calls=("send", "recv", "isend", "irecv"),
    whole=given.latent_bytes,
    grain=lambda trial: 0,
    look=given.seam,
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"rows": 13, "columns": 12}),
        Trial(3, sizes={"rows": 13, "columns": 6, "rows_only": 1}),
    ),
    hints=(
        "How far from a border do wrong pixels reach? Compare with what the layers behind the first "
        "up-sampling read.",
        "Four convolutions at a quarter of a latent pixel each are one whole pixel. Which numbers belong "
        "into the sum, and when is it rounded?",
        """
    halo, scale = Fraction(0), 1
    for layer in decoder:
        if isinstance(layer, nn.Upsample):
            scale *= ...
        if isinstance(layer, nn.Conv2d):
            halo += ...                  # in latent pixels
    return decode_tiled(decoder, tile, tiles=tiles, halo=...)
""",
    ),
    solution=with_all_layers,
    explanation="""
Each convolution behind the up-sampling looks only half or a quarter of a latent pixel to the side. Many such
add up: here 1 + 2/2 + 2/4 = 2.5, and so 3. In large decoders most convolutions stand behind the first
up-sampling.
""",
    right=(from_the_package, in_fine_pixels),
    wrong=(
        Wrong(decoded_in_tiles, r"Pixels are wrong up to 6 rows"),
        Wrong(all_alike, r"times the allowed"),
        Wrong(rounded_down, r"Pixels are wrong up to 2 rows"),
        Wrong(none_at_all, r"Pixels are wrong up to 10 rows"),
        Wrong(cropped_as_latent, r"Pixels are wrong up to \d\d rows"),
        Wrong(rows_only, r"Pixels are wrong up to 10 rows"),
    ),
)

CASE = Case(
    name="11-b",
    title="Faint lines after the new decoder",
    story="""
A program counts the halo from the layers, so that nobody has to set it. With the first decoder, which had
all its convolutions in front and ended with the up-sampling, every picture was exact. A new decoder came,
that convolves after each up-sampling as well. Since then there are faint lines where tiles meet. Most people
do not see them.
""",
    program=decoded_in_tiles,
    causes=(
        Choice(
            "The decoder has a norm, whose statistics differ from tile to tile.",
            "There is none in it; and then whole tiles would be off, not lines.",
            holds=False,
        ),
        Choice(
            "The layers behind the first up-sampling are left out of the halo.",
            "Each looks less than a latent pixel to the side, but they add up to more than one.",
            holds=True,
        ),
        Choice(
            "Corners are missing: no message goes across.",
            "There are lines also far from corners, and `decode_tiled` fetches corners.",
            holds=False,
        ),
        Choice(
            "The halo is larger than the tiles.",
            "The program's halo is one pixel.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="Comfy-Org/ComfyUI pull request 6306 (2025): an overlap along time that always came out as 1; "
    "madebyollin/taesd issue 8 (2023): the overlap must cover the whole receptive field; the program is ours",
)
