"""How far a network looks: by its layers, against a gradient; and what is not known is refused by name."""

from __future__ import annotations

import doctest
import random
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.vae import VAE
from mindlab.models.video import CausalConv3d, video_decoder
from mindlab.parallel import receptive
from mindlab.parallel.receptive import receptive_field
from mindlab.parallel.tiles import decode_tiled, join_tiles, split_tiles


class Sum(nn.Module):
    """x, and what a network makes of it, added."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """As large as x."""
        return x + F.relu(self.body(x))


def drawn(dims: int, seed: int) -> nn.Sequential:
    """A random network of 2 to 5 layers: strides, dilations, residuals, every kind of up-sampling."""
    draw = random.Random(seed)
    conv, transposed, pool = (getattr(nn, f"{kind}{dims}d") for kind in ("Conv", "ConvTranspose", "AvgPool"))

    def plain() -> nn.Module:
        k = tuple(draw.choice([1, 3, 5] if dims == 2 else [1, 3]) for _ in range(dims))
        dilation = draw.choice([1, 1, 2])
        return conv(2, 2, k, dilation=dilation, padding=tuple((one // 2) * dilation for one in k))

    kinds = [
        plain,
        lambda: Sum(nn.Sequential(plain(), nn.SiLU(), plain())),
        lambda: nn.Upsample(scale_factor=2),
        lambda: nn.Upsample(scale_factor=2, mode="bilinear" if dims == 2 else "trilinear"),
        lambda: transposed(2, 2, 4, stride=2, padding=1),
        lambda: conv(2, 2, 3, stride=2, padding=1),
        lambda: pool(2),
    ]
    if dims == 2:
        kinds.append(lambda: nn.Sequential(conv(2, 8, 3, padding=1), nn.PixelShuffle(2)))
    else:
        kinds.append(lambda: CausalConv3d(2, 2))
    layers = [draw.choice(kinds)() for _ in range(draw.randint(2, 5 if dims == 2 else 4))]
    return nn.Sequential(plain(), *layers)


def probed(network: nn.Module, dims: int, scale: Any, align: Any) -> tuple[tuple[int, int], ...]:
    """What a tile's gradient reaches beyond the tile, dim by dim; weights above 0, so nothing cancels."""
    network = network.double()
    for parameter in network.parameters():
        nn.init.uniform_(parameter, 0.5, 1.0)
    found = []
    for axis in range(dims):
        size = [8 * align[each] for each in range(dims)]
        size[axis], start = 64, 32 // align[axis] * align[axis]  # align is a power of two here
        stop = start + align[axis]
        # a small value, so that SiLU's slope stays above 0 and nothing overflows
        x = torch.full((1, 2, *size), 1e-3, dtype=torch.float64, requires_grad=True)
        out = network(x)
        tile = out.narrow(axis + 2, int(start * scale[axis]), int((stop - start) * scale[axis]))
        (slope,) = torch.autograd.grad(tile.sum(), x)
        touched = (slope.movedim(axis + 2, 0).flatten(1) != 0).any(1).nonzero().flatten()
        found.append((max(0, start - int(touched[0])), max(0, int(touched[-1]) - stop + 1)))
    return tuple(found)


@pytest.mark.parametrize(("dims", "seed"), [(2, s) for s in range(14)] + [(3, s) for s in range(10)])
def test_a_gradient_reaches_as_far(dims: int, seed: int) -> None:
    """Would catch a dilation, stride or up-sampling counted on the wrong side, a branch left out."""
    network = drawn(dims, seed)
    field = receptive_field(network)
    assert field.keeps_size and field.sides == probed(network, dims, field.scale, field.align), network


def test_the_networks_differ() -> None:
    """Would catch random networks that are all alike, or look nowhere."""
    fields = [receptive_field(drawn(2, seed)) for seed in range(14)]
    assert len({field.sides for field in fields}) > 8
    assert {1, 2} <= {field.align[0] for field in fields}


def test_by_hand() -> None:
    """Would catch a halo counted before up-sampling: behind it a convolution looks half as far."""
    after = nn.Sequential(nn.Upsample(scale_factor=2), *(nn.Conv2d(2, 2, 3, padding=1) for _ in range(2)))
    assert receptive_field(after).sides == ((1, 1), (1, 1))
    before = nn.Sequential(*(nn.Conv2d(2, 2, 3, padding=1) for _ in range(2)), nn.Upsample(scale_factor=2))
    assert receptive_field(before).sides == ((2, 2), (2, 2))
    assert receptive_field(VAE().decoder).sides == ((6, 6), (6, 6))
    assert receptive_field(nn.Conv2d(1, 1, (1, 7), padding="same")).sides == ((0, 0), (3, 3))
    assert receptive_field(nn.SiLU()).sides == ((0, 0), (0, 0))


def test_time_is_causal() -> None:
    """Would catch a halo of later frames."""
    field = receptive_field(video_decoder())
    assert field.sides[0] == (4, 0) and field.sides[1] == field.sides[2] == (2, 2)


def test_norms_are_listed() -> None:
    """Would catch a halo that looks complete where a norm reads the whole picture."""
    assert len(receptive_field(VAE().decoder).norms) == 7
    assert receptive_field(VAE(norm=False).decoder).norms == ()


class Turned(nn.Module):
    """A forward pass that decides by the data."""

    def forward(self, x: Tensor) -> Tensor:
        """x or -x."""
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Conv2d(4, 4, 3), nn.InstanceNorm2d(4)), r"'1' \(InstanceNorm2d\) is no layer"),
        (nn.Sequential(nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1)), r"'1' \(AdaptiveAvgPool2d\)"),
        (nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)), r"'1' \(BatchNorm2d\)"),
        (nn.Sequential(nn.Sequential(nn.Flatten())), r"'0.0' \(Flatten\)"),
        (nn.Upsample(scale_factor=1.5), "Upsample"),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), r"'0' \(Conv2d\)"),
        (Turned(), "Turned cannot be read layer by layer"),
        (nn.Bilinear(1, 1, 1), "no layer|inputs"),
    ],
)
def test_what_is_not_known_is_refused(module: nn.Module, words: str) -> None:
    """Would catch an unknown layer taken for one that looks nowhere."""
    with pytest.raises(ValueError, match=words):
        receptive_field(module)


def test_a_halo_of_ones_own() -> None:
    """Would catch a decoder that cannot be read refused though its halo is given; halos in bfloat16."""
    torch.manual_seed(1)
    decoder = nn.Sequential(conv := nn.Conv2d(1, 1, 3, padding=1), Turned()).bfloat16()
    x, halo = torch.rand(1, 1, 7, 4).bfloat16(), receptive_field(conv)
    nn.init.constant_(conv.weight, 0.5)  # above 0 everywhere, so that every tile decides alike
    nn.init.constant_(conv.bias, 0.5)

    def call() -> Tensor:
        return decode_tiled(decoder, split_tiles(x, (3, 1))[dist.get_rank()], halo=halo)

    out = join_tiles(ml.launch(call, ranks=3).values, (3, 1))
    # the same nine products, whose sum may be rounded to 8 bits in another order
    torch.testing.assert_close(out, decoder(x).detach(), atol=0, rtol=2**-7)
    with pytest.raises(ValueError, match="or decode_tiled a Halo of your own"):
        receptive_field(decoder)


def test_padding_that_loses_pixels_is_seen() -> None:
    """Would catch a decoder whose tiles would not fit together."""
    assert not receptive_field(nn.Conv2d(1, 1, 3)).keeps_size
    assert receptive_field(CausalConv3d(1, 1)).keeps_size


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(receptive)
    assert found.failed == 0 and found.attempted
