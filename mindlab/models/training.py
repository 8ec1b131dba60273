"""One loop for all the small models: AdamW, a rate that rises and falls, and an average of the weights.

One thread, everything seeded: the same machine and torch give the same weights. Elsewhere they differ a
little, and what must not differ, the quality, is tested.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

Loss = Callable[[torch.Generator], torch.Tensor]
"""loss(generator) -> the loss of one batch, drawn with the generator."""

WARM_UP = 100
AVERAGE = 0.995
"""The averaged weights remember about 200 steps: what ships is steadier than the last step."""


def fit(model: nn.Module, loss: Loss, *, steps: int, rate: float = 2e-3, seed: int = 0) -> list[float]:
    """The loss of each step. The model is trained, and at the end holds the average of its weights."""
    generator = torch.Generator().manual_seed(seed)
    average = copy.deepcopy(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: share_of_rate(step, steps))
    losses, start = [], time.monotonic()
    with one_thread():
        for step in range(steps):
            optimiser.zero_grad()
            now = loss(generator)
            now.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            blend(average, model, min(AVERAGE, (step + 1) / (step + 10)))
            losses.append(now.item())
            if step % 250 == 249:
                mean = sum(losses[-250:]) / 250
                print(
                    f"step {step + 1} of {steps}: loss {mean:.4f}, {time.monotonic() - start:.0f} s",
                    flush=True,
                )
    model.load_state_dict(average.state_dict())
    return losses


def share_of_rate(step: int, steps: int) -> float:
    """The learning rate at a step as a share of the highest: rising at first, then a half cosine to 0.

    It rises for `WARM_UP` steps, or a tenth of all if that is less.

    >>> share_of_rate(0, 1000), share_of_rate(99, 1000), round(share_of_rate(999, 1000), 4)
    (0.01, 1.0, 0.0)
    """
    rising = max(1, min(WARM_UP, steps // 10))
    done = max(0, step - rising) / max(1, steps - rising)
    return min(1.0, (step + 1) / rising) * (1 + math.cos(math.pi * done)) / 2


@torch.no_grad()
def blend(average: nn.Module, model: nn.Module, keep: float) -> None:
    """Moves the average towards the model: keep · average + (1 - keep) · model."""
    for old, new in zip(average.parameters(), model.parameters(), strict=True):
        old.lerp_(new, 1 - keep)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes with one thread inside: with more, the order of its sums may differ from run to run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
