"""Exercise 11.2: a halo on all sides, corners too, and nobody talks to a rank at a corner."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mindlab.parallel.tiles import at as places
from mindlab.parallel.tiles import exchange_halo, join_tiles
from mindlab.predict.quantity import Quantity
from mindlab.predict.tilings import tiling
from mindlab.teach import amounts
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_11 import given

Tensor = torch.Tensor
Grid = tuple[int, int]


def with_halo(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """This rank's tile with `halo` pixels around it, corners too, inside the picture."""
    rank = dist.get_rank()

    def swapped(edge: Tensor, other: int) -> Tensor:
        theirs = torch.empty_like(edge)
        sending = dist.isend(edge.contiguous(), other)
        dist.recv(theirs, other)
        sending.wait()
        return theirs

    for dim, step in ((2, grid[1]), (3, 1)):
        at, parts = divmod(rank, grid[1])[dim - 2], [tile]
        if at > 0:
            parts.insert(0, swapped(tile.narrow(dim, 0, halo), rank - step))
        if at < grid[dim - 2] - 1:
            last = tile.shape[dim] - halo
            parts.append(swapped(tile.narrow(dim, last, halo), rank + step))
        tile = torch.cat(parts, dim)
    return tile


def both_at_a_time(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Right: both neighbours of a dim in one batch."""
    rank = dist.get_rank()
    for dim, step, place in ((2, grid[1], rank // grid[1]), (3, 1, rank % grid[1])):
        sides = [other for other in (-1, 1) if 0 <= place + other < grid[dim - 2]]
        edges = [tile.narrow(dim, 0 if s < 0 else tile.shape[dim] - halo, halo).contiguous() for s in sides]
        coming = [torch.empty_like(edge) for edge in edges]
        work = [dist.isend(e, rank + s * step) for e, s in zip(edges, sides, strict=True)]
        work += [dist.irecv(c, rank + s * step) for c, s in zip(coming, sides, strict=True)]
        for one in work:
            one.wait()
        parts = dict(zip(sides, coming, strict=True))
        tile = torch.cat([part for part in (parts.get(-1), tile, parts.get(1)) if part is not None], dim)
    return tile


def _exchanged(how: str, tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Columns, then rows of what is wider now; with one thing made otherwise."""
    rank = dist.get_rank()
    wide = 2 * halo if how == "twice as much" else halo
    for dim, step in ((3, 1), (2, grid[1])):
        place, length = divmod(rank, grid[1])[dim - 2], tile.shape[dim]
        found = [tile.narrow(dim, 0, 0), tile.narrow(dim, 0, 0)]
        for at, side in enumerate((-1, 1)):
            if 0 <= place + side < grid[dim - 2]:
                near = (side < 0) != (how == "far edge")
                edge = tile.narrow(dim, 0 if near else length - wide, wide).contiguous()
                theirs = torch.empty_like(edge)
                sending = dist.isend(edge, rank + side * step)
                dist.recv(theirs, rank + side * step)
                sending.wait()
                found[at] = theirs.narrow(dim, (wide - halo) * (side < 0), halo)
        first, last = found[::-1] if how == "other side" else found
        tile = torch.cat([first, tile, last], dim)
    return tile


def columns_first(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Right: columns, then rows."""
    return _exchanged("right", tile, grid, halo)


def corners_empty(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Wrong: zeros at the corners."""
    wide = with_halo(tile, grid, halo)
    row, column = divmod(dist.get_rank(), grid[1])
    top, left = halo * (row > 0), halo * (column > 0)
    rows = torch.zeros(wide.shape[2], 1, dtype=torch.bool)
    columns = torch.zeros(1, wide.shape[3], dtype=torch.bool)
    rows[top : top + tile.shape[2]] = columns[:, left : left + tile.shape[3]] = True
    return wide * (rows | columns)


def also_at_the_ends(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Wrong: a halo of zeros where the picture ends."""
    row, column = divmod(dist.get_rank(), grid[1])
    ends = (column == 0, column == grid[1] - 1, row == 0, row == grid[0] - 1)
    return F.pad(with_halo(tile, grid, halo), [halo * end for end in ends])


def zeros_around(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Wrong: zeros where the neighbours' pixels should be, and no message."""
    row, column = divmod(dist.get_rank(), grid[1])
    inner = (column > 0, column < grid[1] - 1, row > 0, row < grid[0] - 1)
    return F.pad(tile, [halo * side for side in inner])


def straight_across(tile: Tensor, grid: Grid, halo: int) -> Tensor:
    """Wrong: right pixels, with messages across the corners."""
    return exchange_halo(tile, halo, tiling(_SIZES[dist.get_world_size()], grid))


_SIZES = {4: (9, 11), 3: (10, 5), 6: (9, 13)}
"""Rows and columns of the latent, by ranks."""


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Grid, int]:
    return given.tile(seed, rank, trial), given.grid(trial), trial["halo"]


def _one_card(all_given: list[tuple[Tensor, Grid, int]]) -> list[Tensor]:
    grid, halo = all_given[0][1:]
    picture = join_tiles([one[0] for one in all_given], grid)
    cut = tiling(picture.shape[2:], grid)
    everything = tuple(map(range, cut.size))
    sides = ((halo, halo), (halo, halo))
    return [picture[places(cut.wide(rank, sides), everything)].clone() for rank in range(cut.ranks)]


def _beside(ranks: int) -> list[tuple[int, int]]:
    """Who stands beside whom."""
    across = given.GRIDS[ranks][1]
    pairs = [(r, r + 1) for r in range(ranks) if r % across < across - 1]
    pairs += [(r, r + across) for r in range(ranks - across)]
    return [*pairs, *((b, a) for a, b in pairs)]


def _sent(trial: Trial) -> Quantity:
    return given.bytes_of(trial["halo"])(trial)


EXERCISE = Exercise(
    name="11.2",
    title="Corners without a message across",
    statement="""
Write `with_halo(tile, grid, halo)`. The ranks hold tiles (1, 2, height, width) of a latent, row by row:
`grid` = (rows of tiles, columns of tiles). Return this rank's tile with `halo` pixels around it on all sides,
corners too; where the picture ends, the tile ends. Tiles beside each other may differ by a pixel, and none is
smaller than the halo.

Messages may only go to the ranks above, below, left and right: on a mesh of links a message across a corner
would pass through one of those anyway. A corner's pixels must come by way of another rank, and no more bytes
than the halo has may be sent.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent), naive=amounts.to_every_other)),
    edges=_beside,
    whole=given.latent_bytes,
    grain=lambda trial: 0,
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"rows": 9, "columns": 11, "halo": 2}),
        Trial(3, sizes={"rows": 10, "columns": 5, "halo": 3}),
        Trial(6, sizes={"rows": 9, "columns": 13, "halo": 1}),
    ),
    hints=(
        "One dim after the other. What does the neighbour at your right hold once it has its upper halo?",
        "First exchange rows with the ranks above and below. Each tile is now taller. Then exchange columns "
        "of the taller tiles: their upper ends are the pixels of the rank across the corner.",
        """
    for dim, step in ((2, grid[1]), (3, 1)):      # rows first, then columns
        parts = [tile]
        if ...:                                   # is there a rank before me along this dim?
            parts.insert(0, ...)                  # its last pixels for my first ones
        if ...:
            parts.append(...)
        tile = torch.cat(parts, dim)              # what is sent next is wider
    return tile
""",
    ),
    solution=with_halo,
    explanation="""
The second exchange sends $(h + R)\\,R$ pixels in place of $h\\,R$ and a corner of $R^2$: the same bytes, in
four messages for eight. In three dims it is six for twenty-six. `exchange_halo` of the package sends each
pixel straight to where it is needed, which also works for tiles smaller than the halo.
""",
    right=(columns_first, both_at_a_time),
    wrong=(
        Wrong(zeros_around, r"Nothing was sent"),
        Wrong(corners_empty, r"Rank \d: .*wrong"),
        Wrong(also_at_the_ends, r"shape"),
        Wrong(partial(_exchanged, "far edge"), r"Rank 0"),
        Wrong(partial(_exchanged, "other side"), r"Rank 0"),
        Wrong(partial(_exchanged, "twice as much"), r"times the allowed"),
        Wrong(straight_across, r"rank"),
    ),
)
