"""Trains the digits' diffusion transformer on scikit-learn's 1797 handwritten digits.

The data: Alpaydin and Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI machine learning
repository (CC BY 4.0), its test part as scikit-learn ships it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mindlab.models.digits import NULL, DigitsModel, noisy
from mindlab.models.training import fit

STEPS, BATCH = 4000, 128
UNLABELLED = 0.15
"""The share of pictures shown with the label NULL, so that the model also learns to want none."""


def real_digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's digits: images (1797, 1, 8, 8) from -1 to 1, and their labels (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as missing:
        raise ModuleNotFoundError(
            "the digits to train on come with scikit-learn, which is not installed: pip install scikit-learn"
        ) from missing
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    return images, torch.tensor(data.target, dtype=torch.int64)


def train_digits(steps: int = STEPS, seed: int = 0) -> tuple[DigitsModel, list[float]]:
    """The trained model and the loss of each step: the mean squared error of the predicted noise."""
    images, labels = real_digits()
    torch.manual_seed(seed)
    model = DigitsModel()

    def loss(generator: torch.Generator) -> Tensor:
        drawn = torch.randint(len(images), (BATCH,), generator=generator)
        wanted = labels[drawn].clone()
        wanted[torch.rand(BATCH, generator=generator) < UNLABELLED] = NULL
        t = torch.rand(BATCH, generator=generator)
        epsilon = torch.randn(BATCH, 1, 8, 8, generator=generator)
        predicted: Tensor = model(noisy(images[drawn], epsilon, t), t, wanted)
        return (predicted - epsilon).square().mean()

    return model, fit(model, loss, steps=steps, seed=seed)
