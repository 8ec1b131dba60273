"""A small model with a condition for the lessons of guidance, and what a wrong result resembles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Trial
from mindlab.trace import recorder

Tensor = torch.Tensor
DIMS = ("batch", "tokens", "features")
WIDTH = 16


class Model:
    """model(x, t, condition): x (B, S, 16), t (B,), condition (B, 16). Each call is stated as work."""

    def __init__(self, seed: int) -> None:
        self.up = inputs.normal(seed, "up", 24, WIDTH, scale=WIDTH**-0.5)
        self.down = inputs.normal(seed, "down", WIDTH, 24, scale=24**-0.5)

    def __call__(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """A prediction in x's shape."""
        if t.shape != x.shape[:1] or condition.shape != (len(x), WIDTH):
            raise ValueError(
                f"x {tuple(x.shape)}, t {tuple(t.shape)}, condition {tuple(condition.shape)}: give one t and "
                "one condition for each entry of the batch"
            )
        recorder.compute(2.0 * x.numel() * (len(self.up) + len(self.down)), what="model")
        inside = x + (condition * t.unsqueeze(1)).unsqueeze(1)
        return torch.nn.functional.gelu(inside @ self.up.T) @ self.down.T


def step(seed: int, trial: Trial) -> tuple[Tensor, Tensor]:
    """x (2, S, 16) and t (2,), the same on every rank."""
    return inputs.normal(seed, "x", 2, trial["tokens"], WIDTH), torch.tensor([0.4, 0.9])


def condition(seed: int, name: str | int) -> Tensor:
    """(2, 16), the same on every rank."""
    return inputs.normal(seed, f"condition {name}", 2, WIDTH)


def calls(attempt: Attempt, rank: int) -> int:
    """How often a rank called the model."""
    return sum(work.rank == rank and work.what == "model" for work in attempt.run.work)


def resembled(attempt: Attempt, likely: Callable[[Attempt, int], Mapping[str, Tensor]]) -> str:
    """Which of the likely mistakes a rank's result is, as a sentence; "" for none of them."""
    for rank, seen in enumerate(attempt.values):
        if near(seen, attempt.wanted[rank]):
            continue
        for name, other in likely(attempt, rank).items():
            if near(seen, other):
                return f"Rank {rank} returned {name}."
    return ""


def near(seen: Any, other: Tensor) -> bool:
    """Whether a result is this tensor, within what rounding does."""
    if not isinstance(seen, torch.Tensor) or seen.shape != other.shape:
        return False
    loose = 0.05 if other.itemsize < 4 else 1e-4
    return torch.allclose(seen.double(), other.double(), atol=loose, rtol=loose)
