"""A picture or video decoded tile by tile, one tile a rank, exactly: with halos and shared statistics.

A rank holds a tile of the latent, (B, C, height, width) or (B, C, frames, height, width). It fetches from the
others the pixels around it that its part of the picture depends on (`receptive_field`), decodes the tile with
its halo, and cuts the halo's part of the picture off. Where the whole picture ends there is no halo: there
the decoder pads, as it does on one card. Elsewhere its padding is wrong, and reaches as far as the halo.

A GroupNorm looks at the whole picture: no halo is enough. The ranks merge their statistics, each counting the
pixels of its own tile and not those of its halo, which are another rank's own.

`exchange="layer"` sends a small halo before each convolution in place of one at the latent: nothing is
computed twice, more and larger messages are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mindlab.parallel.linear import Group, place
from mindlab.parallel.norms import shared_moments
from mindlab.parallel.receptive import Halo, looking_around, receptive_field
from mindlab.predict.tilings import Box, Sides, Tiling, sides_of, tiling

__all__ = ["Halo", "agreed_tiling", "decode_tiled", "exchange_halo", "join_tiles", "receptive_field",
           "shared_group_norm", "split_tiles"]  # fmt: skip


@torch.no_grad()
def decode_tiled(
    vae_decoder: nn.Module,
    latent: Tensor,
    group: Group = None,
    halo: int | Sequence[tuple[int, int]] | Halo | None = None,
    *,
    tiles: Tiling | None = None,
    grid: Sequence[int] | None = None,
    exchange: str = "latent",
    shared_statistics: bool = True,
) -> Tensor:
    """This rank's tile of the picture from its tile of the latent: that of the whole, decoded on one card.

    `halo` is in latent pixels, on each side or (before, after) a dim; None: `receptive_field`. A smaller one
    leaves seams; a Halo is taken as it is, also where the decoder's layers cannot be read. `grid` says how
    many tiles stand along each dim, ranks row by row; None: one below the other. `tiles` has all their sizes;
    None: the ranks tell each other first, 8 bytes a dim to each. With `shared_statistics=False` a GroupNorm
    sees its own tile and halo alone. Raises ValueError for tiles that do not fit, and for a decoder that is
    not known or whose picture is no whole multiple of its latent.
    """
    rank, _ = place(group)
    field = halo if isinstance(halo, Halo) else receptive_field(vae_decoder)
    cut = agreed_tiling(latent, group, tiles=tiles, grid=grid)
    _check(field, cut, exchange, halo)
    if exchange == "layer":
        return _by_layers(vae_decoder, latent, cut, group, shared_statistics)
    given = field.sides if halo is None or isinstance(halo, Halo) else halo
    sides = sides_of(given, len(cut.size))
    wide = exchange_halo(latent, sides, cut, group, align=field.align)
    own = _inside(cut.tile(rank), cut.wide(rank, sides, field.align))
    with _shared_norms(vae_decoder, own, wide, group if shared_statistics else _NONE):
        picture: Tensor = vae_decoder(wide)
    return _cropped(picture, own, wide)


def exchange_halo(
    tile: Tensor, halo: int | Sides, tiles: Tiling, group: Group = None, *, align: Sequence[int] = ()
) -> Tensor:
    """This rank's tile with the pixels around it, from all ranks that hold some of them.

    Where the whole picture ends, the tile ends. One message to each rank that needs some of this tile:
    neighbours, those at the corners, and those behind where tiles are smaller than the halo.
    """
    sides = sides_of(halo, len(tiles.size))
    rank, _ = place(group)
    own, wide = tiles.tile(rank), tiles.wide(rank, sides, align)
    out = tile.new_empty(*tile.shape[:2], *map(len, wide))
    out[at(own, wide)] = tile
    coming, ops = [], []
    for move in tiles.moves(sides, align):
        if move.target == rank:
            coming.append((move.box, tile.new_empty(*tile.shape[:2], *map(len, move.box))))
            ops.append(dist.P2POp(dist.irecv, coming[-1][1], global_rank(move.source, group), group))
        elif move.source == rank:
            part = tile[at(move.box, own)].contiguous()
            ops.append(dist.P2POp(dist.isend, part, global_rank(move.target, group), group))
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    for box, part in coming:
        out[at(box, wide)] = part
    return out


def shared_group_norm(norm: nn.GroupNorm, x: Tensor, own: Sequence[slice], group: Group = None) -> Tensor:
    """The GroupNorm of x by all ranks' own pixels; `own` says where in x this rank's are.

    The halo's pixels are normalised too, and not counted: they are another rank's own.
    """
    mine = _by_group(x[_index(own)], norm)
    if mine.dtype != torch.float64:
        mine = mine.float()
    centre, mean, variance = shared_moments(mine, group)
    grouped = _by_group(x.to(mine.dtype), norm)
    out: Tensor = (grouped - centre.unsqueeze(-1) - mean.unsqueeze(-1)) * (
        variance + norm.eps
    ).rsqrt().unsqueeze(-1)
    out = out.view(x.shape)
    if norm.affine:
        shape = (-1, *[1] * (x.ndim - 2))
        out = out * norm.weight.view(shape) + norm.bias.view(shape)
    return out.to(x.dtype)


def _by_group(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    """(B, groups, numbers of a group) from (B, C, …)."""
    return x.reshape(len(x), norm.num_groups, -1)


def split_tiles(x: Tensor, grid: Sequence[int]) -> list[Tensor]:
    """One tile a rank of x (B, C, …), each dim after the channels cut as torch.tensor_split cuts.

    >>> [tile.shape[2:].numel() for tile in split_tiles(torch.zeros(1, 1, 5, 4), (2, 2))]
    [6, 6, 4, 4]
    """
    cut = tiling(x.shape[2:], grid)
    whole = tuple(map(range, cut.size))
    return [x[at(cut.tile(rank), whole)].contiguous() for rank in range(cut.ranks)]


def join_tiles(parts: Sequence[Tensor], grid: Sequence[int]) -> Tensor:
    """The whole whose tiles `parts` are, by rank.

    >>> x = torch.arange(20.0).view(1, 1, 5, 4)
    >>> torch.equal(join_tiles(split_tiles(x, (2, 2)), (2, 2)), x)
    True
    """
    joined = list(parts)
    for dim in range(len(grid) - 1, -1, -1):
        count = grid[dim]
        joined = [torch.cat(joined[i : i + count], dim + 2) for i in range(0, len(joined), count)]
    if len(joined) != 1:
        raise ValueError(f"{len(parts)} tiles do not make a grid of {tuple(grid)}: give one for each place")
    return joined[0]


def agreed_tiling(
    tile: Tensor, group: Group = None, *, tiles: Tiling | None = None, grid: Sequence[int] | None = None
) -> Tiling:
    """The Tiling that all ranks' tiles make; sizes are exchanged unless `tiles` has them."""
    rank, ranks = place(group)
    dims = tile.ndim - 2
    if tiles is None:
        shape = tuple(grid) if grid is not None else ((1,) * (dims - 2) + (ranks, 1))[:dims]
        tiles = _told(tile, shape, group)
    if tiles.ranks != ranks or (grid is not None and tuple(grid) != tiles.grid):
        raise ValueError(f"tiles of grid {tiles.grid} on {ranks} ranks, grid={grid}: give one tile a rank")
    mine = tuple(map(len, tiles.tile(rank)))
    if mine != tuple(tile.shape[2:]):
        raise ValueError(f"rank {rank} holds a tile of {tuple(tile.shape[2:])}, the tiling says {mine}")
    return tiles


