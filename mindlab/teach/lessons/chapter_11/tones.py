"""Case 11-c: a GroupNorm that sees one tile."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from mindlab.parallel.tiles import at, exchange_halo, join_tiles, shared_group_norm
from mindlab.predict import volume
from mindlab.predict.tilings import Tiling
from mindlab.teach import inputs, likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_11 import given

Tensor = torch.Tensor
GROUPS = 1


def tile_by_tile(norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """This rank's tile of conv(silu(norm(x)))."""
    wide = exchange_halo(tile, 1, tiles)
    rank = dist.get_rank()
    both = zip(tiles.tile(rank), tiles.wide(rank, ((1, 1), (1, 1))), strict=True)
    rows, columns = (slice(a.start - b.start, a.stop - b.start) for a, b in both)
    out: Tensor = conv(F.silu(norm(wide)))
    return out[:, :, rows, columns].contiguous()


def of_one_picture(norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """This rank's tile of conv(silu(norm(x)))."""
    wide = exchange_halo(tile, 1, tiles)
    rank = dist.get_rank()
    both = zip(tiles.tile(rank), tiles.wide(rank, ((1, 1), (1, 1))), strict=True)
    rows, columns = (slice(a.start - b.start, a.stop - b.start) for a, b in both)
    out: Tensor = conv(F.silu(shared_group_norm(norm, wide, (rows, columns))))
    return out[:, :, rows, columns].contiguous()


def normed_before_it_is_sent(norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """Right: the norm first, of the tile alone, then the halo of what came out."""
    normed = shared_group_norm(norm, tile, [slice(None), slice(None)])
    return _finished(conv, exchange_halo(normed, 1, tiles), tiles)


def by_hand(norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """Right: two sums, then the halo."""
    grouped = tile.double().reshape(len(tile), norm.num_groups, -1)
    sums = torch.cat([grouped.sum(-1).flatten(), torch.tensor([float(grouped.shape[-1])]).double()])
    dist.all_reduce(sums)
    off = grouped - (sums[:-1] / sums[-1]).view(len(tile), -1, 1)
    squares = off.square().sum(-1)
    dist.all_reduce(squares)
    normed = (off * (squares / sums[-1] + norm.eps).rsqrt().unsqueeze(-1)).view(tile.shape).float()
    normed = normed * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)
    return _finished(conv, exchange_halo(normed, 1, tiles), tiles)


def _finished(conv: nn.Conv2d, wide: Tensor, tiles: Tiling) -> Tensor:
    """The convolution of what is normalised, cut to the tile; wide has a halo of 1."""
    return _cut(conv(F.silu(wide)), tiles, 1)


def _cut(out: Tensor, tiles: Tiling, halo: int) -> Tensor:
    rank, sides = dist.get_rank(), ((halo, halo), (halo, halo))
    return out[at(tiles.tile(rank), tiles.wide(rank, sides))].contiguous()


def _otherwise(how: str, norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """The block with one thing made otherwise."""
    if how == "larger halo":
        return _cut(conv(F.silu(norm(exchange_halo(tile, 3, tiles)))), tiles, 3)
    if how == "before":
        return _finished(conv, exchange_halo(norm(tile), 1, tiles), tiles)
    wide = exchange_halo(tile, 1, tiles)
    if how == "halo counted":
        return _finished(conv, shared_group_norm(norm, wide, [slice(None), slice(None)]), tiles)
    groups = wide.reshape(len(wide), norm.num_groups, -1)
    own = _cut(wide, tiles, 1).reshape(len(wide), norm.num_groups, -1)
    stats = torch.stack([own.mean(-1), own.var(-1, correction=0)])
    if how == "averaged":
        dist.all_reduce(stats)
        stats /= dist.get_world_size()
    if how == "rank 0":
        dist.broadcast(stats, 0)
    mean, variance = (one.unsqueeze(-1) for one in stats)
    normed = ((groups - mean) * (variance + norm.eps).rsqrt()).view(wide.shape)
    normed = normed * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)
    return _finished(conv, normed, tiles)


def the_whole_picture(norm: nn.GroupNorm, conv: nn.Conv2d, tile: Tensor, tiles: Tiling) -> Tensor:
    """Wrong: right values, but every rank fetches everything."""
    far = max(tiles.size)
    wide = exchange_halo(tile, far, tiles)
    return _cut(conv(F.silu(norm(wide))), tiles, far)


def _given(seed: int, rank: int, trial: Trial) -> tuple[nn.GroupNorm, nn.Conv2d, Tensor, Tiling]:
    """A norm of 4 channels with weights of its own, and a picture that grows brighter to its lower right; in
    an even trial its tiles have the same statistics."""
    norm = nn.GroupNorm(GROUPS, given.WIDE).requires_grad_(False)
    norm.weight.data += torch.tensor([0.3, -0.2, 0.1, 0.4])
    norm.bias.data += torch.tensor([0.5, -0.4, 0.2, 0.1])
    conv = given.conv(seed, "last", given.WIDE, 3).requires_grad_(False)
    rows, columns = given.size(trial)
    seeded = inputs.normal(seed, "features", 1, given.WIDE, rows, columns)
    light = torch.linspace(0, 3, rows).view(-1, 1) + torch.linspace(0, 2, columns)
    cut = given.cut(trial)
    whole = seeded + light
    if trial.sizes.get("even"):
        part = whole[..., : rows // cut.grid[0], : columns // cut.grid[1]]
        whole = part.repeat(1, 1, *cut.grid)
    everything = tuple(map(range, cut.size))
    return norm, conv, whole[at(cut.tile(rank), everything)].clone(), cut


Given = list[tuple[nn.GroupNorm, nn.Conv2d, Tensor, Tiling]]


def _one_card(all_given: Given) -> list[Tensor]:
    norm, conv, _, cut = all_given[0]
    picture = conv(F.silu(norm(join_tiles([one[2] for one in all_given], cut.grid))))
    everything = tuple(map(range, cut.size))
    return [picture[at(cut.tile(rank), everything)].clone() for rank in range(cut.ranks)]


def _mistakes(all_given: Given, rank: int) -> dict[str, Tensor]:
    norm, conv, _, cut = all_given[rank]
    whole = join_tiles([one[2] for one in all_given], cut.grid)
    everything = tuple(map(range, cut.size))

    def with_halo(halo: int) -> Tensor:
        box = cut.wide(rank, ((halo, halo), (halo, halo)))
        out: Tensor = conv(F.silu(norm(whole[at(box, everything)])))
        return out[at(cut.tile(rank), box)]

    return {
        **{
            f"its tile by the statistics of that tile and a halo of {halo}": with_halo(halo)
            for halo in (1, 3)
        },
        "its tile by statistics that count a pixel on every rank that has it": _counted_twice(
            all_given, rank
        ),
    }


def _counted_twice(all_given: Given, rank: int) -> Tensor:
    """What comes of the statistics of all tiles and their halos."""
    norm, conv, _, cut = all_given[rank]
    whole, everything = join_tiles([one[2] for one in all_given], cut.grid), tuple(map(range, cut.size))
    boxes = [cut.wide(other, ((1, 1), (1, 1))) for other in range(cut.ranks)]
    wide = [whole[at(box, everything)] for box in boxes]
    counted = torch.cat([one.reshape(1, GROUPS, -1) for one in wide], 2)
    spread, mean = torch.var_mean(counted, -1, correction=0, keepdim=True)
    x = ((wide[rank].reshape(1, GROUPS, -1) - mean) * (spread + norm.eps).rsqrt()).view(wide[rank].shape)
    out: Tensor = conv(F.silu(x * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)))
    return out[at(cut.tile(rank), boxes[rank])]


def _sent(trial: Trial) -> int:
    """The mean of what each rank sends: the halo and the statistics."""
    halo = volume.halo_exchange(
        given.size(trial), given.grid(trial), 1, channels=given.WIDE, itemsize=4
    ).by_rank(trial.ranks)
    return int(max(halo)) + int(volume.norm_statistics(1, GROUPS, trial.ranks).value)


REPAIR = Exercise(
    name="11-c",
    title="Every tile in a tone of its own",
    statement="""
This rank's tile of conv(silu(norm(x))) of the whole picture, from its tile (1, 4, height, width) of x. `norm`
is a GroupNorm, `conv` a convolution of 3 x 3 that pads with zeros; `tiles` has the sizes of all tiles. You
may use `exchange_halo` and `shared_group_norm`.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent), allowed=OfTrial(lambda trial: 2 * _sent(trial)))),
    calls=("send", "recv", "isend", "irecv", "all_gather", "all_reduce", "broadcast"),
    whole=lambda trial: 4 * given.WIDE * trial["rows"] * trial["columns"],
    grain=lambda trial: 0,
    look=likely.named(_mistakes),
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"rows": 12, "columns": 16, "even": 1}),
        Trial(4, sizes={"rows": 13, "columns": 15}),
        Trial(3, sizes={"rows": 11, "columns": 9, "rows_only": 1}),
    ),
    hints=(
        "Which of the three layers looks at more than the pixels beside it?",
        "A tile of sky is bright and even. By itself it is normalised to mean 0 and variance 1, and so is a "
        "tile of trees. On one card both are measured by the same mean and variance. Who knows these?",
        """
    wide = exchange_halo(tile, 1, tiles)
    rows, columns = ...                  # where the tile's own pixels lie in wide
    out = conv(F.silu(...(norm, wide, ...)))
    return out[:, :, rows, columns].contiguous()
""",
    ),
    solution=of_one_picture,
    explanation="""
A GroupNorm's statistics are of all pixels of the picture. The ranks exchange three numbers a group, and
everybody normalises by the same. Each pixel is counted once: by the rank whose own it is, not by those that
have it in their halo.
""",
    right=(normed_before_it_is_sent, by_hand),
    wrong=(
        Wrong(tile_by_tile, r"statistics of that tile and a halo of 1"),
        Wrong(partial(_otherwise, "larger halo"), r"Rank \d|a halo of 3"),
        Wrong(partial(_otherwise, "before"), r"Rank 0"),
        Wrong(partial(_otherwise, "halo counted"), r"count a pixel on every rank that has it"),
        Wrong(partial(_otherwise, "averaged"), r"Rank 0"),
        Wrong(partial(_otherwise, "rank 0"), r"Rank [01]"),
        Wrong(the_whole_picture, r"times the allowed"),
    ),
)

CASE = Case(
    name="11-c",
    title="Every tile in a tone of its own",
    story="""
Tiles are decoded with the right halo, and the lines between them are gone. The test picture, a pattern that
repeats in every tile, is nearly exact. In photographs the sky is a little too dark in one tile and too warm
in the next. Somebody makes the halo three times as wide. The edges move a little. The tones stay.
""",
    program=tile_by_tile,
    causes=(
        Choice(
            "The halo does not reach across the corners.",
            "It does, and a missing corner would not change the tone of a whole tile.",
            holds=False,
        ),
        Choice(
            "The norm takes its mean and variance from one tile and its halo.",
            "So each tile is measured by another yardstick. No halo smaller than the picture mends that.",
            holds=True,
        ),
        Choice(
            "The convolution's zero padding darkens the ends of the tile.",
            "The halo is cut off, and the padding with it. Here pixels in the middle are off.",
            holds=False,
        ),
        Choice(
            "The weights of the norm differ from rank to rank.",
            "All ranks have the same.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    look=likely.unnamed,
    shown_trial=1,
    source="huggingface/diffusers pull request 1441 (2022): tiles that vary in tone; Comfy-Org/ComfyUI issue "
    "500 (2023): colours shifted by tiled decoding; YingqingHe/ScaleCrafter issue 2 (2023): norms whose "
    "statistics are shared; the program is ours",
)
