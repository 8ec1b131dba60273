"""The autoencoder that ships gives the photograph again, and its norms see the whole picture."""

from __future__ import annotations

import doctest

import pytest
import torch
from torch import Tensor, nn

from mindlab.models import vae, video
from mindlab.models.train_vae import halved, photographs
from mindlab.models.vae import VAE, load_photo, load_vae
from mindlab.models.video import video_decoder


def blurred(photo: Tensor) -> Tensor:
    """The photograph from one pixel in four each way, as many numbers as three latent channels have."""
    return nn.functional.interpolate(nn.functional.avg_pool2d(photo, 4), scale_factor=4, mode="bilinear")


@pytest.mark.parametrize("norm", [True, False])
def test_the_photograph_comes_back(norm: bool) -> None:
    """Would catch weights that draw something else, or no better than one made small and large again."""
    model, photo = load_vae(norm=norm), load_photo()
    latent = model.encode(photo)
    assert latent.shape == (1, 4, 52, 80) and 0.3 < float(latent.std()) < 4
    off = (model(photo) - photo).abs().mean()
    assert off < 0.09 and off < 0.9 * (blurred(photo) - photo).abs().mean()
    assert not torch.equal(model.decoder(latent), model.decoder(latent.flip(3)).flip(3))


def test_norms_see_the_whole_picture() -> None:
    """Would catch norm=False that leaves a norm in, and norm=True that has none."""
    photo = load_photo()[:, :, :96, :96]
    for norm in (True, False):
        model = load_vae(norm=norm)
        latent = model.encode(photo)
        other = latent.clone()
        other[:, :, -1] += 1.0
        first_rows = (model.decoder(latent) - model.decoder(other))[:, :, :32]
        assert bool((first_rows.abs() > 1e-4).any()) == norm


def test_the_photograph_is_scikit_learns() -> None:
    """Would catch another picture than the one that is credited."""
    pytest.importorskip("sklearn")
    half = halved(photographs()["china"])[:, :, :208]
    assert (half - load_photo()).abs().max() <= 0.5 / 127.5 + 1e-6  # rounded to bytes


def test_a_frame_does_not_see_later_ones() -> None:
    """Would catch a video decoder that is not causal in time."""
    decoder, x = video_decoder(norm=False), torch.randn(1, 4, 4, 3, 3)
    other = x.clone()
    other[:, :, 2:] += 1.0
    same = (decoder(x) - decoder(other)).abs().amax((0, 1, 3, 4)) < 1e-6
    assert same.tolist() == [True] * 4 + [False] * 4


def test_pictures_that_do_not_fit_are_refused() -> None:
    """Would catch rows that are lost: latents of 5 rows and a picture of 20 from one of 22."""
    for shape in ((1, 3, 22, 16), (1, 1, 16, 16), (3, 16, 16), (1, 3, 0, 16)):
        with pytest.raises(ValueError, match="multiples of 4"):
            VAE().encode(torch.zeros(shape))


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    for module in (vae, video):
        found = doctest.testmod(module, extraglobs={"torch": torch})
        assert found.failed == 0 and found.attempted
