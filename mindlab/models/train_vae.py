"""Trains the image autoencoder on the two photographs that scikit-learn ships.

china.jpg by the Flickr user danielbuechele and flower.jpg by vultilion, both CC BY 2.0; at
full and half size.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mindlab.models.training import fit
from mindlab.models.vae import VAE

STEPS, BATCH, CROP = 3000, 4, 96
DIVERGENCE = 1e-4
"""How much the latents' distance from a normal distribution counts beside the pixels' error."""


def photographs() -> dict[str, Tensor]:
    """scikit-learn's two photographs by name, (1, 3, 427, 640) from -1 to 1."""
    try:
        from sklearn.datasets import load_sample_images
    except ImportError as missing:
        raise ModuleNotFoundError(
            "the photographs to train on come with scikit-learn, which is not installed: "
            "pip install scikit-learn"
        ) from missing
    data = load_sample_images()
    pictures = [torch.tensor(image).permute(2, 0, 1).unsqueeze(0) / 127.5 - 1 for image in data.images]
    return {Path(name).stem: picture for name, picture in zip(data.filenames, pictures, strict=True)}


def halved(picture: Tensor) -> Tensor:
    """The picture at half its size: means of 2 x 2 pixels."""
    half: Tensor = nn.functional.avg_pool2d(picture, 2)
    return half


def crops(pictures: list[Tensor], generator: torch.Generator) -> Tensor:
    """(BATCH, 3, CROP, CROP), each from any place of any picture, half of them mirrored."""
    return torch.cat([_crop(pictures, generator) for _ in range(BATCH)])


def _crop(pictures: list[Tensor], generator: torch.Generator) -> Tensor:
    draw = partial(torch.randint, size=(), generator=generator)
    picture = pictures[int(draw(len(pictures)))]
    top, left = (int(draw(side - CROP + 1)) for side in picture.shape[2:])
    crop = picture[:, :, top : top + CROP, left : left + CROP]
    mirrored: Tensor = crop.flip(3) if draw(2) else crop
    return mirrored


def train_vae(steps: int = STEPS, seed: int = 0, *, norm: bool = True) -> tuple[VAE, list[float]]:
    """The trained autoencoder and the loss of each step: the pixels' mean absolute error, mostly."""
    full = list(photographs().values())
    pictures = full + [halved(each) for each in full]
    torch.manual_seed(seed)
    model = VAE(norm=norm)

    def loss(generator: torch.Generator) -> Tensor:
        images = crops(pictures, generator)
        mean, log_variance = model.moments(images)
        noise = torch.randn(mean.shape, generator=generator)
        out = model.decoder(mean + noise * (log_variance / 2).exp())
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
        total: Tensor = (out - images).abs().mean() + DIVERGENCE * divergence
        return total

    return model, fit(model, loss, steps=steps, rate=2e-3 if norm else 1e-3, seed=seed)


train_plain_vae = partial(train_vae, norm=False)
"""The autoencoder without norms, and its losses; see `train_vae`."""


def save_photo(path: Path | str) -> None:
    """Writes what `load_photo` reads: china.jpg at half its size, cut to sides that 16 divides, as bytes."""
    half = halved(photographs()["china"])[0, :, :208]
    save_file({"china": ((half + 1) * 127.5).round().to(torch.uint8).contiguous()}, str(path))
