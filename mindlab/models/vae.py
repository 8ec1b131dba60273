"""A small convolutional image autoencoder: pictures to latents, a quarter as high and wide, and back.

Built as the autoencoders of diffusion models are: residual blocks of GroupNorm, SiLU and convolution, nearest
up-sampling followed by a convolution (Rombach et al. 2022, which adds one attention layer; here is none).

    images    (B, 3, height, width), -1 to 1
    latents   (B, 4, height / 4, width / 4)

`norm=False` leaves the GroupNorms out: then a pixel depends on its neighbourhood alone, with them on the
mean and variance of the whole picture. Both are trained on the two photographs that scikit-learn ships and
know little else. `python -m mindlab.models.train vae` (and `vae_plain`) makes the weights.
"""

from __future__ import annotations

from safetensors.torch import load_file
from torch import Tensor, nn

from mindlab.models.weights import load_weights, shipped
from mindlab.predict.shapes import check_whole

SCALE = 4
"""Pixels of the picture on each side of one latent pixel."""
CHANNELS = 4
"""Of a latent."""
_GROUPS = 8


class ResidualBlock(nn.Module):
    """x and what two convolutions of 3 x 3 add to it: (B, outputs, height, width) from (B, inputs, …).

    >>> ResidualBlock(8, 16)(torch.zeros(1, 8, 5, 7)).shape
    torch.Size([1, 16, 5, 7])
    """

    def __init__(self, inputs: int, outputs: int, *, norm: bool = True) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *activated(inputs, norm), conv(inputs, outputs), *activated(outputs, norm), conv(outputs, outputs)
        )
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, outputs, height, width) from x (B, inputs, height, width)."""
        out: Tensor = self.skip(x) + self.body(x)
        return out


class VAE(nn.Module):
    """The picture again, (B, 3, height, width), from pictures whose sides 4 divides; `decoder` from latents.

    >>> VAE().decoder(torch.zeros(1, 4, 5, 7)).shape
    torch.Size([1, 3, 20, 28])
    """

    def __init__(self, wide: int = 48, narrow: int = 32, *, norm: bool = True) -> None:
        super().__init__()
        check_whole(1, wide=wide, narrow=narrow)
        self.encoder = nn.Sequential(
            conv(3, narrow),
            ResidualBlock(narrow, narrow, norm=norm),
            nn.Conv2d(narrow, narrow, 3, stride=2, padding=1),
            ResidualBlock(narrow, narrow, norm=norm),
            nn.Conv2d(narrow, wide, 3, stride=2, padding=1),
            *activated(wide, norm),
            conv(wide, 2 * CHANNELS),
        )
        self.decoder = nn.Sequential(
            conv(CHANNELS, wide),
            ResidualBlock(wide, wide, norm=norm),
            nn.Upsample(scale_factor=2),
            conv(wide, wide),
            ResidualBlock(wide, narrow, norm=norm),
            nn.Upsample(scale_factor=2),
            conv(narrow, narrow),
            ResidualBlock(narrow, narrow, norm=norm),
            *activated(narrow, norm),
            conv(narrow, 3),
        )

    def moments(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the latents of images, each (B, 4, height/4, width/4)."""
        check_images(images)
        mean, log_variance = self.encoder(images).chunk(2, 1)
        return mean, log_variance.clamp(-20, 10)

    def encode(self, images: Tensor) -> Tensor:
        """The likeliest latents (B, 4, height/4, width/4) of images (B, 3, height, width)."""
        return self.moments(images)[0]

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, height, width) from images (B, 3, height, width), through the latents."""
        out: Tensor = self.decoder(self.encode(images))
        return out


def conv(inputs: int, outputs: int) -> nn.Conv2d:
    """A convolution of 3 x 3 that keeps the size; zeros lie around the picture."""
    return nn.Conv2d(inputs, outputs, 3, padding=1)


def activated(channels: int, norm: bool) -> list[nn.Module]:
    """SiLU, after a GroupNorm if there is one."""
    return [nn.GroupNorm(_GROUPS, channels), nn.SiLU()] if norm else [nn.SiLU()]


def load_vae(*, norm: bool = True) -> VAE:
    """The trained autoencoder that ships, float32, on the CPU; without norms if asked for.

    >>> sum(tensor.numel() for tensor in load_vae().parameters()) < 250_000
    True
    """
    model = VAE(norm=norm)
    load_weights(model, shipped("vae" if norm else "vae_plain"))
    return model


def load_photo() -> Tensor:
    """A photograph, (1, 3, 208, 320) from -1 to 1: the Summer Palace in Beijing, by danielbuechele.

    "china.jpg" of scikit-learn at half its size (CC BY 2.0, see data/photo.LICENSE.txt). It lies here so that
    a chapter needs no scikit-learn.

    >>> load_photo().shape
    torch.Size([1, 3, 208, 320])
    """
    return load_file(str(shipped("photo")))["china"].float().unsqueeze(0) / 127.5 - 1


def check_images(images: Tensor) -> None:
    """Raises ValueError if these are no pictures that 4 divides."""
    if images.ndim != 4 or images.shape[1] != 3 or any(side % SCALE or not side for side in images.shape[2:]):
        raise ValueError(
            f"images {tuple(images.shape)}: give (batch, 3, height, width), both sides multiples of {SCALE}"
        )
