r"""What decoding a picture tile by tile sends, and what it computes twice."""

from __future__ import annotations

from collections.abc import Sequence

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity, mean
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole
from mindlab.predict.tilings import pixels, sides_of, tiling


def halo_exchange(
    size: Sequence[int],
    grid: Sequence[int],
    halo: int | Sequence[tuple[int, int]],
    *,
    channels: int,
    itemsize: int,
    batch: int = 1,
    align: Sequence[int] = (),
) -> Quantity:
    r"""Bytes each rank sends for the halos of all others' tiles: the pixels of its tile that they need.

    `size` of the whole in pixels, (height, width) or (frames, height, width); `grid` tiles along each dim;
    `halo` in the same pixels, one number or (before, after) a dim. Halos end at the picture's border. Tiles
    as torch.tensor_split cuts. A network with strides widens a halo to whole multiples of `align`, one number
    a dim. The formula is the mean: what tiles with halos have more than tiles.

    >>> halo_exchange((64, 96), (4, 1), 6, channels=4, itemsize=4).per_rank
    (9216, 18432, 18432, 9216)
    >>> halo_exchange((64, 96), (2, 2), 6, channels=4, itemsize=4).value
    8256
    """
    moves = tiling(size, grid).moves(sides_of(halo, len(size)), align)
    pixel = _pixel(batch, channels, itemsize)
    by_rank = [pixel * sum(pixels(m.box) for m in moves if m.source == rank) for rank in range(_ranks(grid))]
    return counted("halo_exchange", by_rank, _HALO, sources.COUNTED_BY_HAND)


def halo_exchange_received(
    size: Sequence[int],
    grid: Sequence[int],
    halo: int | Sequence[tuple[int, int]],
    *,
    channels: int,
    itemsize: int,
    batch: int = 1,
    align: Sequence[int] = (),
) -> Quantity:
    r"""Bytes each rank receives for its halo; the mean is that of `halo_exchange`.

    >>> halo_exchange_received((6, 1), (3, 1), ((3, 0), (0, 0)), channels=1, itemsize=1).per_rank
    (0, 2, 3)
    >>> halo_exchange((6, 1), (3, 1), ((3, 0), (0, 0)), channels=1, itemsize=1).per_rank
    (3, 2, 0)
    """
    cut, sides = tiling(size, grid), sides_of(halo, len(size))
    pixel = _pixel(batch, channels, itemsize)
    by_rank = [pixel * (pixels(cut.wide(r, sides, align)) - pixels(cut.tile(r))) for r in range(cut.ranks)]
    return counted("halo_exchange_received", by_rank, _HALO, sources.COUNTED_BY_HAND)


def norm_statistics(norms: int, groups: int, ranks: int, *, itemsize: int = 4, batch: int = 1) -> Quantity:
    r"""Bytes each rank sends so that `norms` GroupNorms have the whole picture's statistics.

    A norm tells each other rank three numbers a group and picture, and how many pixels they are of. The size
    of the picture does not matter.

    >>> norm_statistics(7, 8, ranks=4).value
    2100
    """
    check_whole(0, norms=norms)
    check_whole(1, groups=groups, ranks=ranks, itemsize=itemsize, batch=batch)
    value = norms * (ranks - 1) * (1 + 3 * batch * groups) * itemsize
    formula = r"n\,(p-1)\,(1+3\,b\,G)\,e"
    return Quantity(value, "B", formula, sources.CHAN_MOMENTS, name="norm_statistics", ranks=ranks)


def recomputed(size: Sequence[int], grid: Sequence[int], halo: int | Sequence[tuple[int, int]]) -> Quantity:
    r"""The share of the decoder's work that is done again: a rank's halo pixels by its own pixels.

    A halo is decoded along with the tile, at all layers, and cut off at the end. 0.5 is half as much again.

    >>> round(recomputed((64, 96), (4, 1), 6).value, 4), round(recomputed((64, 96), (2, 2), 6).value, 4)
    (0.5625, 0.3359)
    """
    cut, sides = tiling(size, grid), sides_of(halo, len(size))
    shares = [pixels(cut.wide(r, sides)) / pixels(cut.tile(r)) - 1 for r in range(cut.ranks)]
    per_rank = tuple(shares) if len(set(shares)) > 1 else None
    formula = r"\frac{\prod_i \hat n_i}{\prod_i n_i} - 1"
    return Quantity(mean(shares), "", formula, sources.COUNTED_BY_HAND, per_rank, "recomputed", cut.ranks)


_HALO = r"\frac{1}{p}\sum_r \Big(\prod_i \hat n_{r,i} - \prod_i n_{r,i}\Big)\,b\,C\,e"


def _pixel(batch: int, channels: int, itemsize: int) -> int:
    """The bytes of one pixel, its numbers checked."""
    check_whole(1, batch=batch, channels=channels, itemsize=itemsize)
    return batch * channels * itemsize


def _ranks(grid: Sequence[int]) -> int:
    ranks = 1
    for parts in grid:
        ranks *= parts
    return ranks
