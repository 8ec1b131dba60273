"""A picture or video cut into one tile a rank, and which pixels of whose tile a halo takes, on paper.

Each dim is cut by itself: rows by `grid[0]`, columns by `grid[1]`; a video has its frames before them. Ranks
are numbered row by row. A tile with its halo is cut off where the picture ends: there is nothing to fetch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from numbers import Integral
from typing import NamedTuple

from mindlab.predict.chunks import split
from mindlab.predict.shapes import check_whole

Box = tuple[range, ...]
"""One range of positions a dim: a rectangle of pixels."""
Sides = tuple[tuple[int, int], ...]
"""How many pixels before and after, one pair a dim."""


class Move(NamedTuple):
    """The pixels `box` of the whole picture, which `source` holds and `target` needs."""

    source: int
    target: int
    box: Box


@dataclass(frozen=True)
class Tiling:
    """How long the tiles are, one tuple a dim: two rows of tiles of 5 and 4, three columns, say.

    >>> Tiling(((5, 4), (3, 3, 2))).tile(4)
    (range(5, 9), range(3, 6))
    """

    lengths: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for lengths in self.lengths:
            whole = isinstance(lengths, Sequence) and all(isinstance(n, Integral) for n in lengths)
            if not whole:
                raise ValueError(f"tiles of {lengths!r} pixels: give whole numbers, one tuple a dim")
            if not lengths or min(lengths) < 1:
                raise ValueError(f"tiles of {list(lengths)} pixels: give every rank one pixel at least")

    @property
    def grid(self) -> tuple[int, ...]:
        """How many tiles stand along each dim."""
        return tuple(len(lengths) for lengths in self.lengths)

    @property
    def size(self) -> tuple[int, ...]:
        """Of the whole picture, in pixels."""
        return tuple(sum(lengths) for lengths in self.lengths)

    @property
    def ranks(self) -> int:
        """How many tiles there are."""
        return math.prod(self.grid)

    def scaled(self, factors: Sequence[object]) -> Tiling:
        """The same tiles after layers that make each dim `factors` times as long."""
        return Tiling(
            tuple(
                tuple(int(length * factor) for length in lengths)  # type: ignore[operator]
                for lengths, factor in zip(self.lengths, factors, strict=True)
            )
        )

    def tile(self, rank: int) -> Box:
        """The pixels of a rank's tile.

        >>> tiling((10, 8), (2, 2)).tile(3)
        (range(5, 10), range(4, 8))
        """
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank {rank} has no tile: there are {self.ranks}, from 0 on")
        place = list(product(*map(range, self.grid)))[rank]
        starts = [[0, *accumulate(lengths)] for lengths in self.lengths]
        return tuple(range(s[at], s[at + 1]) for s, at in zip(starts, place, strict=True))

    def wide(self, rank: int, sides: Sides, align: Sequence[int] = ()) -> Box:
        """The pixels of a rank's tile with its halo, inside the picture; ends rounded outwards to `align`.

        >>> tiling((10, 8), (2, 2)).wide(0, ((2, 2), (1, 1)))
        (range(0, 7), range(0, 5))
        """
        steps = align or (1,) * len(sides)
        dims = zip(self.tile(rank), sides, steps, self.size, strict=True)
        return tuple(
            range(
                max(0, (own.start - before) // step * step),
                min(size, -(-(own.stop + after) // step) * step),
            )
            for own, (before, after), step, size in dims
        )

    def moves(self, sides: Sides, align: Sequence[int] = ()) -> list[Move]:
        """What each rank must fetch for its halo and from whom, corners and ranks behind the next included.

        >>> tiling((6, 4), (3, 1)).moves(((1, 1), (0, 0)))[0]
        Move(source=1, target=0, box=(range(2, 3), range(0, 4)))
        """
        tiles = [self.tile(rank) for rank in range(self.ranks)]
        wide = [self.wide(rank, sides, align) for rank in range(self.ranks)]
        pairs = product(range(self.ranks), repeat=2)
        shared = [Move(source, target, common(tiles[source], wide[target])) for target, source in pairs]
        return [move for move in shared if move.source != move.target and pixels(move.box)]


def tiling(size: Sequence[int], grid: Sequence[int]) -> Tiling:
    """The Tiling of a picture of this size, each dim cut as torch.tensor_split cuts.

    Raises ValueError where a dim is shorter than its number of tiles.

    >>> tiling((9, 8), (2, 3)).lengths
    ((5, 4), (3, 3, 2))
    """
    if not isinstance(grid, Sequence):
        raise ValueError(f"grid={grid!r}: give the tiles along each dim, such as (2, 1)")
    if len(size) != len(grid):
        raise ValueError(f"size={tuple(size)} and grid={tuple(grid)}: give one number a dim in both")
    for length, parts in zip(size, grid, strict=True):
        check_whole(1, size=length, grid=parts)
        if parts > length:
            raise ValueError(f"{length} pixels cannot be cut into {parts} tiles: choose {length} at most")
    return Tiling(tuple(split(length, parts) for length, parts in zip(size, grid, strict=True)))


def sides_of(halo: int | Sequence[tuple[int, int]], dims: int) -> Sides:
    """One pair (before, after) a dim, from such pairs or one number for all.

    >>> sides_of(3, 2)
    ((3, 3), (3, 3))
    """
    if isinstance(halo, Integral):
        halo = ((int(halo), int(halo)),) * dims
    if isinstance(halo, str) or not isinstance(halo, Sequence) or not all(map(_paired, halo)):
        raise ValueError(
            f"halo={halo!r}: give a whole number of pixels, or a pair (before, after) for each dim"
        )
    sides = tuple((before, after) for before, after in halo)
    if len(sides) != dims:
        raise ValueError(f"halo={halo!r} has {len(sides)} dims, the picture {dims}: give a pair for each")
    for before, after in sides:
        check_whole(0, halo=before)
        check_whole(0, halo=after)
    return sides


def _paired(pair: object) -> bool:
    return isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2


def common(one: Box, other: Box) -> Box:
    """The pixels in both boxes.

    >>> common((range(0, 4), range(2, 5)), (range(3, 9), range(0, 3)))
    (range(3, 4), range(2, 3))
    """
    return tuple(range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True))


def pixels(box: Box) -> int:
    """How many pixels a box has.

    >>> pixels((range(3), range(2, 6)))
    12
    """
    return math.prod(len(dim) for dim in box)
