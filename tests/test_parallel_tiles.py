"""Pictures decoded tile by tile: the whole's on every rank, its bytes, seams where something is left out."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.vae import load_photo, load_vae
from mindlab.models.video import video_decoder
from mindlab.parallel import tiles
from mindlab.parallel.receptive import looking_around
from mindlab.parallel.tiles import (
    agreed_tiling,
    decode_tiled,
    exchange_halo,
    join_tiles,
    receptive_field,
    split_tiles,
)
from mindlab.predict.tilings import Tiling, tiling

GRIDS = [(2, 1), (3, 1), (4, 1), (1, 3), (2, 2), (2, 3)]
# float32 of values up to 2; a convolution of another width may add in another order
CLOSE = 1e-5


def latents(norm: bool, height: int = 22, width: int = 17) -> tuple[nn.Module, Tensor]:
    """The decoder that ships, and a part of the photograph's latents (2, 4, height, width), mirrored too."""
    vae = load_vae(norm=norm)
    part = vae.encode(load_photo())[:, :, 20 : 20 + height, 20 : 20 + width]
    return vae.decoder, torch.cat([part, part.flip(3)])


def decoded(decoder: nn.Module, latent: Tensor, grid: Any, ways: dict[str, Any]) -> dict[str, Tensor]:
    """On a rank: its tile, decoded in each of these ways."""
    mine = split_tiles(latent, grid)[dist.get_rank()]
    return {name: decode_tiled(decoder, mine, grid=grid, **way) for name, way in ways.items()}


def errors(decoder: nn.Module, latent: Tensor, grid: Any, **ways: Any) -> dict[str, float]:
    """How far the joined tiles are from the whole, for each way."""
    with torch.no_grad():
        whole = decoder(latent)
    ranks = torch.Size(grid).numel()
    values = ml.launch(decoded, decoder, latent, grid, ways, ranks=ranks).values
    return {name: float((join_tiles([v[name] for v in values], grid) - whole).abs().max()) for name in ways}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_without_norms_the_halo_alone_is_exact(grid: Any) -> None:
    """Would catch a halo too small, zeros in a halo's place, corners left out, a tile smaller than its halo
    (4 tiles of 5 or 6 rows, a halo of 6) that asks its neighbour alone."""
    decoder, latent = latents(norm=False)
    ways = {"right": {}, "layer": {"exchange": "layer"}, "less": {"halo": 5}, "none": {"halo": 0}}
    found = errors(decoder, latent, grid, **ways)
    assert found["right"] <= CLOSE and found["layer"] <= CLOSE, found
    assert found["none"] > 0.1 and found["none"] > found["less"] > 3 * CLOSE, found


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_norms_need_shared_statistics(grid: Any) -> None:
    """Would catch a norm of the tile, and one that counts the halo's pixels twice: no halo mends it."""
    decoder, latent = latents(norm=True)
    alone = {"shared_statistics": False}
    ways = {"right": {}, "layer": {"exchange": "layer"}, "less": {"halo": 5},
            "alone": alone, "alone, wide": {**alone, "halo": 10}}  # fmt: skip
    found = errors(decoder, latent, grid, **ways)
    assert found["right"] <= CLOSE and found["layer"] <= CLOSE, found
    assert min(found["alone"], found["alone, wide"]) > 0.01, found
    assert found["less"] > 3 * CLOSE, found


@pytest.mark.parametrize("grid", [(1, 2, 2), (3, 1, 1), (2, 2, 1), (4, 1, 1)], ids=str)
@pytest.mark.parametrize("norm", [True, False])
def test_videos(grid: Any, norm: bool) -> None:
    """Would catch a halo of later frames, frames cut as rows, and one frame less that makes no difference."""
    torch.manual_seed(5)
    decoder, latent = video_decoder(norm=norm), torch.randn(2, 4, 7, 7, 9)
    less = [(3, 0), (2, 2), (2, 2)] if grid[0] > 1 else [(4, 0), (1, 1), (2, 2)]
    found = errors(decoder, latent, grid, right={}, layer={"exchange": "layer"}, less={"halo": less})
    assert found["right"] <= CLOSE and found["layer"] <= CLOSE and found["less"] > 3 * CLOSE, found


