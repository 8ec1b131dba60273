"""Corners of decoding, tiles and meshes that a wrong line could have kept."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from attention_data import exact, qkv
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.latent import LatentAttention, turned
from mindlab.models.vae import load_vae
from mindlab.parallel.blending import weight
from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import decode_attention
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.latent import decode_latent, latent_cache
from mindlab.parallel.mesh import hybrid_mesh, join_hybrid, own_shard, place_on, split_hybrid
from mindlab.parallel.receptive import receptive_field
from mindlab.parallel.tiles import decode_tiled, exchange_halo, join_tiles, split_tiles
from mindlab.predict.caches import held_positions
from mindlab.predict.meshes import check_product
from mindlab.predict.tilings import Tiling, sides_of, tiling


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_scale_of_ones_own_where_lengths_differ(ranks: int) -> None:
    """The scale lost where requests are attended one by one."""
    q, k, v = qkv(1, 4, heads=2, kv_heads=2, dim=6, batch=2)

    def decode() -> Tensor:
        mine = slice(dist.get_rank(), None, ranks)
        lengths = [len(range(dist.get_rank(), length, ranks)) for length in (3, 1)]
        return decode_attention(q, k[:, mine], v[:, mine], lengths=lengths, scale=0.5)

    right = torch.cat(
        [
            exact(q[i : i + 1], k[i : i + 1, :n], v[i : i + 1, :n], False, scale=0.5)[0]
            for i, n in ((0, 3), (1, 1))
        ]
    )
    for value in ml.launch(decode, ranks=ranks).values:
        assert float((value - right).abs().max()) <= 1e-5


def test_a_request_filled_again_and_room_of_every_request() -> None:
    """A fill behind what was there before; room asked of the first request only, and the last overwritten."""

    def fill() -> tuple[list[int], list[int], Tensor]:
        cache = ShardedCache(2, 6, 1, (1,))
        cache.append(torch.ones(1, 3, 1, 1), requests=[1])
        own = torch.arange(5.0)[dist.get_rank() :: 2]
        cache.fill(1, 5, own.view(-1, 1, 1))
        kept = cache.shard[0][1, : len(own), 0, 0].clone()
        cache.append(torch.ones(1, 1, 1, 1), requests=[1])
        before = list(cache.lengths)
        with pytest.raises(ValueError, match="6"):
            cache.append(torch.ones(2, 1, 1, 1))
        return before, list(cache.lengths), kept

    for rank, (before, after, kept) in enumerate(ml.launch(fill, ranks=2).values):
        assert before == after == [0, 6]
        assert kept.tolist() == list(range(rank, 5, 2))


def test_latents_in_a_group_of_the_ranks() -> None:
    """A merge over all ranks where the cache lies on two of them."""
    torch.manual_seed(1)
    layer, x = LatentAttention(20, 6, 14, 4, head_dim=10).requires_grad_(False), torch.randn(2, 5, 20)

    def decode() -> Tensor:
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        cache = latent_cache(layer, 2, 5, group=groups[dist.get_rank() // 2])
        mine = x if dist.get_rank() < 2 else -x
        return torch.cat([decode_latent(layer, mine[:, at : at + 1], cache) for at in range(5)], 1)

    for rank, value in enumerate(ml.launch(decode, ranks=4).values):
        assert float((value - layer(x if rank < 2 else -x)).abs().max()) <= 1e-5


def test_pairs_turn_as_the_paper_says() -> None:
    """Another speed of the second pair: distances alone would still hold."""
    out = turned(torch.tensor([0.0, 1.0, 0.0, 0.0]), torch.tensor(1))
    assert torch.allclose(out, torch.tensor([0.0, math.cos(0.01), 0.0, math.sin(0.01)]), atol=1e-7)


class Padded(nn.Module):
    """A pixel more at the end, and a window of two."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, (2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (0, 0, 0, 1)))


