"""Case 11-a: zeros in the place of a halo."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from mindlab.parallel.tiles import agreed_tiling, decode_tiled, exchange_halo, join_tiles
from mindlab.teach import likely
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_11 import given

Tensor = torch.Tensor


def decoded_with_room(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """This rank's rows of the picture, from its rows of the latent."""
    wide = F.pad(tile, (0, 0, halo, halo))
    picture: Tensor = decoder(wide)
    scale = picture.shape[2] // wide.shape[2]
    return picture[:, :, halo * scale : -halo * scale].contiguous()


def from_the_neighbours(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """This rank's rows of the picture, from its rows of the latent."""
    rank, parts = dist.get_rank(), [tile]
    for other in (rank - 1, rank + 1):
        if 0 <= other < dist.get_world_size():
            mine = tile[:, :, :halo] if other < rank else tile[:, :, -halo:]
            theirs = torch.empty_like(mine.contiguous())
            sending = dist.isend(mine.contiguous(), other)
            dist.recv(theirs, other)
            sending.wait()
            parts = [theirs, *parts] if other < rank else [*parts, theirs]
    picture: Tensor = decoder(torch.cat(parts, 2))
    above = halo if rank > 0 else 0
    scale = picture.shape[2] // sum(part.shape[2] for part in parts)
    return picture[:, :, above * scale : (above + tile.shape[2]) * scale].contiguous()


def from_the_package(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Right: the package's own."""
    return decode_tiled(decoder, tile, halo=halo)


def fetched_first(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Right: the halo from the package, the cut by hand."""
    tiles = agreed_tiling(tile)
    wide = exchange_halo(tile, ((halo, halo), (0, 0)), tiles)
    begin = given.SCALE * min(halo, tiles.tile(dist.get_rank())[0].start)
    picture: Tensor = decoder(wide)
    return picture[:, :, begin : begin + given.SCALE * tile.shape[2]].contiguous()


def _padded(how: str, decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Rows made up by this rank alone."""
    picture: Tensor = decoder(F.pad(tile, (0, 0, halo, halo), mode=how))
    return picture[:, :, halo * given.SCALE : -halo * given.SCALE].contiguous()


def the_last_row_again(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: its own last row stands for the neighbour's."""
    return _padded("replicate", decoder, tile, halo)


def mirrored(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: its own rows, mirrored."""
    return _padded("reflect", decoder, tile, halo)


def more_zeros(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: twice as many zeros."""
    return decoded_with_room(decoder, tile, 2 * halo)


def without_any(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: the tile as it is."""
    return decoder(tile)  # type: ignore[no-any-return]


def zeros_at_the_ends(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: the neighbours' rows, and zeros where the picture ends: convolutions make something of them."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    latent = _all_rows(tile)
    first = sum(_heights(tile)[:rank])
    rows = latent[:, :, max(0, first - halo) : first + tile.shape[2] + halo]
    wide = F.pad(rows, (0, 0, halo * (rank == 0), halo * (rank == last)))
    picture: Tensor = decoder(wide)
    return picture[:, :, halo * given.SCALE : -halo * given.SCALE].contiguous()


def everything_everywhere(decoder: nn.Sequential, tile: Tensor, halo: int) -> Tensor:
    """Wrong: right pixels, but every rank fetches the whole latent and decodes all of it."""
    first, rank = sum(_heights(tile)[: dist.get_rank()]), dist.get_rank()
    assert rank < dist.get_world_size()
    picture: Tensor = decoder(_all_rows(tile))
    return picture[:, :, first * given.SCALE : (first + tile.shape[2]) * given.SCALE].contiguous()


def _heights(tile: Tensor) -> list[int]:
    every = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(every, torch.tensor([tile.shape[2]]))
    return [int(one) for one in every]


def _all_rows(tile: Tensor) -> Tensor:
    heights = _heights(tile)
    padded = F.pad(tile, (0, 0, 0, max(heights) - tile.shape[2]))
    every = [torch.empty_like(padded) for _ in heights]
    dist.all_gather(every, padded.contiguous())
    return torch.cat([one[:, :, :height] for one, height in zip(every, heights, strict=True)], 2)


def _given(seed: int, rank: int, trial: Trial) -> tuple[nn.Sequential, Tensor, int]:
    return given.decoder(seed), given.tile(seed, rank, trial), 3


def _one_card(all_given: list[tuple[nn.Sequential, Tensor, int]]) -> list[Tensor]:
    tiles = [one[1] for one in all_given]
    picture = all_given[0][0](join_tiles(tiles, (len(tiles), 1)))
    heights = [tile.shape[2] * given.SCALE for tile in tiles]
    return [part.contiguous() for part in picture.split(heights, 2)]


def _told(trial: Trial) -> int:
    """The most that a rank sends for the halo, and for telling all others how large its tile is."""
    return int(max(given.bytes_of(3)(trial).by_rank(trial.ranks))) + 16 * (trial.ranks - 1)


def _margins(all_given: list[tuple[nn.Sequential, Tensor, int]], rank: int) -> dict[str, Tensor]:
    """What comes of margins that a rank makes up."""
    decoder, tile, halo = all_given[rank]
    made = {
        "what comes of a margin of zeros": F.pad(tile, (0, 0, halo, halo)),
        "what comes of a margin that repeats the tile's last row": F.pad(
            tile, (0, 0, halo, halo), mode="replicate"
        ),
        "what comes of a margin of the tile's own rows, mirrored": F.pad(
            tile, (0, 0, halo, halo), mode="reflect"
        ),
    }
    cut = slice(halo * given.SCALE, -halo * given.SCALE)
    pictures: dict[str, Tensor] = {name: decoder(wide)[:, :, cut] for name, wide in made.items()}
    return {**pictures, "what comes of no margin at all": decoder(tile)}


def _look(attempt: Attempt) -> str:
    return likely.named(_margins)(attempt) or _places(attempt)


def _places(attempt: Attempt) -> str:
    """How far wrong rows reach, from where tiles meet and from the ends of the picture."""
    found, most, last = {"meet": 0, "end": 0}, 0.0, attempt.trial.ranks - 1
    for rank, (seen, wanted) in enumerate(zip(attempt.values, attempt.wanted, strict=True)):
        if not isinstance(seen, Tensor) or seen.shape != wanted.shape:
            return ""
        off, rows = (seen - wanted).abs().amax((0, 1, 3)), seen.shape[2]
        for at in (off > 1e-5 * wanted.abs().max()).nonzero().flatten().tolist():
            above, below = (
                (at + 1, "end" if rank == 0 else "meet"),
                (rows - at, "end" if rank == last else "meet"),
            )
            far, place = min(above, below)
            found[place] = max(found[place], far)
        most = max(most, float(off.max()))
    if not any(found.values()):
        return ""
    meet, end = (f"up to {n} rows from" if n else "" for n in found.values())
    said = [
        f"{meet} where tiles meet" if meet else "",
        f"{end} the picture's upper and lower end" if end else "",
    ]
    only = "" if meet else ", where nothing was cut. Where tiles meet all is right"
    return f"Pixels are wrong {' and '.join(filter(None, said))}, by {most:.2g} at most{only}."


REPAIR = Exercise(
    name="11-a",
    title="Lines across the picture",
    statement="""
This rank's rows of the picture, (1, 3, 4 height, 4 width), from its rows of the latent, `tile` (1, 2, height,
width). The tiles lie one below the other, each at least `halo` high, and may differ by a row. `halo` is right
for this decoder.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(given.bytes_of(3)), allowed=OfTrial(_told))),
    calls=("send", "recv", "isend", "irecv", "all_gather"),
    whole=given.latent_bytes,
    grain=lambda trial: 0,
    look=_look,
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"rows": 17, "columns": 5, "rows_only": 1}),
        Trial(3, sizes={"rows": 13, "columns": 6, "rows_only": 1}),
    ),
    hints=(
        "Hold the first wrong row against the tile's end. And look at the first and the last row of the "
        "whole picture, where nothing was cut.",
        "What stands beyond the tile's last row in the whole latent? And what stands beyond the last row of "
        "the whole picture, in each layer? A row of zeros in the latent is not a row of zeros behind a "
        "convolution with a bias.",
        """
    parts = [tile]
    for other in (rank - 1, rank + 1):
        if ...:                              # is there such a rank?
            mine = ...                       # the rows that it needs
            ...                              # send mine, receive theirs
            parts = ...                      # above or below
    picture: Tensor = decoder(torch.cat(parts, 2))
    above = ...                              # rows that came from above
    return picture[...]                      # this rank's own rows, 4 for each of the latent's
""",
    ),
    solution=from_the_neighbours,
    explanation="""
A halo is the neighbour's pixels. Zeros are other pixels, and the decoder draws what they look like: a grey
edge, fading over the receptive field.

At the picture's ends there is no halo at all: on one card each layer pads its own input with zeros there. A
latent that is padded once is something else, since the first convolution makes its bias out of the zeros.
""",
    right=(from_the_package, fetched_first),
    wrong=(
        Wrong(decoded_with_room, r"a margin of zeros"),
        Wrong(the_last_row_again, r"repeats the tile's last row"),
        Wrong(mirrored, r"mirrored"),
        Wrong(more_zeros, r"a margin of zeros"),
        Wrong(without_any, r"no margin at all"),
        Wrong(zeros_at_the_ends, r"upper and lower end.* Where tiles meet all is right"),
        Wrong(everything_everywhere, r"times the allowed"),
    ),
)

CASE = Case(
    name="11-a",
    title="Lines across the picture",
    story="""
A decoder no longer fits, so its latent is decoded in rows, one part a card. To give each tile room, it gets
a margin, as wide as the receptive field says, that is cut off again at the end. In the middle of each tile
the picture is right to the last digit. Across it run lines, where the tiles meet. There is one along the
upper and the lower edge of the picture, too, where nothing was cut.
""",
    program=decoded_with_room,
    causes=(
        Choice(
            "The margin is too narrow.",
            "With twice as wide a margin the lines stay as they are. The program says what is in it.",
            holds=False,
        ),
        Choice(
            "The picture is cut at the wrong place: margin and picture have different pixels.",
            "Then rows would be shifted, and wrong all over. Each has its place; some have the wrong values.",
            holds=False,
        ),
        Choice(
            "The margin holds zeros where the neighbours' rows should be.",
            "A convolution near the tile's end reads them. And where the picture ends, one card pads every "
            "layer, not the latent.",
            holds=True,
        ),
        Choice(
            "The tiles are decoded in another order of additions.",
            "That changes the last digits. These lines can be seen.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    look=_places,
    source="georghess/neurad-studio issue 15 (2024): patches decoded one by one, with borders that can be "
    "seen; the program is ours",
)