def test_half_precision_and_an_offset() -> None:
    """Would catch statistics in bfloat16, or E[x²] - E[x]²: an offset of 1000 leaves it nothing."""
    norm, x = nn.GroupNorm(2, 4), torch.randn(2, 4, 12, 5, generator=torch.Generator().manual_seed(1))
    norm.weight.data, norm.bias.data = torch.linspace(0.5, 1.5, 4), torch.linspace(1.5, 0.5, 4)
    ramp = torch.linspace(0, 5, 12).view(1, 1, -1, 1)
    for offset, dtype, times in ((1000.0, torch.float32, 3), (0.0, torch.bfloat16, 1.5)):
        # one card rounds its output only; statistics in bfloat16 are 2.4 times as far off
        given = (x + ramp + offset).to(dtype)
        right = norm.double()(given.double()).detach()
        decoder = norm.to(dtype).requires_grad_(False)
        close = times * float((decoder(given).double() - right).abs().max())
        run = ml.launch(decoded, decoder, given, (3, 1), {"right": {}}, ranks=3)
        out = join_tiles([v["right"] for v in run.values], (3, 1))
        assert out.dtype == dtype and float((out.double() - right).abs().max()) <= close


def layer_bytes(decoder: nn.Module, latent: Tensor, grid: Any) -> list[int]:
    """What each rank sends with a halo before each layer, from the shapes that one card sees."""
    units, shapes = looking_around(decoder), []
    hooks = [u.register_forward_pre_hook(lambda _, x: shapes.append(x[0].shape)) for u, _ in units]
    with torch.no_grad():
        decoder(latent)
    for hook in hooks:
        hook.remove()
    total = [0] * torch.Size(grid).numel()
    for shape, (_, field) in zip(shapes, units, strict=True):
        factors = [now // before for now, before in zip(shape[2:], latent.shape[2:], strict=True)]
        cut = tiling(latent.shape[2:], grid).scaled(factors)
        for move in cut.moves(field.sides):
            total[move.source] += shape[:2].numel() * 4 * torch.Size(map(len, move.box)).numel()
    return total


@pytest.mark.parametrize("grid", [(3, 1), (4, 1), (2, 2)], ids=str)
def test_bytes_are_those_of_the_formula(grid: Any) -> None:
    """Would catch halos sent to those who need none, sent twice, or whole tiles in their place."""
    size, ranks = (22, 17), torch.Size(grid).numel()
    shape = {"channels": 4, "itemsize": 4, "batch": 2}
    latent = ml.volume.halo_exchange(size, grid, 6, **shape)
    received = ml.volume.halo_exchange_received(size, grid, 6, **shape)
    assert latent.value == received.value
    norms = ml.volume.norm_statistics(7, 8, ranks, batch=2)
    for norm in (False, True):
        decoder, z = latents(norm)
        for exchange in ("latent", "layer"):
            way = {"way": {"tiles": tiling(size, grid), "exchange": exchange}}
            run = ml.launch(decoded, decoder, z, grid, way, ranks=ranks)
            halos = list(latent.by_rank(ranks)) if exchange == "latent" else layer_bytes(decoder, z, grid)
            right = [sent + norm * int(norms) for sent in halos]
            assert run.sent.tolist() == right, (norm, exchange)
            if run.wire is not None and run.wire.sent is not None:
                assert run.wire.sent.tolist() == right, (norm, exchange)
            if exchange == "latent" and not norm:
                assert run.received.tolist() == list(received.by_rank(ranks))


def test_uneven_tiles() -> None:
    """Would catch tiles taken for tensor_split's, and a tile of one row in the middle of a halo."""
    decoder, latent = latents(norm=True)
    uneven = Tiling(((12, 1, 9), (5, 12)))
    whole = decoder(latent)

    def call() -> Tensor:
        rows, columns = uneven.tile(dist.get_rank())
        mine = latent[:, :, rows.start : rows.stop, columns.start : columns.stop].contiguous()
        assert agreed_tiling(mine, grid=(3, 2)) == uneven
        return decode_tiled(decoder, mine, grid=(3, 2))

    parts = ml.launch(call, ranks=6).values
    assert float((join_tiles(parts, (3, 2)) - whole).abs().max()) <= CLOSE


def test_halo_pixels_are_the_others() -> None:
    """Would catch a halo turned round, shifted, or of zeros, where the values say where they came from."""
    x = torch.arange(63.0).view(1, 1, 9, 7)

    def call() -> list[Tensor]:
        group = dist.new_group([3, 0, 1, 2])
        cut = tiling((9, 7), (2, 2))
        mine = split_tiles(x, (2, 2))[dist.get_rank(group)]
        return [exchange_halo(mine, halo, cut, group) for halo in (0, 2, 20)]

    for rank, found in enumerate(ml.launch(call, ranks=4).values):
        cut = tiling((9, 7), (2, 2))
        for halo, out in zip((0, 2, 20), found, strict=True):
            rows, columns = cut.wide(rank, ((halo, halo),) * 2)
            assert torch.equal(out[0, 0], x[0, 0][rows.start : rows.stop, columns.start : columns.stop])


def test_layers_that_stride() -> None:
    """Would catch a tile with its halo that starts at an odd row, where the whole starts at an even one."""
    vae, photo = load_vae(norm=False), load_photo()[:, :, :96, :64]
    assert receptive_field(vae.encoder).align == (4, 4)
    found = errors(vae.encoder, photo, (3, 1), right={})
    # values of up to 10: float32 has steps of 1e-6 there
    assert found["right"] <= 2e-5, found


class Stretched(nn.Module):
    """Linear up-sampling as a function, which looks at one pixel around, between convolutions."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Sequential(nn.GroupNorm(2, 4) if norm else nn.SiLU(), self.first)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 4, 2 height, 2 width) from (B, 4, height, width)."""
        return self.second(F.interpolate(self.first(x), scale_factor=2, mode="bilinear"))


def test_a_function_that_looks_around() -> None:
    """Would catch a halo for modules alone, and a layer that is used twice and fetches twice."""
    torch.manual_seed(2)
    latent = torch.randn(1, 4, 11, 6)
    ways = {"right": {}, "layer": {"exchange": "layer"}}
    assert max(errors(Stretched(False), latent, (3, 1), **ways).values()) <= CLOSE
    twice = nn.Sequential(conv := nn.Conv2d(4, 4, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2), conv)
    assert max(errors(nn.Sequential(twice, twice[0]), latent, (3, 1), **ways).values()) <= CLOSE
    assert errors(Stretched(True), latent, (3, 1), right={})["right"] <= CLOSE
    with pytest.raises(ml.MindlabError, match="has norms inside"):
        errors(Stretched(True), latent, (3, 1), layer={"exchange": "layer"})


def test_the_decoder_is_left_as_it_was() -> None:
    """Would catch a forward pass that stays replaced, also when the decoder fails."""
    decoder, latent = latents(norm=True)
    right = decoder(latent)

    def call() -> tuple[Tensor, bool]:
        mine = split_tiles(latent, (2, 1))[dist.get_rank()]
        decode_tiled(decoder, mine, exchange="layer")
        with pytest.raises(RuntimeError):
            decode_tiled(decoder, mine[:, :3])
        return decoder(latent), any("forward" in vars(module) for module in decoder.modules())

    for out, changed in ml.launch(call, ranks=2).values:
        assert not changed and torch.allclose(out, right, atol=CLOSE)


def test_refusals() -> None:
    """Would catch tiles that do not fit together, a grid of other ranks, a decoder that loses pixels."""
    conv = nn.Conv2d(1, 1, 3, padding=1)
    tile = torch.zeros(1, 1, 5, 4)
    calls: dict[str, tuple[Any, str]] = {
        "grid": (lambda: decode_tiled(conv, tile, grid=(2, 2)), r"grid=\(2, 2\) .* give one tile a rank"),
        "dims": (lambda: decode_tiled(conv, tile[0]), "ranks|dims"),
        "tiles": (lambda: decode_tiled(conv, tile, tiles=tiling((9, 4), (3, 1))), "the tiling says"),
        "pixels": (lambda: decode_tiled(nn.Conv2d(1, 1, 3), tile), "no whole multiple"),
        "exchange": (lambda: decode_tiled(conv, tile, exchange="both"), "exchange='both' is unknown"),
        "both": (lambda: decode_tiled(conv, tile, halo=1, exchange="layer"), "leave halo out"),
        "halo": (lambda: decode_tiled(conv, tile, halo=-1), "halo=-1"),
        "pair": (lambda: decode_tiled(conv, tile, halo=[(1, 1)]), "give a pair for each"),
        "stride": (
            lambda: decode_tiled(nn.Conv2d(1, 1, 3, stride=2, padding=1), tile),
            "choose a multiple of 2",
        ),
        "beside": (
            lambda: decode_tiled(conv, torch.zeros(1, 1, 5, 4 + dist.get_rank())),
            "tiles beside each other differ in dim 1",
        ),
    }

    def call() -> dict[str, str]:
        said = {}
        for name, (one, _) in calls.items():
            with pytest.raises(ValueError) as problem:
                one()
            said[name] = str(problem.value)
        return said

    for said in ml.launch(call, ranks=3).values:
        for name, (_, words) in calls.items():
            with pytest.raises(ValueError, match=words):
                raise ValueError(said[name])
    with pytest.raises(ValueError, match="do not make a grid"):
        join_tiles([tile, tile, tile], (2, 1))


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(tiles)
    assert found.failed == 0 and found.attempted