def _told(tile: Tensor, grid: tuple[int, ...], group: Group) -> Tiling:
    """The Tiling from what each rank tells of its tile's size."""
    own = torch.tensor(tile.shape[2:], dtype=torch.int64, device=tile.device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    if len(grid) != len(own) or torch.Size(grid).numel() != len(every):
        raise ValueError(f"grid={grid} of {len(own)} dims on {len(every)} ranks: give one tile a rank")
    dist.all_gather(every, own, group=group)
    sizes = torch.stack(every).view(*grid, -1)
    lengths = []
    for dim in range(len(grid)):
        along = sizes[..., dim].movedim(dim, 0).reshape(grid[dim], -1)
        if not (along == along[:, :1]).all():
            raise ValueError(f"tiles beside each other differ in dim {dim}: {sizes[..., dim].tolist()}")
        lengths.append(tuple(along[:, 0].tolist()))
    return Tiling(tuple(lengths))


_NONE: Any = object()
"""In a group's place: no statistics are shared."""


@contextmanager
def _replaced(module: nn.Module, forward: Callable[..., Tensor]) -> Iterator[None]:
    """Inside, calling the module calls `forward`."""
    before = vars(module).get("forward")  # another library may have put its own there
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


@contextmanager
def _shared_norms(decoder: nn.Module, own: Sequence[range], wide: Tensor, group: Any) -> Iterator[None]:
    """Inside, the decoder's GroupNorms count the pixels of the tile, `own`, on all ranks."""

    def normed(norm: nn.GroupNorm, x: Tensor) -> Tensor:
        return shared_group_norm(norm, x, _grown(own, x, wide), group)

    with ExitStack() as stack:
        for norm in decoder.modules():
            if isinstance(norm, nn.GroupNorm) and group is not _NONE:
                stack.enter_context(_replaced(norm, partial(normed, norm)))
        yield


def _by_layers(decoder: nn.Module, latent: Tensor, cut: Tiling, group: Group, shared: bool) -> Tensor:
    """The decoder on the tile alone, its layers that look around fetching a halo each."""
    everything = tuple(map(range, latent.shape[2:]))
    with ExitStack() as stack, _shared_norms(decoder, everything, latent, group if shared else _NONE):
        for unit, field in dict(looking_around(decoder)).items():
            if field.norms and shared:
                raise ValueError(
                    f"{type(unit).__name__} looks around and has norms inside: its halo's pixels would be "
                    'counted twice; use exchange="latent"'
                )
            run = partial(_one_layer, unit.forward, field, latent.shape, cut, group)
            stack.enter_context(_replaced(unit, run))
        return cast(Tensor, decoder(latent))


def _one_layer(
    forward: Callable[[Tensor], Tensor], field: Halo, first: Any, cut: Tiling, group: Group, x: Tensor
) -> Tensor:
    """One layer's output for this rank's pixels; x is some times larger than the latent."""
    factors = [now / before for now, before in zip(x.shape[2:], first[2:], strict=True)]
    here, rank = cut.scaled(factors), dist.get_rank(group)
    wide = exchange_halo(x, field.sides, here, group, align=field.align)
    own = _inside(here.tile(rank), here.wide(rank, field.sides, field.align))
    return _cropped(forward(wide), own, wide)


def _cropped(picture: Tensor, own: Sequence[range], wide: Tensor) -> Tensor:
    """The tile's own part of what was made of the tile with its halo."""
    return picture[_index(_grown(own, picture, wide))].contiguous()


def _grown(own: Sequence[range], x: Tensor, wide: Tensor) -> list[slice]:
    """Where the tile's own pixels lie in x, which is made of `wide`."""
    found = []
    for dim, (each, now, before) in enumerate(zip(own, x.shape[2:], wide.shape[2:], strict=True)):
        whole = now % before == 0 or before % now == 0
        if not whole or each.start * now % before or each.stop * now % before:
            raise ValueError(
                f"a layer makes {now} pixels of {before} in dim {dim}: a tile needs layers that keep a size "
                "or multiply it by a whole number; give convolutions the padding that keeps it"
            )
        found.append(slice(each.start * now // before, each.stop * now // before))
    return found


def _check(field: Halo, cut: Tiling, exchange: str, halo: object) -> None:
    if exchange not in ("latent", "layer"):
        raise ValueError(f"exchange={exchange!r} is unknown: choose latent or layer")
    if exchange == "layer" and halo is not None:
        raise ValueError(f"halo={halo!r} with exchange='layer': each layer has its own, leave halo out")
    check_tiles(field, cut)


def check_tiles(field: Halo, cut: Tiling) -> None:
    """Raises ValueError for a decoder that neither keeps nor multiplies sizes, and for tiles that misfit."""
    if not field.keeps_size:
        raise ValueError("the decoder's output is no whole multiple of its input: pad its layers to keep it")
    if len(field.before) != len(cut.size):
        raise ValueError(
            f"a latent of {len(cut.size)} dims for a decoder of {len(field.before)}: give (B, C, …)"
        )
    for lengths, step in zip(cut.lengths, field.align, strict=True):
        if wrong := [length for length in lengths if length % step]:
            raise ValueError(f"a tile of {wrong[0]} pixels: the layers stride, choose a multiple of {step}")


def _inside(box: Box, outer: Box) -> list[range]:
    return [range(a.start - b.start, a.stop - b.start) for a, b in zip(box, outer, strict=True)]


def at(box: Box, outer: Box) -> tuple[Any, ...]:
    """The index of a box in a tensor that holds the pixels `outer`."""
    return _index([slice(one.start, one.stop) for one in _inside(box, outer)])


def _index(slices: Sequence[slice]) -> tuple[Any, ...]:
    return (slice(None), slice(None), *slices)


def global_rank(rank: int, group: Group) -> int:
    """The global number of a rank of the group."""
    world = group or dist.group.WORLD
    assert world is not None, "torch.distributed is not initialised"
    return dist.get_global_rank(world, rank)