NETWORKS: dict[str, tuple[nn.Module, str]] = {
    "even kernels, same": (
        nn.Sequential(*(nn.Conv2d(2, 2, kernel, padding="same") for kernel in (2, 4))),
        "latent",
    ),
    "padding in a function": (Padded(), "latent"),
    "padding in a function, by layer": (nn.Sequential(Padded(), nn.SiLU(), Padded()), "layer"),
    "dilated and transposed": (
        nn.ConvTranspose2d(2, 2, 3, stride=3, dilation=2, padding=1, output_padding=0),
        "latent",
    ),
    "the encoder, by layer": (load_vae(norm=False).encoder, "layer"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_tiles_of_networks_that_look_one_way_more(name: str) -> None:
    """Before and after in each other's place, strides forgotten, a function's padding not seen."""
    network, exchange = NETWORKS[name]
    network = network.requires_grad_(False)
    channels = next(network.parameters()).shape[1]
    x = torch.randn(1, channels, 24, 12, generator=torch.Generator().manual_seed(2))

    def tiled(network: nn.Module) -> Tensor:
        return decode_tiled(network, split_tiles(x, (3, 1))[dist.get_rank()], exchange=exchange)

    whole = join_tiles(ml.launch(tiled, network, ranks=3).values, (3, 1))
    assert float((whole - network(x)).abs().max()) <= 1e-5


class Joined(nn.Module):
    """Two pictures, one under the other."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], 2)


def test_layers_whose_halo_nobody_knows_are_refused() -> None:
    """Windows that end beyond the picture, pictures joined along a side, zeros drawn anew on each tile."""
    for module in (nn.MaxPool2d(3, 2, ceil_mode=True), Joined(), nn.Dropout(0.5).train()):
        with pytest.raises(ValueError, match="is no layer whose halo is known"):
            receptive_field(nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), module))
    assert receptive_field(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Dropout(0.5)).eval()).sides == ((0, 0),) * 2


def test_tiles_are_checked_beyond_the_first() -> None:
    """Tiles of another size than strides allow, behind one that fits; two grids that contradict."""
    network = nn.Sequential(nn.Conv2d(1, 1, 3, stride=2, padding=1)).requires_grad_(False)
    x = torch.zeros(1, 1, 9, 8)

    def tiled(tiles: Tiling, grid: Any) -> Tensor:
        mine = tiles.tile(dist.get_rank())
        part = x[:, :, mine[0].start : mine[0].stop, mine[1].start : mine[1].stop]
        return decode_tiled(network, part, tiles=tiles, grid=grid)

    with pytest.raises(ml.MindlabError, match="multiple"):
        ml.launch(tiled, Tiling(((4, 5), (8,))), None, ranks=2)
    with pytest.raises(ml.MindlabError, match="give one tile a rank"):
        ml.launch(tiled, Tiling(((4, 4), (8,))), (1, 2), ranks=2)


@pytest.mark.parametrize("grid", [(3, 1), (2, 2)])
def test_bytes_of_halos_before_a_stride(grid: tuple[int, int]) -> None:
    """The formula without the pixels that strides add to a halo."""
    encoder = load_vae(norm=False).encoder.requires_grad_(False)
    field = receptive_field(encoder)
    channels = next(encoder.parameters()).shape[1]
    x = torch.randn(1, channels, 48, 32)

    def exchanged() -> None:
        part = split_tiles(x, grid)[dist.get_rank()]
        exchange_halo(part, field.sides, tiling((48, 32), grid), align=field.align)

    size = {"channels": channels, "itemsize": 4, "align": field.align}
    run = ml.launch(exchanged, ranks=math.prod(grid))
    sent = ml.volume.halo_exchange((48, 32), grid, field.sides, **size)
    received = ml.volume.halo_exchange_received((48, 32), grid, field.sides, **size)
    assert run.sent.tolist() == list(sent.by_rank(run.ranks))
    assert received.value == pytest.approx(sent.value)


def test_weights_of_blended_tiles() -> None:
    """A ramp at the picture's own end, and a ramp that is half as long."""
    assert weight((range(6, 12),), (12,), (4,)).tolist() == [0.125, 0.375, 0.625, 0.875, 1.0, 1.0]


def test_slips_on_a_mesh() -> None:
    """Too many shards joined, and lengths below nothing."""
    shards = split_hybrid(torch.arange(8), ring=2, ulysses=2, dim=0)
    with pytest.raises(ValueError, match="shards"):
        join_hybrid([*shards, shards[0]], ring=2, ulysses=2, dim=0)

    def attend(sizes: Any) -> None:
        mesh = hybrid_mesh(ring=2, ulysses=2)
        shard = own_shard(torch.ones(1, 8, 4, 4), mesh)
        hybrid_attention(shard, shard, shard, mesh, sizes=sizes)

    with pytest.raises(ml.MindlabError, match="-1"):
        ml.launch(attend, [[3, -1], [2, 4]], ranks=4)


def test_what_does_not_fit_is_refused_in_plain_words() -> None:
    """Python's own words where a number, a grid or a mesh is none; half a pixel cut off in silence."""
    picture = torch.zeros(1, 1, 4, 4)
    for halo in ((1, 1), "1", 1.0):
        with pytest.raises(ValueError, match=r"a pair \(before, after\) for each dim"):
            sides_of(halo, 2)  # type: ignore[arg-type]
    assert sides_of(np.int64(1), 2) == ((1, 1), (1, 1))  # type: ignore[arg-type]
    for refused, words in (
        (lambda: split_tiles(picture, 2), r"grid=2: give the tiles along each dim"),  # type: ignore[arg-type]
        (lambda: Tiling(((2.5, 2),)), "give whole numbers, one tuple a dim"),  # type: ignore[arg-type]
        (lambda: Tiling((5, 4)), "give whole numbers, one tuple a dim"),  # type: ignore[arg-type]
        (lambda: tiling((4, 4), (2, 1)).tile(-1), "rank -1 has no tile: there are 2"),
        (lambda: held_positions(0, 9, 5, 3), "ranks=3: give a whole number from 6 on"),
        (lambda: LatentAttention(8, 2, 4, 2, head_dim=0), "head_dim=0: give a whole number from 1 on"),
        (lambda: check_product([2, 2], 4), "give sizes by name"),  # type: ignore[arg-type]
        (lambda: split_hybrid(torch.arange(4), ring=2, ulysses=0, dim=0), "ulysses=0: give a whole number"),
        (lambda: place_on(None, "ring"), "mesh is a NoneType: make one with"),  # type: ignore[arg-type]
        (lambda: ml.draw.mesh({"ring": 2}, around=("rnig",)), "around names 'rnig'"),
        (
            lambda: ml.draw.seams({"a": torch.zeros(3, 4, 4)}, torch.zeros(3, 4, 4), between=(0, math.inf)),
            "both finite",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            refused()


def test_dims_of_a_part_without_a_convolution() -> None:
    """Three dims taken for two: a halo asked for that no video has."""
    assert receptive_field(nn.Upsample(scale_factor=2, mode="trilinear")).sides == ((1, 1),) * 3


@pytest.mark.parametrize("exchange", ["latent", "layer"])
@pytest.mark.parametrize("grid", [None, (3,)])
def test_tiles_of_one_dim(exchange: str, grid: Any) -> None:
    """A sequence, of sound say, that no grid fits."""
    network = nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2))
    network, x = network.requires_grad_(False), torch.randn(1, 2, 11)

    def tiled(network: nn.Module) -> Tensor:
        return decode_tiled(network, split_tiles(x, (3,))[dist.get_rank()], grid=grid, exchange=exchange)

    whole = join_tiles(ml.launch(tiled, network, ranks=3).values, (3,))
    assert torch.allclose(whole, network(x), atol=1e-6)
