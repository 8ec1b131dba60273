r"""How much work the convolutional decoder of a VAE is; reached through `ml.flops.vae_decoder`.

The usual image decoder (Rombach et al. 2022, diffusers' AutoencoderKL): a convolution from the latent, two
residual blocks, then levels of residual blocks with an up-sampling and a convolution between them, and a
convolution to colours. 3 x 3 convolutions only: the attention layer in the middle and 1 x 1 convolutions are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole


class Convolutions(NamedTuple):
    """`layers` convolutions of 3 x 3 one after the other, on `scale` x `scale` pixels for a latent pixel."""

    scale: int
    inputs: int
    outputs: int
    layers: int


def vae_convolutions(
    channels: Sequence[int] = (128, 256, 512, 512), *, blocks: int = 3, latent: int = 4
) -> list[Convolutions]:
    """The convolutions of a decoder, in order; `channels` by level, the finest first, as configs have them.

    >>> vae_convolutions()[0], len(vae_convolutions())
    (Convolutions(scale=1, inputs=4, outputs=512, layers=1), 10)
    """
    check_whole(1, blocks=blocks, latent=latent, levels=len(channels))
    check_whole(1, **{f"channels[{level}]": count for level, count in enumerate(channels)})
    coarse = channels[-1]
    rows = [Convolutions(1, latent, coarse, 1), Convolutions(1, coarse, coarse, 4)]
    before, scale = coarse, 1
    for level, wide in enumerate(reversed(channels)):
        if level:
            scale *= 2
            rows.append(Convolutions(scale, before, before, 1))
        rows += [Convolutions(scale, before, wide, 1), Convolutions(scale, wide, wide, 2 * blocks - 1)]
        before = wide
    rows.append(Convolutions(scale, before, 3, 1))
    return _joined(rows)


def vae_decoder(
    height: int,
    width: int,
    *,
    channels: Sequence[int] = (128, 256, 512, 512),
    blocks: int = 3,
    latent: int = 4,
) -> Quantity:
    r"""FLOP of decoding one picture from a latent of `height` x `width`: 18 c_in c_out a pixel and layer.

    >>> ml.flops.vae_decoder(128, 128)
    vae_decoder: 9.746 TFLOP (9,745,618,206,720 FLOP)
    """
    check_whole(1, height=height, width=width)
    each = sum(
        18 * one.inputs * one.outputs * one.scale**2 * one.layers
        for one in vae_convolutions(channels, blocks=blocks, latent=latent)
    )
    formula = r"18\,h\,w\sum_l 4^{l}\,c_{l-1}\,c_l"
    return Quantity(height * width * each, "FLOP", formula, sources.COUNTED_BY_HAND, name="vae_decoder")


def _joined(rows: Sequence[Convolutions]) -> list[Convolutions]:
    """Neighbours that are alike as one row."""
    found: list[Convolutions] = []
    for row in rows:
        if found and found[-1][:3] == row[:3]:
            found[-1] = row._replace(layers=found[-1].layers + row.layers)
        else:
            found.append(row)
    return found
